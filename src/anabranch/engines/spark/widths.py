"""How many channels each unit has in an epoch.

A level with many units keeps all cores busy without any replica, and every task costs
something to start. So where nobody has said how many replicas there should be, a level
gets no more than a few tasks for each core.
"""

from __future__ import annotations

from anabranch.engines.spark.layout import Layout

TASKS = 3  # of a level for each core, so that a slow one does not hold up the rest


def widths(layout: Layout, degree: int, *, exactly: bool) -> tuple[int, ...]:
    """Return the number of channels of each unit: `degree`, or fewer on full levels."""
    found = []
    for unit in layout.units:
        width = degree if unit.replicated else 1
        if unit.replicated and not exactly:
            beside = len(layout.levels[unit.level])
            width = min(degree, -(-TASKS * degree // beside))
        found.append(width)
    return tuple(found)
