"""How an epoch is divided: the channels of units, and the levels that share a stage.

Between two stages Spark starts tasks and moves rows. Where units hand items to nobody
but each other, nothing is gained by that: one task runs them one after the other. It
can even be quicker to give a unit one channel than to begin a stage for several.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from anabranch.engines.spark.layout import Layout

STAGE_S = 0.03  # until its tasks run and have their rows
TASK_S = 0.005  # for each further task
UNKNOWN_S = 1.0  # work of a unit that has not run yet
MOST = 16  # levels of a stage


@dataclass(frozen=True)
class Division:
    """The channels of each unit, and the levels of each stage."""

    channels: tuple[int, ...]
    stages: tuple[range, ...]


def as_told(layout: Layout, channels: Sequence[int]) -> Division:
    """Return the division with just these channels: each level has a stage."""
    stages = (range(level, level + 1) for level in range(len(layout.levels)))
    return Division(tuple(channels), tuple(stages))


def divided(
    layout: Layout,
    channels: Sequence[int],
    work: Mapping[int, float],
    cores: int,
    apart: Collection[int] = (),
) -> Division:
    """Return the quickest division with these channels for units, or one.

    It goes by the `work` of units, in seconds. Of all ways to a level, only the
    quickest can be part of it. Units in `apart` have a stage for their level.
    """
    ways = [_Way(), *(_Way(math.inf) for _ in layout.levels)]
    for start in range(len(layout.levels)):
        for stage in _stages_from(layout, start, apart):
            took_s = _seconds(layout, stage, channels, work, cores)
            way = ways[start].then(stage, took_s)
            ways[stage.stop] = min(ways[stage.stop], way, key=attrgetter("seconds"))
    stages = ways[-1].stages
    narrow = {
        unit.number
        for stage in stages
        if len(stage) > 1
        for level in stage
        for unit in layout.levels[level]
    }
    width = (1 if n in narrow else width for n, width in enumerate(channels))
    return Division(tuple(width), stages)


@dataclass(frozen=True)
class _Way:
    """A way through the first levels."""

    seconds: float = 0.0
    stages: tuple[range, ...] = ()

    def then(self, stage: range, took_s: float) -> _Way:
        return _Way(self.seconds + took_s, (*self.stages, stage))


def _stages_from(layout: Layout, start: int, apart: Collection[int]) -> Iterator[range]:
    """Return the stages that may begin at a level."""
    yield range(start, start + 1)
    for level in range(start, min(len(layout.levels), start + MOST)):
        if any(unit.in_driver or unit.number in apart for unit in layout.levels[level]):
            return
        if level > start:
            yield range(start, level + 1)


def _seconds(
    layout: Layout,
    stage: range,
    channels: Sequence[int],
    work: Mapping[int, float],
    cores: int,
) -> float:
    """Return how long a stage takes: not less than its longest task, or all cores."""
    tasks: list[float] = []
    for units in layout.together(stage):
        width = channels[units[0].number] if len(stage) == 1 else 1
        took_s = sum(work.get(unit.number, UNKNOWN_S) for unit in units)
        tasks += [took_s / width] * width
    started_s = STAGE_S + TASK_S * (len(tasks) - 1)
    return started_s + max(*tasks, sum(tasks) / cores)
