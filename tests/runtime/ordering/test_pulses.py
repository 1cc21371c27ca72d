"""Strict and relaxed numbers with pulses."""

from __future__ import annotations

import math
import random

import pytest

from anabranch.errors import EngineError
from anabranch.operators.stateless import WINDOW
from anabranch.runtime.batch import Batch, mark_at
from anabranch.runtime.ordering.by_number import RelaxedMerge, StrictMerge
from tests.runtime.ordering.numbers import P, put, released


def test_figure_5_strict_8_on_channel_1_shows_that_5_and_7_were_dropped():
    """
    The last number was 4. When 8 arrives on channel 1, every channel has moved on to
    at least 8: 5 is never coming. 6 and 8 go on; 10 does not, since 9 may still come.
    """
    merge = StrictMerge(3, first=5)

    assert [] == put(merge, 0, 6, 10)
    assert [] == put(merge, 2, 11)
    assert merge.last_seqno == 4
    assert [6, 8] == put(merge, 1, 8)
    assert merge.last_seqno == 8
    assert [9, 10, 11] == put(merge, 1, 9)


def test_figure_5_relaxed_5_goes_on_and_7_waits_for_duplicates_of_5():
    """
    Nothing has come on channel 1 yet. 4 last came on channel 0, whose back is 7 now:
    no more 4s. So 5 goes on; 7 does not, as more 5s may come on channel 2.
    """
    merge = RelaxedMerge(3, first=4)

    assert [4] == put(merge, 0, 4)
    assert [] == put(merge, 0, 7)
    assert [5] == put(merge, 2, 5)
    assert ["again"] == put(merge, 2, (5, "again"))
    assert merge.last_seqno == 5


def test_relaxed_waits_for_duplicates_before_the_next_number():
    merge = RelaxedMerge(2)

    assert [0] == put(merge, 0, 0)
    assert [] == put(merge, 1, 1)
    assert ["0b", 1] == put(merge, 0, (0, "0b"), 2)
    assert [2] == put(merge, 1, P(2))


def test_strict_refuses_a_second_output_of_an_item():
    """
    Of five numbers one comes twice and one is missing, so their count is right.
    """
    merge = StrictMerge(2)

    assert [] == put(merge, 0, 1, 2, (2, "again"), 5)
    with pytest.raises(EngineError, match="got 5 outputs for 4 items"):
        put(merge, 1, 3, 6)


@pytest.mark.parametrize("kind", [StrictMerge, RelaxedMerge])
def test_at_start_nothing_can_be_called_dropped(kind):
    merge = kind(2)

    assert [] == put(merge, 0, 3, 4)
    assert [3, 4] == put(merge, 1, P(4))


@pytest.mark.parametrize("kind", [StrictMerge, RelaxedMerge])
def test_a_pulse_lets_the_next_number_go_without_another_pulse(kind):
    merge = kind(2)
    put(merge, 0, P(9))
    put(merge, 1, P(9))

    assert [10] == put(merge, 0, 10)


@pytest.mark.parametrize("kind", [StrictMerge, RelaxedMerge])
def test_a_punctuation_goes_on_once(kind):
    merge = kind(3, punctuated=True)

    early = put(merge, 0, (0, WINDOW))
    rest = put(merge, 1, (0, WINDOW), P(0)) + put(merge, 2, (0, WINDOW), P(0))

    assert [WINDOW] == early + rest + put(merge, 0, P(0))
    assert 0 == sum(map(merge.count_waiting, range(3)))


def test_in_a_shuffle_copies_of_a_pulse_are_passed_on_once():
    """
    Every channel before the shuffle sends each pulse to every channel behind it.
    """
    merge = RelaxedMerge(3, numbered=True)
    marks = []
    for number in (0, 1, 2):
        for channel in range(3):
            merge.put(channel, Batch([], [[]], mark_at(number)))
            while (batch := merge.release()) is not None:
                marks.append(batch.mark)

    assert [(0, math.inf), (1, math.inf), (2, math.inf)] == marks


def test_at_the_end_of_a_region_numbers_and_pulses_are_stripped_off():
    merge = StrictMerge(1, numbered=False)
    merge.put(0, Batch(["a"], [[0]], mark_at(0)))

    batch = merge.release()

    assert (["a"], None, None) == (batch.items, batch.columns, batch.mark)
    assert [] == put(merge, 0, P(5))


@pytest.mark.parametrize("kind", [StrictMerge, RelaxedMerge])
@pytest.mark.parametrize("seed", range(30))
def test_any_routing_selectivity_and_arrival_give_the_order(kind, seed):
    rng = random.Random(seed)
    channels = rng.randint(1, 4)
    most = 1 if kind is StrictMerge else 3
    queues = [[] for _ in range(channels)]
    expected = []
    for number in range(rng.randint(0, 60)):
        made = [(number, f"{number}.{k}") for k in range(rng.randint(0, most))]
        expected += [item for _, item in made]
        rng.choice(queues).extend(made)
        if rng.random() < 0.3:
            for queue in queues:
                queue.append(P(number))
    merge = kind(channels)

    got = []
    while any(queues):
        channel = rng.choice([c for c in range(channels) if queues[c]])
        count = rng.randint(1, 4)
        got += put(merge, channel, *queues[channel][:count])
        del queues[channel][:count]
    for channel in range(channels):
        merge.close(channel)
    got += released(merge)

    assert expected == got


def test_several_punctuations_of_one_item_all_go_on():
    """
    Item 0 of channel 0 makes two punctuations, which have its number, in one batch and
    then in two. They are no copies: those come from other channels, as at number 1.
    """
    merge = RelaxedMerge(2, punctuated=True)

    merge.put(0, Batch(["a", WINDOW, WINDOW, WINDOW], [[0, 0, 0, 1]], mark_at(1)))
    merge.put(1, Batch([WINDOW, "c"], [[1, 2]], mark_at(2)))
    assert ["a", WINDOW, WINDOW, WINDOW] == released(merge)[:4]

    merge = RelaxedMerge(2, punctuated=True)
    assert ["a"] == put(merge, 0, (0, "a"))
    assert [WINDOW] == put(merge, 0, (0, WINDOW))
    assert [WINDOW] == put(merge, 0, (0, WINDOW))
