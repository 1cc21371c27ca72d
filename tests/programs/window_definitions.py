"""Which windows a stream has, said of the whole stream at once.

Each function returns the windows in the order in which they are emitted, as pairs of
the index of the arrival that triggers them (infinity: the end) and their items.
"""

from __future__ import annotations

import itertools
import math
from operator import attrgetter
from typing import Any

from anabranch.operators.clock import is_sign
from anabranch.operators.stateless import WINDOW
from anabranch.operators.windows import Window

Windows = list[tuple[float, list[Any]]]


def windows_of(window: Window, arrivals: list[Any]) -> Windows:
    """Return the windows over the arrivals (index, port, item) of one key."""
    if window.punctuation:
        return punctuated(arrivals)
    numbered = [(index, item) for index, _, item in arrivals if not is_sign(item)]
    if window.count is not None:
        return by_count(window, numbered)
    if window.time is not None:
        return by_time(window, numbered)
    return by_delta(window, numbered)


def punctuated(arrivals: list[Any]) -> Windows:
    cuts = [a.index for a in arrivals if a.item is WINDOW]
    bounds = [-1, *cuts, math.inf]
    windows = [
        (
            high,
            [a.item for a in arrivals if low < a.index < high and not is_sign(a.item)],
        )
        for low, high in itertools.pairwise(bounds)
    ]
    return [(trigger, items) for trigger, items in windows if items]


def by_count(window: Window, numbered: list[Any]) -> Windows:
    every = int(window.every or window.count)
    windows = []
    for k in range(1, -(-len(numbered) // every) + 1):
        held = numbered[max(0, k * every - window.count) : k * every]
        full = k * every <= len(numbered)
        trigger = numbered[k * every - 1][0] if full else math.inf
        windows.append((trigger, [item for _, item in held]))
    return [(trigger, items) for trigger, items in windows if items]


def by_time(window: Window, numbered: list[Any]) -> Windows:
    """For each multiple b of `every`: the items from b - size up to b."""
    every = window.every or window.time
    timed = in_time(window, numbered)
    ends = sorted(
        {
            (time // every + step) * every
            for _, _, time in timed
            for step in range(1, int(window.time // every) + 3)
        }
    )
    windows = []
    for b in ends:
        items = [item for _, item, time in timed if b - window.time <= time < b]
        trigger = min((i for i, _, time in timed if time >= b), default=math.inf)
        if items:
            windows.append((trigger, items))
    return windows


def in_time(window: Window, numbered: list[Any]) -> list[tuple[int, Any, Any]]:
    """Return (index, item, time) of what counts; a late item counts as just in time."""
    every = window.every or window.time
    on = attrgetter(window.on)
    timed: list[tuple[int, Any, Any]] = []
    for index, item in numbered:
        time = on(item)
        latest = max((t // every for _, _, t in timed), default=time // every)
        if time // every < latest:
            assert window.late != "error", f"{item!r} is late"
            if window.late == "drop":
                continue
            time = max(latest * every, (latest + 1) * every - window.time)
        timed.append((index, item, time))
    return timed


def by_delta(window: Window, numbered: list[Any]) -> Windows:
    on = attrgetter(window.on)
    every = window.every or window.delta
    windows: Windows = []
    start = 0  # the place of the item that opened the window
    for place, (index, item) in enumerate(numbered):
        if on(item) - on(numbered[start][1]) >= every:
            windows.append((index, _delta_items(window, numbered, start, place)))
            start = place
    if numbered:
        rest = _delta_items(window, numbered, start, len(numbered))
        windows.append((math.inf, rest))
    return windows


def _delta_items(window: Window, numbered: list[Any], start: int, stop: int) -> Any:
    """Return what a window that opened at `start` holds before the item at `stop`."""
    on = attrgetter(window.on)
    items = [item for _, item in numbered[:stop]]
    if window.every is None:
        return items[start:]
    return [
        item
        for place, item in enumerate(items)
        if all(on(later) - on(item) < window.delta for later in items[place:])
    ]
