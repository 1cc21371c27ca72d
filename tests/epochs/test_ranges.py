"""Which items of a range decide the clock of the ranges after it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.arrow_items import form_of
from anabranch.epochs.ranges import find_deciding_before, take_deciding
from anabranch.epochs.wire import WireBatch, decode
from anabranch.operators.clock import EventTime, EventTimeKernel


class Event(NamedTuple):
    ts: int


def test_the_highest_time_of_objects_is_found_in_a_column(monkeypatch):
    def look_at_each(*_):
        raise AssertionError

    monkeypatch.setattr(EventTimeKernel, "find_deciding", look_at_each)
    items = [Event(ts) for ts in (5, 9, 3, 7, 1, 2)]
    batch = WireBatch([np.arange(6)], form_of(Event), None, items)
    stage = SimpleNamespace(channels={0: 2})
    task = SimpleNamespace(stage=stage, rows=range(6))
    kernel, pickler = EventTimeKernel(EventTime("ts")), None

    ((channel, blob),) = find_deciding_before(batch, task, 0, kernel, pickler)

    (_, ((given,),)) = take_deciding([[pa.py_buffer(blob)]])
    assert 1 == channel
    assert [Event(5), Event(9)] == decode(given, form_of(Event), pickler).items
