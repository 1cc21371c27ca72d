"""Drive one kernel with one state, and note which arrival gave which output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from anabranch.operators.kernel import Kernel
from anabranch.operators.stateless import WINDOW
from tests.programs.definitions import Arrival


class Point(NamedTuple):
    """An item with a time; `tag` tells items of one time apart."""

    t: float
    tag: int = 0


def points(times: Iterable[float]) -> list[Point]:
    """Return items with these times, numbered by arrival."""
    return [Point(t, tag) for tag, t in enumerate(times)]


def on_ports(pairs: Iterable[tuple[int, Any]]) -> list[Arrival]:
    """Return arrivals from pairs of an input port and an item."""
    return [Arrival(index, port, item) for index, (port, item) in enumerate(pairs)]


def drive(kernel: Kernel, arrivals: list[Arrival]) -> list[tuple[float, Any]]:
    """Return (index of the arrival that triggered it, or infinity; output)."""
    state = kernel.open()
    outputs: list[tuple[float, Any]] = []
    for index, port, item in arrivals:
        if item is WINDOW:
            given = kernel.punctuation(state)
        else:
            given = kernel.process(state, item, port)
        outputs += [(index, output) for output in given]
    return outputs + [(math.inf, output) for output in kernel.finish(state)]


def drive_items(kernel: Kernel, items: Iterable[Any]) -> list[Any]:
    """Return the outputs for items on port 0, and those of the end."""
    return [output for _, output in drive(kernel, on_ports((0, i) for i in items))]
