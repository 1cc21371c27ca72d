"""When the rows of an epoch arrived, and how long they were on their way.

A row of a source that can be read at any time is on its way from when the epoch takes
it. One that arrived by itself has waited since the epoch before, unless its source
knows better.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from anabranch.engines.spark.intake import Intake, Piece
from anabranch.engines.spark.layout import Layout
from anabranch.engines.spark.task import Report
from anabranch.metrics.latency import Latencies
from anabranch.metrics.observed import Epoch


class Arrivals:
    """Written by the thread that runs epochs; any may look."""

    def __init__(self) -> None:
        self.latencies = Latencies()
        self.epochs: list[Epoch] = []
        self.degree: int | None = None  # of the epoch that runs, or ran last
        self.taken_items = 0
        self._epoch_items = 0
        self._began_s = 0.0
        self._intakes: Mapping[str, Intake] = {}
        self._before: dict[str, int] = {}  # rows taken of each source
        self._left: dict[str, int] = {}  # rows that waited when some were last taken
        self._asked_s: dict[str, float] = {}
        self._born: list[tuple[float, int]] = []  # when, and how many rows
        self._each: list[Sequence[float]] = []

    def arrived(self) -> int:
        """Return how many items have arrived: what was taken, and what waits if known."""
        intakes = dict(self._intakes)
        known = {name: intake.arrived() for name, intake in intakes.items()}
        return sum(
            max(taken + self._left.get(name, 0), known.get(name) or 0)
            for name, taken in dict(self._before).items()
        )

    def taken(
        self,
        intakes: Mapping[str, Intake],
        pieces: Mapping[str, Sequence[Piece]],
        degree: int,
    ) -> None:
        """Take note of what an epoch takes in."""
        now_s = self._began_s = time.perf_counter()
        self.degree, self._intakes, self._epoch_items = degree, intakes, 0
        self._born, self._each = [], []
        for name, parts in pieces.items():
            rows = sum(piece.rows for piece in parts)
            self._before[name] = self._before.get(name, 0) + rows
            self.taken_items += rows
            self._epoch_items += rows
            if intakes[name].live:
                self._left[name] = intakes[name].waiting() or 0
            due_s = intakes[name].due_s()
            if due_s is not None:
                self._each.append(due_s)
            elif intakes[name].live:
                self._born.append((self._asked_s.get(name, now_s), rows))
            else:
                self._born.append((now_s, rows))
        self._asked_s.update(dict.fromkeys(intakes, now_s))

    def delivered(self, work_s: float, longest_s: float) -> None:
        """Take note that all of the epoch has come out, and of what its tasks did."""
        now_s = time.perf_counter()
        for born_s, rows in self._born:
            self.latencies.record(now_s - born_s, rows)
        for due_s in self._each:
            self.latencies.record_each(now_s - np.asarray(due_s))
        seconds = now_s - self._began_s
        degree = self.degree or 1
        self.epochs.append(Epoch(self._epoch_items, seconds, degree, work_s, longest_s))

    @property
    def live(self) -> bool:
        """Whether rows arrive by themselves at some source."""
        return any(intake.live for intake in dict(self._intakes).values())


def tasks_of(layout: Layout, reports: Iterable[Report]) -> tuple[float, float]:
    """Return what all replicas did, and how long the longest tasks of all levels took."""
    work_s, longest_s = 0.0, dict.fromkeys(range(len(layout.levels)), 0.0)
    for report in reports:
        unit = layout.units[report.unit]
        longest_s[unit.level] = max(longest_s[unit.level], report.seconds)
        if unit.replicated:
            work_s += report.seconds
    return work_s, sum(longest_s.values())
