"""Hot keys move between epochs, and one that is too hot is named."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs import division
from anabranch.epochs.state.states import bucket_of

pytestmark = pytest.mark.spark


class Sale(NamedTuple):
    number: int
    shop: str
    amount: int


def running(total: int, sale: Sale) -> tuple[int, Sale]:
    for _ in range(1000):  # enough to outweigh whatever else the machine does
        total = (total * 31 + sale.amount) % 1_000_003
    return total, Sale(sale.number, sale.shop, total)


def first_half(count: int) -> list[str]:
    """Return names of shops whose keys the first of two replicas has at the start."""
    names = (f"shop{n}" for n in range(10_000))
    return [n for n in names if bucket_of(n, 1024) < 512][:count]


def sales(shops: list[str], hot: int, count: int) -> list[Sale]:
    """Return sales of which four of five are of the first `hot` shops."""
    others = shops[hot:]
    made = []
    for n in range(count):
        shop = others[n % len(others)] if n % 5 == 0 else shops[n % hot]
        made.append(Sale(n, shop, n % 7))
    return made


def run_on(on, items, **options):
    out = ab.from_iterable(items, Sale).key_by("shop").scan(running, 0).to_list()
    job = ab.run(out, on=on, **options)
    return out.items, job


@pytest.fixture(autouse=True)
def _eager(monkeypatch):
    monkeypatch.setattr(division, "LEAST_ITEMS", 100)


def test_hot_buckets_move_and_the_results_stay():
    items = sales(first_half(30), hot=4, count=3000)
    expected, _ = run_on("sequential", items)

    actual, job = run_on("spark", items, degree=2, epoch_items=500)

    assert expected == actual
    moves = [one for one in job.history if "go to other replicas" in one.what]
    assert moves
    assert "one replica had 100% of the load of all 2" == moves[0].why
    assert moves[0].what.startswith("r")


def test_a_key_that_is_too_hot_is_named_with_its_share():
    shops = first_half(20)
    items = sales(shops, hot=1, count=4000)
    expected, _ = run_on("sequential", items)

    actual, job = run_on("spark", items, degree=2, epoch_items=500)

    assert expected == actual
    told = [one.why for one in job.history if "stays uneven" in one.what]
    share = "80% of its items, more than the share of one of 2 replicas, 50%"
    assert [f"the key {shops[0]!r} has {share}"] == told
