"""Order that nobody asks for is not paid for: results are written where they are made."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.layout import lay_out

pytestmark = pytest.mark.spark


class Sale(NamedTuple):
    number: int
    shop: str
    amount: int


def running(total: int, sale: Sale) -> tuple[int, Sale]:
    total += sale.amount
    return total, Sale(sale.number, sale.shop, total)


def by_shop(name: str = "total") -> ab.Stream:
    sales = [Sale(n, f"shop{n * 7 % 11}", n % 5) for n in range(400)]
    return ab.from_iterable(sales, Sale).key_by("shop").scan(running, 0, name=name)


def rows_of(folder) -> list[str]:
    """Return the rows of all parts, in the order of their names."""
    parts = [part.read_text().splitlines() for part in sorted(folder.glob("part-*"))]
    return [row for part in parts for row in part if not row.startswith("number")]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_parts_hold_what_one_thread_writes(tmp_path, form):
    def write(to, *, ordered):
        sums = (
            by_shop()
            .window(count=3)
            .aggregate(
                number=ab.last("number"), shop=ab.any("shop"), amount=ab.sum("amount")
            )
        )
        into = getattr(sums, f"write_{form}")
        return into(str(tmp_path / to), ordered=ordered)

    ab.run(write("one", ordered=True), on="sequential")
    ab.run(write("two", ordered=False), on="spark", degree=2, epoch_items=90)

    expected, actual = rows_of(tmp_path / "one"), rows_of(tmp_path / "two")
    assert sorted(expected) == sorted(actual)
    assert len(actual) > 100


def test_the_step_that_sorts_is_left_out(tmp_path):
    levels = {}
    for ordered in (True, False):
        made = ab.compile(by_shop().write_csv(str(tmp_path), ordered=ordered))
        levels[ordered] = len(lay_out(made.graph, made.plan).levels)

    assert {True: 3, False: 2} == levels
    region = made.plan.regions[-1]
    assert (("total", "write_csv"), "none") == (region.operators, region.ordering)
    assert "order: none" in made.explain()


def test_others_still_get_their_order(tmp_path):
    def sinks(to):
        total = by_shop()
        return [
            total.write_csv(str(tmp_path / to), ordered=False),
            total.map(lambda sale: sale.amount, name="amount").to_list(),
        ]

    expected, actual = sinks("one"), sinks("two")
    ab.run(*expected, on="sequential")
    ab.run(*actual, on="spark", degree=2, epoch_items=150)

    assert expected[1].items == actual[1].items
    assert sorted(rows_of(tmp_path / "one")) == sorted(rows_of(tmp_path / "two"))


def test_sinks_of_this_process_have_no_order_either():
    _, sinks = in_memory(ordered=False)
    made = ab.compile(*sinks)

    assert "none" == made.plan.regions[-1].ordering
    assert "ends with a merge: items are passed on as they arrive" in made.explain()


def test_one_sink_in_order_keeps_the_order_of_its_region():
    _, sinks = in_memory(ordered=False)
    made = ab.compile(*sinks, by_shop("other").to_list())

    assert ["none", "position"] == [
        region.ordering for region in made.plan.regions if region.key
    ]


def test_a_single_file_keeps_its_order(tmp_path):
    made = ab.compile(by_shop().write_csv(str(tmp_path / "one.csv"), ordered=False))

    assert "none" not in [region.ordering for region in made.plan.regions]


def in_memory(*, ordered: bool):
    """Return sinks of this process behind a region with a key, and what one has got."""
    got: list[Sale] = []
    total = by_shop()
    return got, [
        total.for_each(got.append, ordered=ordered),
        total.filter(lambda sale: sale.amount % 2 == 0).to_list(ordered=ordered),
    ]


@pytest.mark.parametrize("epoch_items", [7, 90])
def test_sinks_of_this_process_get_what_one_thread_gives(epoch_items):
    expected, sinks = in_memory(ordered=True)
    ab.run(*sinks, on="sequential")
    actual, others = in_memory(ordered=False)
    ab.run(*others, on="spark", degree=2, epoch_items=epoch_items)

    assert sorted(expected) == sorted(actual)
    assert sorted(sinks[1].items) == sorted(others[1].items)
    assert len(actual) == 400
