"""What is known of a job's operators from the reports of its tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.log import UnitLoads
from anabranch.epochs.state.restore import measure_directory
from anabranch.epochs.task import Report
from anabranch.metrics.job_metrics import OperatorLoad

STATE_S = 5.0  # between two measurements of the size of states


class OperatorMeasures:
    """The load of operators, the size of their states, and their items in columns.

    `states` is the directory of the states on this host, once there is one.
    """

    def __init__(self) -> None:
        self.states: Path | None = None
        self.channels: Mapping[str, int] = {}  # by operator, in the last epoch
        self.buckets_opened = self.buckets_restored = 0
        self._loads = UnitLoads()
        self._ran: dict[str, tuple[int, int]] = {}  # in columns, in Python
        self._state_sizes: dict[str, tuple[float, int | None]] = {}  # when; bytes

    def note(self, reports: Iterable[Report], channels: Mapping[str, int]) -> None:
        """Add the reports of an epoch."""
        self.channels = channels
        self._loads.note(reports)
        for report in reports:
            self.buckets_opened += report.opened
            self.buckets_restored += report.restored
            for name, (done, others) in report.ran.items():
                columns, python = self._ran.get(name, (0, 0))
                self._ran[name] = columns + done, python + others

    def find_shares_in_columns(self) -> dict[str, float]:
        """Return the share of items run in columns, of operators that can be."""
        return {
            name: columns / (columns + python)
            for name, (columns, python) in self._ran.items()
            if columns + python
        }

    def measure_loads(self, layout: EpochLayout) -> dict[str, OperatorLoad]:
        """Return the load of each operator, which is that of its unit."""
        found: dict[str, OperatorLoad] = {}
        for unit in layout.units:
            operators = (*unit.operators, *unit.writes)
            if not operators:
                continue
            replicas = self.channels.get(operators[0], 1)
            held = self._measure_state(unit.name)
            load = self._loads.of(unit.number, operators[0], replicas, held)
            found |= dict.fromkeys(operators, load)
        return found

    def _measure_state(self, unit: str) -> int | None:
        """Return the size of a unit's states on this host, some seconds old."""
        if self.states is None:
            return None
        now_s = time.monotonic()
        known = self._state_sizes.get(unit)
        if known is None or now_s - known[0] > STATE_S:
            size = measure_directory(self.states / unit)
            known = self._state_sizes[unit] = now_s, size
        return known[1]
