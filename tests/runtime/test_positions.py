"""Positions inside of an element."""

from __future__ import annotations

from typing import NamedTuple

import anabranch as ab
from anabranch.language.drafts import build_graph
from anabranch.runtime.positions import positions_inside


class Event(NamedTuple):
    ts: int
    key: str


def test_keys_that_an_advance_ends_together_have_positions_of_their_own():
    clocked = ab.from_iterable([], Event).event_time("ts").key_by("key", forget_after=5)
    windows = clocked.window(count=3).aggregate(n=ab.count(), name="windows")
    graph = build_graph([windows.to_list(name="out")])

    form = positions_inside(graph, ["windows"], ["event_time"])

    assert form.after["windows"] == form.inside["windows"] + 1
