"""Round robin takes channels in turn."""

from __future__ import annotations

import random

import pytest

from anabranch.errors import EngineError
from anabranch.runtime.ordering.round_robin import RoundRobinMerge
from anabranch.runtime.punctuation import WINDOW
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
    assert [1, 0] == [merge.held(0), merge.held(2)]
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

    with pytest.raises(EngineError, match="must come in all channels"):
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
