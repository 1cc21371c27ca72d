"""How many channels each unit has in an epoch.

A level with many units keeps all cores busy without any replica, and every task costs
something to start. So where nobody has said how many replicas there should be, a level
gets no more than a few tasks for each core, and a unit no more channels than have
enough to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.task import Report

TASKS = 3  # of a level for each core, so that a slow one does not hold up the rest
WORTH_S = 0.01  # of work for each channel; at half of it nothing is gained
SHARED_S = 0.1  # the same for each unit of a level whose units keep all cores busy

Work = Mapping[
    int, float
]  # by unit, seconds in an epoch; units not in it are not known
NOT_KNOWN: Work = {}


def widths(
    layout: Layout, degree: int, *, exactly: bool, work: Work = NOT_KNOWN
) -> tuple[int, ...]:
    """Return the number of channels of each unit: `degree`, or fewer unless `exactly`.

    Where there are as many units beside each other as cores, further channels can only
    make up for unequal ones, so that more work is wanted for each.
    """
    found = []
    for unit in layout.units:
        width = degree if unit.replicated else 1
        if unit.replicated and not exactly:
            beside = len(layout.levels[unit.level])
            width = min(degree, -(-TASKS * degree // beside))
            if unit.number in work:
                least_s = WORTH_S if beside < degree else SHARED_S * beside
                width = max(1, min(width, int(work[unit.number] / least_s)))
        found.append(width)
    return tuple(found)


def work_of(reports: Iterable[Report]) -> Work:
    """Return what each unit had to do, all its channels together.

    >>> work_of([Report(0, 0, seconds=0.25), Report(0, 1, seconds=0.5)])
    {0: 0.75}
    """
    found: dict[int, float] = {}
    for report in reports:
        found[report.unit] = found.get(report.unit, 0.0) + report.seconds
    return found


def times(factor: float, work: Work) -> Work:
    """Return the work of so many times as many rows.

    >>> times(0.5, {0: 3.0, 1: 1.0})
    {0: 1.5, 1: 0.5}
    """
    return {unit: factor * seconds for unit, seconds in work.items()}
