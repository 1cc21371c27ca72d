"""The programs of a unit in this process, each made when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engines.spark.cuts import halves_of
from anabranch.engines.spark.layout import Unit
from anabranch.engines.spark.spec import Job
from anabranch.engines.spark.task import EpochTask
from anabranch.runtime.compiled.program import make_program
from anabranch.runtime.failures import OnError, stop
from anabranch.runtime.fusion import Entry
from anabranch.runtime.positions import Positions
from anabranch.runtime.program import Program


class UnitPrograms:
    """Programs of all operators of a unit, or of those on one side of a cut."""

    def __init__(
        self,
        job: Job,
        unit: Unit,
        states: Mapping[str, dict[Any, Any]],
        on_error: OnError,
    ) -> None:
        self._unit = unit
        self._layout = job.spec.layout
        self._states = states
        self._on_error = on_error if job.spec.resilient else stop
        self._made: dict[tuple[Any, ...], Program] = {}

    def whole(self, after: str | None = None) -> Program:
        """Return the program whose items come in as usual, or after an operator."""
        unit = self._unit
        entries = (after,) if after in unit.operators else unit.entries
        return self._program(entries, self._layout.positions, unit.operators)

    def without_positions(self) -> Program:
        """Return the program that does not tell where its outputs stand."""
        return self._program(self._unit.entries, None, self._unit.operators)

    def half(self, operators: tuple[str, ...], entries: tuple[Entry, ...]) -> Program:
        """Return the program of one side of a cut."""
        return self._program(entries, self._layout.positions, operators)

    def of(self, task: EpochTask) -> list[Program]:
        """Return the programs that a task may run."""
        cut = task.cuts.get(self._unit.number)
        if cut is not None:
            halves = halves_of(self._layout, self._unit, cut)
            self.half(halves.first, self._unit.entries)
            self.half(halves.second, halves.between)
        elif self._unit.operators:
            self.whole()  # this process may be new
        return list(self._made.values())

    def _program(
        self,
        entries: tuple[Entry, ...],
        positions: Positions | None,
        operators: tuple[str, ...],
    ) -> Program:
        key = entries, positions is None, operators
        if key not in self._made:
            self._made[key] = make_program(
                self._layout.graph,
                operators,
                entries,
                self._layout.choice,
                positions=positions,
                states=self._states,
                on_error=self._on_error,
                describe=self._describe,
            )
        return self._made[key]

    def _describe(self, place: int | None) -> str:
        sources = self._layout.graph.sources
        if place is None or len(sources) > 1:
            return "an item" if place is None else f"item {place} of the sources"
        return f"item {place} of {sources[0].name}"
