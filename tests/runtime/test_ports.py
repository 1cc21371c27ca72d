"""Inlets: order, room, ends, and the lock that keeps order."""

from __future__ import annotations

import threading

import pytest

from anabranch.runtime.batch import Batch, mark_at
from anabranch.runtime.ordering.by_number import SeqnoMerge
from anabranch.runtime.ordering.by_position import PositionMerge
from anabranch.runtime.ordering.merge import SingleQueue
from anabranch.runtime.ports import ENOUGH, AbortedError, End, Inlet


def inlet(limit=1, merge=None, *, threaded=True):
    made = Inlet(merge or SingleQueue(), threaded=threaded)
    made.limit = limit
    return made


def test_what_comes_first_goes_first_and_no_more_at_a_time_than_the_limit():
    port = inlet(limit=2)
    port.put(0, Batch([1, 2, 3]))
    port.put(0, Batch([4]))

    assert [[1, 2], [3, 4]] == [port.take().items, port.take().items]
    assert port.poll() is None


def test_small_batches_are_handed_out_together():
    port = inlet(limit=10)
    for n in range(5):
        port.put(0, Batch([n]))

    assert [0, 1, 2, 3, 4] == port.take().items


def test_put_never_waits():
    port = inlet(limit=1)
    for n in range(1000):
        port.put(0, Batch([n]))

    assert port.waiting == 1000
    assert not port.has_room(0)


def test_a_producer_waits_for_room_and_is_woken():
    port = inlet(limit=1)
    port.put(0, Batch(list(range(ENOUGH + 1))))
    passed = threading.Event()
    assert not port.has_room(0)

    def produce():
        port.await_room(0)
        passed.set()

    thread = threading.Thread(target=produce)
    thread.start()
    assert not passed.is_set()
    for _ in range(ENOUGH):
        port.take()

    assert passed.wait(10)
    thread.join(10)


def test_pulses_take_no_room():
    port = inlet()
    port.put(0, Batch(["a"], [[0]], mark_at(0)))
    for number in range(1000):
        port.put(0, Batch([], [[]], mark_at(number)))

    batch = port.take()

    assert (["a"], 999) == (batch.items, batch.mark[0])
    assert port.poll() is None


def test_the_end_comes_once_after_everything_else():
    port = inlet(merge=SeqnoMerge(2), limit=9)
    port.put(0, Batch(["a"], [[0]]))
    port.close(0, final=True)
    port.put(1, Batch(["b"], [[1]]))
    port.close(1, final=True)

    assert ["a", "b"] == port.take().items
    assert End(final=True) == port.take()
    assert port.poll() is None


def test_one_thread_at_a_time_passes_a_lock_and_takes_what_others_bring():
    lock = inlet(threaded=False, limit=9)
    lock.put(0, Batch(["a"]))

    first = lock.claim()
    lock.put(0, Batch(["b"]))

    assert ["a"] == first.items
    assert lock.claim() is None  # another thread is at work there
    assert ["b"] == lock.more().items  # which sees to this, too
    assert lock.more() is None
    lock.put(0, Batch(["c"]))
    assert ["c"] == lock.claim().items


def test_whoever_waits_goes_home_when_it_is_aborted():
    port = inlet()
    caught = []

    def consume():
        try:
            port.take()
        except AbortedError as error:
            caught.append(error)

    thread = threading.Thread(target=consume)
    thread.start()
    port.abort()
    thread.join(10)

    assert len(caught) == 1
    with pytest.raises(AbortedError):
        port.await_room(0)


def test_nobody_waits_for_room_once_the_bound_is_lifted():
    port = inlet()
    port.put(0, Batch(list(range(100))))
    passed = threading.Event()

    def produce():
        port.await_room(0)
        passed.set()

    thread = threading.Thread(target=produce)
    thread.start()
    port.lift_bound()

    assert passed.wait(10)
    thread.join(10)
    assert port.has_room(0)


def test_what_waits_for_another_source_is_left_over():
    port = inlet(limit=9, merge=PositionMerge([0, 1], width=2))
    port.put(0, Batch(["a", "c"], [[1, 2], [0, 0]], mark_at(2, 0)))
    port.put(1, Batch(["b"], [[1], [1]], mark_at(1, 1)))
    port.close(0, final=False)
    port.close(1, final=False)

    assert ["a", "b"] == port.take().items
    assert End(final=False) == port.take()
    ((queue, batch),) = port.take_pending().items()
    assert (0, ["c"], [[2], [0]]) == (queue, batch.items, batch.columns)
    assert {} == port.take_pending()
