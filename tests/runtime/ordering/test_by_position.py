"""Merging by position: streams of any shape, in the order of the sequential run."""

from __future__ import annotations

import random

import pytest

from anabranch.operators.stateless import WINDOW
from anabranch.runtime.batch import Batch, mark_at
from anabranch.runtime.ordering.by_position import PositionMerge


def batch(positions, mark, items=None):
    columns = [list(column) for column in zip(*positions, strict=True)] or [[]]
    made = [str(p) for p in positions] if items is None else items
    return Batch(made, columns, mark)


def released(merge):
    found = merge.release()
    return [] if found is None else found.items


def test_nothing_goes_on_before_every_queue_has_come_as_far():
    merge = PositionMerge([0, 1], width=2)
    merge.put(0, batch([(1, 0), (2, 0)], mark_at(2)))

    assert [] == released(merge)
    merge.put(1, batch([(1, 1)], mark_at(1)))
    assert ["(1, 0)", "(1, 1)"] == released(merge)
    merge.put(1, batch([], mark_at(5)))
    assert ["(2, 0)"] == released(merge)


def test_it_tells_by_which_stream_each_item_came():
    merge = PositionMerge([0, 1], width=2)
    merge.put(0, batch([(1, 0), (2, 0)], mark_at(2)))
    merge.put(1, batch([(1, 1), (2, 1)], mark_at(2)))

    assert [0, 1, 0, 1] == merge.release().entries


def test_shorter_positions_are_filled_up():
    merge = PositionMerge([0, 1], width=3)
    merge.put(0, batch([(1,), (3,)], mark_at(3)))
    merge.put(1, batch([(2, 0, 1)], mark_at(3)))

    assert ["(1,)", "(2, 0, 1)", "(3,)"] == released(merge)


def test_a_closed_queue_holds_nothing_up():
    merge = PositionMerge([0, 1], width=1)
    merge.put(0, batch([(1,), (2,)], mark_at(2)))
    merge.close(1)

    assert ["(1,)", "(2,)"] == released(merge)


def test_copies_of_a_punctuation_are_dropped():
    merge = PositionMerge([0, 0], width=1, punctuated=True)
    merge.put(0, batch([(1,), (2,)], mark_at(2), ["a", WINDOW]))
    merge.put(1, batch([(2,), (3,)], mark_at(3), [WINDOW, "b"]))

    assert ["a", WINDOW] == released(merge)


@pytest.mark.parametrize("seed", range(20))
def test_any_arrival_gives_the_order_of_the_positions(seed):
    rng = random.Random(seed)
    positions = sorted({tuple(rng.randint(0, 9) for _ in range(3)) for _ in range(80)})
    queues = [[] for _ in range(3)]
    for position in positions:
        rng.choice(queues).append(position)
    merge = PositionMerge([0, 1, 2], width=3)

    got = []
    while any(queues):
        channel = rng.choice([c for c in range(3) if queues[c]])
        part, queues[channel] = queues[channel][:4], queues[channel][4:]
        merge.put(channel, batch(part, mark_at(*part[-1])))
        got += released(merge)
    for channel in range(3):
        merge.close(channel)
    got += released(merge)

    assert [str(position) for position in positions] == got


def test_a_number_in_the_place_of_a_turn_is_that_of_a_stream_without_turns():
    """Streams that have been in columns have bytes there, others the number itself."""
    merge = PositionMerge([0, 1], width=3, turns={1})
    merge.put(0, batch([(1, b"0", 0), (2, b"0", 0)], mark_at(2, 0, 0)))
    merge.put(1, batch([(1, 0, 1), (2, 0, 1)], mark_at(2, 0, 1)))

    assert ["(1, b'0', 0)", "(1, 0, 1)", "(2, b'0', 0)"] == released(merge)


def test_a_mark_that_ends_in_the_place_of_a_turn_is_behind_all_turns():
    merge = PositionMerge([0, 1], width=3, turns={1})
    merge.put(0, batch([(1, b"\x05", 0), (2, b"\x05", 0)], mark_at(2, 0, 0)))
    merge.put(1, batch([], mark_at(1)))

    assert ["(1, b'\\x05', 0)"] == released(merge)
