"""States in globals and outer variables run in workers, and are in the checkpoint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.epochs.layout import lay_out
from anabranch.errors import OperatorError

pytestmark = pytest.mark.spark

highest = 0
SEEN: list[int] = []
ALIAS = [SEEN]  # the test looks at it; no operator does


def record(item):
    global highest  # noqa: PLW0603
    if item <= highest:
        return False
    highest = item
    return True


def number(item):
    SEEN.append(item)
    return len(SEEN)


def add(item):
    SEEN.append(item)
    if item == 30:
        raise ValueError(item)
    return sum(SEEN)


def make_counter():
    n = 0

    def count(item):
        nonlocal n
        n += 1
        yield from [(n, item)] * (item % 3)

    return count, lambda: n


@pytest.fixture(autouse=True)
def _fresh():
    global highest  # noqa: PLW0603
    highest = 0
    SEEN.clear()


def test_no_unit_with_a_lifted_state_runs_in_the_driver():
    made = ab.compile(ab.from_iterable(ITEMS).filter(record, name="record").to_list())

    layout = lay_out(made.graph, made.plan)

    assert not layout.unit_of["record"].in_driver


class Ticket:
    count = 0


def draw(item):
    Ticket.count += 1
    return Ticket.count


def test_an_attribute_of_a_class_counts_on_from_epoch_to_epoch():
    Ticket.count = 0
    out = ab.from_iterable(ITEMS).map(draw).to_list()

    ab.run(out, degree=2, epoch_items=20, verify="off")

    assert [*range(1, 61)] == out.items
    assert Ticket.count == 60


ITEMS = [n * 7919 % 61 for n in range(60)]


def test_a_global_runs_in_a_worker_and_has_its_final_value_after_the_run():
    out = ab.from_iterable(ITEMS).filter(record, name="record").to_list()

    ab.run(out, degree=2, epoch_items=20)

    best = [n for i, n in enumerate(ITEMS) if n > max(ITEMS[:i], default=0)]
    assert best == out.items
    assert max(ITEMS) == highest


def test_an_object_in_a_global_keeps_its_identity():
    out = ab.from_iterable(ITEMS).map(number, name="number").to_list()

    ab.run(out, degree=2, epoch_items=20)

    assert list(range(1, 61)) == out.items
    assert ITEMS == SEEN == ALIAS[0]
    assert SEEN is ALIAS[0]


def test_a_second_run_begins_with_what_the_first_has_left():
    for _ in range(2):
        out = ab.from_iterable(ITEMS).map(number).to_list()
        ab.run(out, degree=2, epoch_items=20)

    assert list(range(61, 121)) == out.items


def test_an_outer_variable_is_the_state_of_a_flat_map():
    count, look = make_counter()
    out = ab.from_iterable(ITEMS).flat_map(count).to_list()

    ab.run(out, degree=2, epoch_items=20)

    numbered = enumerate(ITEMS, start=1)
    assert [pair for pair in numbered for _ in range(pair[1] % 3)] == out.items
    assert look() == len(ITEMS)


def test_an_outer_variable_that_a_helper_changes_is_lifted():
    seen = [0]

    def note(item):
        seen[0] += item
        return item

    out = ab.from_iterable([3, 1, 2]).map(lambda n: (note(n), seen[0])).to_list()

    ab.run(out, degree=2, epoch_items=2)

    assert [(3, 3), (1, 4), (2, 6)] == out.items
    assert [6] == seen


def test_what_was_changed_before_a_failure_stands():
    out = ab.from_iterable(ITEMS).map(add).to_list()

    ab.run(out, degree=2, epoch_items=20, on_error="skip")

    sums = [sum(ITEMS[: i + 1]) for i, n in enumerate(ITEMS) if n != 30]
    assert sums == out.items


def test_after_a_failure_the_global_is_as_it_was():
    out = ab.from_iterable(ITEMS).map(add).to_list()

    with pytest.raises(OperatorError):
        ab.run(out, degree=2, epoch_items=20)

    assert SEEN == []


PROGRAM = """
import os, sys
import anabranch as ab

highest = 0.0


def record(price: float) -> bool:
    global highest
    if price <= highest:
        return False
    highest = price
    return True


def noted(price: float) -> float:
    if price == 40.0 and not os.path.exists("killed"):
        open("killed", "w").close()
        os.kill(int(os.environ["DRIVER"]), 9)
    return price


if __name__ == "__main__":
    os.environ["DRIVER"] = str(os.getpid())
    prices = [float(n * 7919 % 61) for n in range(60)]
    at = prices.index(40.0)
    stream = ab.from_iterable(prices).map(ab.declare(state="stateless")(noted))
    out = stream.filter(record, name="records").write_csv("records")
    ab.run(out, checkpoint="checkpoint", degree=2, epoch_items=10)
    print("highest", highest)
"""


@pytest.mark.long
def test_a_killed_job_goes_on_with_the_state_of_a_global(tmp_path):
    (tmp_path / "vwap.py").write_text(PROGRAM)

    def run():
        return subprocess.run(
            [sys.executable, "vwap.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )

    first, second = run(), run()

    assert first.returncode == -9, first.stderr[-2000:]
    assert second.returncode == 0, second.stderr[-2000:]
    prices = [float(n * 7919 % 61) for n in range(60)]
    best = [n for i, n in enumerate(prices) if n > max(prices[:i], default=0)]
    parts = sorted(Path(tmp_path, "records").glob("part-*"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    assert best == [float(line) for line in lines if line[:1].isdigit()]
    assert f"highest {max(prices)}" in second.stdout


class Slotted:
    __slots__ = ("total",)

    def __init__(self):
        self.total = 0


slotted = Slotted()


def add_to_slotted(number: int) -> int:
    slotted.total += number
    return slotted.total


def test_a_state_in_slots_is_lifted_and_put_back_into_the_same_object():
    own = slotted
    own.total = 0
    out = ab.from_iterable(range(5), int).map(add_to_slotted).to_list()

    ab.run(out, on="spark", epoch_items=2)

    assert [0, 1, 3, 6, 10] == out.items
    assert own is slotted
    assert 10 == own.total
