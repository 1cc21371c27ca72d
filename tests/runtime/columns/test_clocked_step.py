"""Windows behind a clock, held in columns, are stored as Python has them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import anabranch as ab
from anabranch.epochs.transport.pickle import Pickler
from anabranch.language.drafts import build_graph
from anabranch.operators.windows import Window
from anabranch.plan.column_kernels import ColumnShape
from anabranch.runtime.columns.chain import batch_of_items
from anabranch.runtime.columns.clocked_step import (
    ClockedPlan,
    HeldClocked,
    measure_times,
)
from anabranch.runtime.columns.column import Pools, UnfitError
from anabranch.runtime.state import HeldItems, LentStates


class Event(NamedTuple):
    ts: int
    key: str
    price: float


SHAPE = ColumnShape(
    type=Event, parts=tuple(ColumnShape((kind,)) for kind in ("int", "str", "float"))
)
ITEMS = [Event(25, "a", 0.5), Event(3, "b", -0.0), Event(9, "a", 2.0)]
ITEMS += [Event(1, "a", 1.5), Event(28, "a", 7.5)]


def hold(window):
    pools = Pools()
    held = HeldClocked(pools)
    held.take_over(LentStates(), ["a", "b", "c"], np.array([0, 1, 2]))
    held.batch = batch_of_items(ITEMS, SHAPE, pools)
    held.times = np.array([item.ts for item in ITEMS])
    held.slots = np.array([0, 1, 0, 0, 0])
    held.plan = ClockedPlan(window, "int")
    held.saved = [None, 20, 30]
    return held


def test_no_item_is_made_to_store_windows():
    changes = dict(hold(Window(time=10, on="ts")).list_changes())

    pickler = Pickler(build_graph([ab.from_iterable([]).to_list()]))
    state, due, saved = changes["a"]
    assert {1, 3} == state.keys()
    assert all(type(held) is HeldItems for held in state.values())
    assert (10, None) == (due, saved)
    expected = {1: [ITEMS[2], ITEMS[3]], 3: [ITEMS[0], ITEMS[4]]}
    stored = pickler.dumps_windows("a", (state, due, None, None))
    assert ("a", (expected, 10, None, None)) == pickler.loads(stored)
    state, due, saved = changes["b"]
    stored = pickler.dumps_windows("b", (state, due, None, None))
    assert repr(("b", ({1: [ITEMS[1]]}, 10, None, None))) == repr(pickler.loads(stored))
    assert 20 == saved
    assert (None, None, 30) == changes["c"]


def test_the_items_of_sliding_windows_are_stored_once():
    changes = dict(hold(Window(time=20, every=10, on="ts")).list_changes())

    state, due, _ = changes["a"]
    of_a = [item for item in ITEMS if item.key == "a"]
    assert ([of_a, [25, 9, 1, 28], 1], 10) == (state, due)


@pytest.mark.parametrize("far", [-(1 << 63), (1 << 63) - 1, 1 << 61])
def test_a_time_without_room_for_sums_is_left_to_python(far):
    with pytest.raises(UnfitError, match="a time is too large"):
        measure_times(np.array([5, far]), "int")
