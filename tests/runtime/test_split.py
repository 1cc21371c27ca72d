"""Splitters: numbers, pulses and copies of punctuations."""

from __future__ import annotations

from anabranch.operators.stateless import WINDOW
from anabranch.runtime.batch import Batch, mark_at
from anabranch.runtime.ordering.merge import SingleQueue
from anabranch.runtime.ports import Inlet
from anabranch.runtime.split import (
    Numbering,
    RoundRobinRouter,
    Slot,
    SplitOutlet,
    StraightOutlet,
)


def channels(count):
    inlets = [Inlet(SingleQueue(), threaded=True) for _ in range(count)]
    for inlet in inlets:
        inlet.limit = 1000
    return inlets


def splitter(inlets, *, epoch=10, pulses=True, numbered=True, punctuated=False):
    return SplitOutlet(
        [Slot(inlet, 0) for inlet in inlets],
        RoundRobinRouter(len(inlets)),
        Numbering(epoch, len(inlets), pulses=pulses) if numbered else None,
        punctuated=punctuated,
    )


def arrived(inlet):
    """Return items, numbers and the pulse of what has come in a channel."""
    batch = inlet.poll()
    if batch is None:
        return None
    numbers = None if batch.columns is None else list(batch.columns[0])
    return batch.items, numbers, None if batch.mark is None else batch.mark[0]


def test_items_are_numbered_across_batches():
    one, two = channels(2)
    split = splitter([one, two], pulses=False)

    split.put(Batch(["a", "b", "c"]))
    split.put(Batch(["d"]))

    assert (["a", "c"], [0, 2], None) == arrived(one)
    assert (["b", "d"], [1, 3], None) == arrived(two)


def test_a_pulse_comes_after_epoch_items_for_each_channel():
    one, two = channels(2)
    split = splitter([one, two], epoch=2)

    split.put(Batch(["a", "b", "c"]))
    assert (["a", "c"], [0, 2], None) == arrived(one)
    split.put(Batch(["d"]))

    assert ([], [], 3) == arrived(one)
    assert (["b", "d"], [1, 3], 3) == arrived(two)


def test_before_it_waits_a_splitter_sends_the_pulse_it_owes():
    one, two = channels(2)
    split = splitter([one, two])
    split.put(Batch(["a"]))
    arrived(one)

    split.settle()

    assert ([], [], 0) == arrived(one)
    assert ([], [], 0) == arrived(two)
    split.settle()
    assert arrived(one) is None


def test_a_punctuation_goes_to_every_channel_with_one_number():
    one, two, three = channels(3)
    split = splitter([one, two, three], pulses=False, punctuated=True)

    split.put(Batch(["a", WINDOW, "b", "c"]))

    assert (["a", WINDOW], [0, 1], None) == arrived(one)
    assert ([WINDOW, "b"], [1, 2], None) == arrived(two)
    assert ([WINDOW, "c"], [1, 3], None) == arrived(three)


def test_punctuations_are_copied_without_numbers_too():
    one, two = channels(2)
    split = splitter([one, two], numbered=False, punctuated=True)

    split.put(Batch(["a", WINDOW, "b"]))

    assert (["a", WINDOW], None, None) == arrived(one)
    assert ([WINDOW, "b"], None, None) == arrived(two)


def test_in_a_shuffle_numbers_and_pulses_pass_unchanged():
    """
    A splitter of a shuffle routes; it neither numbers nor makes pulses of its own.
    """
    one, two = channels(2)
    shuffle = splitter([one, two], numbered=False)

    shuffle.put(Batch(["a", "b"], [[4, 9]], mark_at(9)))
    shuffle.settle()

    assert (["a"], [4], 9) == arrived(one)
    assert (["b"], [9], 9) == arrived(two)
    assert arrived(one) is None


def test_a_straight_outlet_sends_pulses_but_no_empty_batches():
    (one,) = channels(1)
    outlet = StraightOutlet([Slot(one, 0)])

    outlet.put(Batch([]))
    assert arrived(one) is None
    outlet.put(Batch([], [[]], mark_at(3)))
    assert ([], [], 3) == arrived(one)
