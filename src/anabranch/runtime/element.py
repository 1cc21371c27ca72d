"""A replica of a processing element: its fused program, where items come in, and go.

An element of a region has one replica for each channel; any other element has one. A
replica is run by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, TypeAlias

from anabranch.errors import EngineError
from anabranch.graph.graph import Edge
from anabranch.runtime.batch import Batch
from anabranch.runtime.pace import Pace
from anabranch.runtime.ports import Inlet
from anabranch.runtime.program import Program
from anabranch.runtime.split import Outlet, Slot

_FORGET = 0.3  # weight of the newest batch in the running mean

Deliver: TypeAlias = Callable[[Batch], None]  # hands what reached a sink over to it


@dataclass(eq=False)
class Replica:
    """One running copy of an element.

    An element without a program is a sink alone. With `one_to_one` the outputs of a
    batch have the positions of its items, so the program need not carry them along.
    An element that `carries` nothing passes no positions and no marks on.
    """

    name: str
    program: Program | None
    inlet: Inlet | None
    outlets: dict[Edge, Outlet] = field(default_factory=dict)
    sinks: dict[Edge, Deliver] = field(default_factory=dict)
    carries: bool = False
    one_to_one: bool = False
    pace: Pace = field(default_factory=Pace)
    limit: int = 1
    received: int = 0
    busy_s: float = 0.0  # how long it has been at work, by the clock on the wall
    _batch: Batch | None = None  # what is at work
    _left: Any = None  # iterator over its items
    _gains: dict[Edge, float] = field(default_factory=dict)  # outputs for each item

    def run(self, batch: Batch) -> None:
        """Send a batch through the element and what it gives to the consumers."""
        started_s = perf_counter()
        self._batch = batch
        self.received += len(batch.items)
        if self.program is None:
            for deliver in self.sinks.values():
                deliver(batch)
        else:
            if batch.items:
                self._through(self.program, batch)
            self._send(self.program, batch)
        if batch.items:
            self.pace.fit(batch.items)
            elapsed_s = perf_counter() - started_s
            self.busy_s += elapsed_s
            self.pace.observe(len(batch.items), elapsed_s)
            self._adapt()

    def settle(self) -> None:
        """Send what is owed; after this the thread may wait."""
        for outlet in self.outlets.values():
            outlet.settle()

    def close(self, *, final: bool) -> None:
        """End the streams that leave, or cut them off here."""
        self.settle()
        for outlet in self.outlets.values():
            outlet.close(final=final)

    @property
    def where(self) -> str:
        """The place in its source of the item at work, as far as it is known."""
        if self._batch is None:
            return "an item"
        origin, columns = self._batch.origin, self._batch.columns
        if self.inlet is None and origin.source is not None and columns is not None:
            place = len(self._batch) - self._left.__length_hint__() - 1
            unbroken = origin.last - origin.first + 1 == len(self._batch)
            number = origin.first + place if unbroken else columns[0][place]
            return origin.source.where(number)
        return origin.text

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The queues that this replica feeds."""
        return tuple(slot for outlet in self.outlets.values() for slot in outlet.slots)

    @property
    def states(self) -> Mapping[str, dict[Any, Any]]:
        """The states of its operators by key."""
        return {} if self.program is None else self.program.states

    def _through(self, program: Program, batch: Batch) -> None:
        self._left = iter(batch.items)
        carried = None if self.one_to_one else batch.columns
        program.run(self._left, carried, batch.entries)  # type: ignore[arg-type]

    def _send(self, program: Program, batch: Batch) -> None:
        for edge, left in program.exits.items():
            columns: Any = None
            if self.one_to_one:
                columns = self._unchanged(batch, len(left.items))
            elif left.positions:
                columns = [column[:] for column in left.positions]
            mark = batch.mark if self.carries else None
            made = Batch(left.items[:], columns, mark, batch.origin)
            left.clear()
            if edge in self.outlets:
                self._learn_gain(edge, len(made), len(batch))
                self.outlets[edge].put(made)
            elif made.items:
                self.sinks[edge](made)

    def _learn_gain(self, edge: Edge, outputs: int, inputs: int) -> None:
        if inputs:
            before = self._gains.get(edge, 1.0)
            self._gains[edge] = before + _FORGET * (outputs / inputs - before)

    def _adapt(self) -> None:
        """Take no more at a time than the consumers can take of what comes of it."""
        limit: float = self.pace.limit
        for edge, outlet in self.outlets.items():
            gain = self._gains.get(edge, 1.0)
            if limit * gain > outlet.appetite:
                limit = outlet.appetite / gain
        self.limit = max(1, int(limit))
        if self.inlet is not None:
            self.inlet.limit = self.limit

    def _unchanged(self, batch: Batch, count: int) -> Any:
        if count != len(batch.items):
            msg = (
                f"the operators of {self.name} must give one output for each item; they "
                f"gave {count} for {len(batch.items)}; is a declared push wrong?"
            )
            raise EngineError(msg)
        return batch.columns
