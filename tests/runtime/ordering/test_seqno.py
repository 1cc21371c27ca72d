"""Sequence numbers without pulses: each number comes exactly once."""

from __future__ import annotations

import random

import pytest

from anabranch.errors import EngineError
from anabranch.operators.stateless import WINDOW
from anabranch.runtime.batch import Batch
from anabranch.runtime.ordering.by_number import SeqnoMerge
from tests.runtime.ordering.numbers import put, released


def test_figure_5_number_5_frees_6_and_7_and_the_merger_waits_for_8():
    merge = SeqnoMerge(3, first=5)

    assert [] == put(merge, 0, 6, 9)
    assert [] == put(merge, 2, 7)
    assert merge.last_seqno == 4
    assert [5, 6, 7] == put(merge, 1, 5)
    assert merge.last_seqno == 7
    assert [8, 9] == put(merge, 2, 8)


def test_a_channel_that_never_gets_anything_holds_nothing_up():
    merge = SeqnoMerge(2)

    assert [0, 1, 2] == put(merge, 0, 0, 1, 2)


def test_a_punctuation_goes_on_once_and_its_late_copy_is_dropped():
    merge = SeqnoMerge(2, punctuated=True)

    assert [0, WINDOW] == put(merge, 0, 0, (1, WINDOW))
    assert [2] == put(merge, 1, (1, WINDOW), 2)
    assert 0 == merge.count_waiting(0) + merge.count_waiting(1)


def test_what_comes_out_has_its_numbers():
    merge = SeqnoMerge(2)
    merge.put(0, Batch(["a", "c"], [range(0, 4, 2)]))
    merge.put(1, Batch(["b"], [range(1, 2, 2)]))

    batch = merge.release()

    assert ["a", "b", "c"] == batch.items
    assert [0, 1, 2] == list(batch.columns[0])
    assert batch.mark[0] == 2


def test_a_number_that_is_left_out_is_an_error_not_a_hang():
    merge = SeqnoMerge(2)
    merge.put(0, Batch(["a", "e"], [[0, 4]]))
    merge.put(1, Batch(["b", "f"], [[1, 5]]))

    with pytest.raises(EngineError, match="2 did not"):
        released(merge)


@pytest.mark.parametrize("seed", range(30))
def test_any_routing_and_arrival_give_the_order_of_the_numbers(seed):
    rng = random.Random(seed)
    channels = rng.randint(1, 4)
    queues = [[] for _ in range(channels)]
    count = rng.randint(0, 60)
    for number in range(count):
        rng.choice(queues).append(number)
    merge = SeqnoMerge(channels)

    got = []
    while any(queues):
        channel = rng.choice([c for c in range(channels) if queues[c]])
        size = rng.randint(1, 5)
        numbers, queues[channel] = queues[channel][:size], queues[channel][size:]
        merge.put(channel, Batch(list(numbers), [numbers]))
        got += released(merge)

    assert list(range(count)) == got
