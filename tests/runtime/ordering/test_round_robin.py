"""Round robin takes channels in turn."""

from __future__ import annotations

import random

import pytest

from anabranch.errors import EngineError
from anabranch.operators.stateless import WINDOW
from anabranch.runtime.batch import Batch, Origin
from anabranch.runtime.ordering.by_number import RoundRobinMerge
from anabranch.runtime.ordering.merge import Dealt
from tests.runtime.ordering.numbers import put


def test_figure_5_a_tuple_on_channel_1_frees_channels_1_2_and_0():
    """
    The merger waits on channel 1 while queues 2 and 0 have tuples; one arrives on
    channel 1: it is submitted, then the fronts of 2 and 0, and the merger waits on 1.
    """
    merge = RoundRobinMerge(3)

    assert ["a"] == put(merge, 0, "a")
    assert [] == put(merge, 0, "d", "g")
    assert [] == put(merge, 2, "c")
    assert ["b", "c", "d"] == put(merge, 1, "b")
    assert [1, 0] == [merge.count_waiting(0), merge.count_waiting(2)]
    assert ["e"] == put(merge, 1, "e")


def test_a_punctuation_goes_on_once_when_all_its_copies_are_here():
    merge = RoundRobinMerge(3, punctuated=True)

    assert ["a"] == put(merge, 0, "a", WINDOW, "d")
    assert ["b"] == put(merge, 1, "b", WINDOW)
    assert ["c", WINDOW, "d"] == put(merge, 2, "c", WINDOW)
    assert ["e"] == put(merge, 1, "e")


def test_a_punctuation_keeps_the_turn():
    """
    One item, then a punctuation, then an item: the turn is still channel 1's.
    """
    merge = RoundRobinMerge(2, punctuated=True)

    assert ["a"] == put(merge, 0, "a", WINDOW)
    assert [WINDOW, "b"] == put(merge, 1, WINDOW, "b")


def test_channels_that_disagree_about_a_punctuation_are_an_error():
    merge = RoundRobinMerge(2, punctuated=True)
    put(merge, 0, WINDOW)

    with pytest.raises(EngineError, match="must come from all replicas"):
        put(merge, 1, "a")


@pytest.mark.parametrize("seed", range(20))
def test_any_arrival_gives_the_order_of_the_splitter(seed):
    rng = random.Random(seed)
    channels = rng.randint(1, 5)
    items = list(range(rng.randint(0, 60)))
    queues = [items[c::channels] for c in range(channels)]
    merge = RoundRobinMerge(channels)

    got = []
    while any(queues):
        channel = rng.choice([c for c in range(channels) if queues[c]])
        count = rng.randint(1, 4)
        got += put(merge, channel, *queues[channel][:count])
        del queues[channel][:count]

    assert items == got


@pytest.mark.parametrize("punctuated", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_replicas_that_are_suspended_and_woken_do_not_change_the_order(
    seed, punctuated
):
    """The splitter of the test deals by hand; parts of it come in any order."""
    rng = random.Random(seed)
    channels = rng.randint(2, 5)
    dealt, items = Dealt(channels), []
    queues = [[] for _ in range(channels)]
    width, turn, count = channels, 0, 0
    for n in range(rng.randint(0, 80)):
        if punctuated and rng.random() < 0.1:
            items.append(WINDOW)
            for queue in queues:
                queue.append(WINDOW)
        if rng.random() < 0.1:
            width, turn = rng.randint(1, channels), 0
            dealt.change(count, width)
        items.append(n)
        queues[turn].append(n)
        turn, count = (turn + 1) % width, count + 1
    merge = RoundRobinMerge(channels, punctuated=punctuated, dealt=dealt)

    got = []
    while any(queues):
        channel = rng.choice([c for c in range(channels) if queues[c]])
        size = rng.randint(1, 4)
        got += put(merge, channel, *queues[channel][:size])
        del queues[channel][:size]

    assert items == got


def test_what_is_released_is_as_old_as_its_own_items():
    """One replica is an item ahead of the other all the time."""

    class Somewhere:
        index = 0

        def where(self, number):
            return str(number)

    source, merge = Somewhere(), RoundRobinMerge(2)
    merge.put(0, Batch(["a0"], origin=Origin(0.0, source, 1, 1)))
    merge.put(0, Batch(["a1"], origin=Origin(1.0, source, 3, 3)))
    merge.release()
    seen = []
    for step in range(1, 5):
        ahead, behind = Origin(step + 1.0, source), Origin(float(step), source)
        merge.put(0, Batch([f"a{step + 1}"], origin=ahead))
        merge.put(1, Batch([f"b{step}"], origin=behind))
        released = merge.release()
        seen.append((released.items, released.origin.born_s))

    assert [
        (["b1", "a1"], 1.0),
        (["b2", "a2"], 2.0),
        (["b3", "a3"], 3.0),
        (["b4", "a4"], 4.0),
    ] == seen


def test_a_batch_that_leaves_in_parts_is_as_old_each_time():
    class Somewhere:
        index = 0

    source, merge = Somewhere(), RoundRobinMerge(2)
    merge.put(0, Batch(["a", "c"], origin=Origin(3.0, source)))
    assert 3.0 == merge.release().origin.born_s
    merge.put(1, Batch(["b"], origin=Origin(5.0, source)))

    origin = merge.release().origin

    assert (3.0, 5.0) == (origin.born_s, origin.youngest_s)
