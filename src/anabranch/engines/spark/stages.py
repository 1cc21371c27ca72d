"""Which levels of an epoch share a stage.

Between two stages Spark starts tasks and moves rows. Where a level has one task and so
has the next, nothing is gained by that: one task runs both. It can even be quicker to
give a unit one channel than to interrupt a row of such levels for it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from anabranch.engines.spark.layout import Layout, Unit

STAGE_S = 0.03  # until its tasks run and have their rows
TASK_S = 0.005  # for each further task


def stages(
    layout: Layout, channels: Sequence[int], apart: Collection[int] = ()
) -> tuple[range, ...]:
    """Return the levels of each stage; the units in `apart` have one of their own."""
    found: list[range] = []
    open_ended = False  # whether a level may join the last stage
    for level, units in enumerate(layout.levels):
        joins = _alone(units) and channels[units[0].number] == 1
        joins = joins and units[0].number not in apart
        if joins and open_ended:
            found[-1] = range(found[-1].start, level + 1)
        else:
            found.append(range(level, level + 1))
        open_ended = joins
    return tuple(found)


def narrowed(
    layout: Layout, channels: Sequence[int], work: Mapping[int, float]
) -> tuple[int, ...]:
    """Return the channels of units, but one for those that are not worth a stage.

    This is the quickest of all ways through the levels. Of those that end alike at a
    level, only the best can be part of it. Units whose `work` is not known, in seconds,
    stay as they are.
    """
    ways = [_Way()]
    for units in layout.levels:
        ways = [
            min((way.then(level) for way in ways), key=attrgetter("seconds"))
            for level in _choices(units, channels, work)
        ]
    narrow = min(ways, key=attrgetter("seconds")).narrow
    return tuple(1 if n in narrow else width for n, width in enumerate(channels))


@dataclass(frozen=True)
class _Way:
    """A way through some levels."""

    seconds: float = 0.0
    joins: bool = False  # whether the next level may be in the stage of the last
    narrow: tuple[int, ...] = ()  # units that have one channel for this

    def then(self, level: _Way) -> _Way:
        begun_s = 0.0 if self.joins and level.joins else STAGE_S
        seconds = self.seconds + begun_s + level.seconds
        return _Way(seconds, level.joins, self.narrow + level.narrow)


def _choices(
    units: Sequence[Unit], channels: Sequence[int], work: Mapping[int, float]
) -> list[_Way]:
    """Return how a level may be run: with one task, as it is, or both."""
    number = units[0].number
    if not _alone(units) or number not in work:
        return [_Way()]
    width = channels[number]
    narrow = _Way(work[number], joins=True, narrow=(number,))
    if width == 1:
        return [narrow]
    return [narrow, _Way(work[number] / width + TASK_S * (width - 1))]


def _alone(units: Sequence[Unit]) -> bool:
    return len(units) == 1 and not units[0].in_driver
