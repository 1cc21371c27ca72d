"""How many items at a time: one when they are costly, thousands when they are cheap."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar

import pytest

from anabranch.graph.graph import Edge, Input, Output
from anabranch.runtime.batch import Batch
from anabranch.runtime.element import Pace, Replica, batch_that_fits
from anabranch.runtime.ordering.merge import SingleQueue
from anabranch.runtime.ports import Inlet
from anabranch.runtime.split import Slot, StraightOutlet


def settled(item_s, batches=40):
    pace = Pace(budget_s=0.001, most=8192)
    for _ in range(batches):
        pace.observe(pace.limit, pace.limit * item_s)
    return pace


@pytest.mark.parametrize(
    ("item_s", "limit"),
    [(0.1, 1), (0.001, 1), (0.0001, 10), (1e-6, 1000), (1e-9, 8192)],
)
def test_a_batch_fills_the_budget(item_s, limit):
    assert settled(item_s).limit == pytest.approx(limit, rel=0.01)


def test_it_grows_fourfold_at_most():
    pace = Pace()
    limits = []
    for _ in range(4):
        pace.observe(pace.limit, 0.0)
        limits.append(pace.limit)

    assert [4, 16, 64, 256] == limits


def test_one_hiccup_changes_nothing():
    pace = settled(1e-5)
    before = pace.limit

    pace.observe(before, 1.0)

    assert before == pace.limit


def test_it_follows_when_items_become_costly():
    pace = settled(1e-6)
    for _ in range(5):
        pace.observe(pace.limit, pace.limit * 0.01)

    assert pace.limit == 1


@pytest.mark.parametrize(
    ("by_clock_s", "on_core_s", "limit"),
    [
        (1e-4, 1e-4, 25),  # nobody else: 2.5 budgets of work
        (2e-4, 1e-4, 25),  # as long a wait for the lock changes nothing
        (1e-3, 1e-4, 5),  # 5 budgets by the clock, whatever it waits for
        (1e-2, 1e-6, 1),  # it waits for something else
    ],
)
def test_waiting_for_the_lock_makes_batches_no_smaller(by_clock_s, on_core_s, limit):
    pace = Pace(budget_s=0.001, most=8192)
    for _ in range(40):
        pace.observe(pace.limit, pace.limit * by_clock_s, pace.limit * on_core_s)

    assert pace.limit == pytest.approx(limit, rel=0.01)


def follow(*names):
    """Return replicas in a row, each with its outlet to the next."""
    made = [Replica(name, None, Inlet(SingleQueue(), threaded=True)) for name in names]
    for one, two in pairwise(made):
        edge = Edge(Output(one.name), Input(two.name))
        one.outlets[edge] = StraightOutlet([Slot(two.inlet, 0)])
        two.feeders = (one,)
    return made


def observe(replica, batches):
    for _ in range(batches):
        replica.run(Batch([1.0]))


def test_the_limit_of_the_last_operator_reaches_the_first_at_once():
    first, middle, last = follow("first", "middle", "last")
    for replica in (first, middle, last):
        replica.pace = Pace(budget_s=100.0)
        observe(replica, 3)
        replica.pace.limit = 64
    before = first.limit, middle.limit
    last.pace.limit = 16
    observe(last, 1)

    assert (1, 1) != before
    assert [64, 64, 64] == [first.limit, middle.limit, last.limit]


def test_a_consumer_that_has_taken_nothing_yet_gets_as_much_as_it_has_room_for():
    first, second = follow("first", "second")
    first.pace = Pace(budget_s=100.0)
    observe(first, 9)

    assert [4, 1] == [first.limit, second.limit]


class Loud(tuple):
    __slots__ = ()
    asked: ClassVar = []

    def __sizeof__(self):
        self.asked.append("size")
        return 1

    def __iter__(self):
        self.asked.append("items")
        return super().__iter__()


def test_a_size_is_found_without_running_code_of_the_users():
    items = [Loud([Loud(), 1])]

    assert 0 < batch_that_fits(items)
    assert [] == Loud.asked
