"""When a chain runs in columns: once compiling has paid off, and as long as it does.

Compiling takes a second, which small jobs do not even run for. So a chain begins in
Python. Once that has taken a while, or at once if this process has the kernels already,
it goes on in columns; the compiler runs in a thread of its own meanwhile. If columns
turn out to be slower, or keep giving up, the chain goes back to Python for good.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import pyarrow as pa

from anabranch.graph.graph import Op
from anabranch.plan.column_kernels import ColumnKernel
from anabranch.runtime.columns.chain import ColumnChain
from anabranch.runtime.columns.column import UnfitError
from anabranch.runtime.columns.held_state import ColumnBatch
from anabranch.runtime.compiled.build import CompilationError, has_compiled_columns
from anabranch.runtime.compiled.program import When

_HOT_S = 0.3  # in Python, before compiling is worth a second
_TRIAL_BATCHES = 6
_TELLING = 1024  # items in a batch; with fewer, other things cost more than they do
_PATIENCE = 5  # batches in a row that had to go through Python after all


@dataclass
class _Rate:
    items: int = 0
    time_s: float = 0.0
    batches: int = 0

    def add(self, items: int, time_s: float) -> None:
        if items >= _TELLING:
            self.items += items
            self.time_s += time_s
            self.batches += 1

    @property
    def for_an_item(self) -> float:
        return self.time_s / max(self.items, 1)


@dataclass
class ColumnTier:
    """Runs batches of a chain in columns, when it should.

    `done` counts the items that ran in columns, and `why_not` tells why none do.
    """

    ops: Sequence[Op]
    kernels: Mapping[str, ColumnKernel]
    states: Mapping[str, MutableMapping[Any, Any]]
    when: When = "hot"
    done: int = 0
    why_not: str = "has not run long"
    _chain: ColumnChain | None = None
    _begun: bool = False
    _spent_s: float = 0.0
    _failed: int = 0
    _python: _Rate = field(default_factory=_Rate)
    _columns: _Rate = field(default_factory=_Rate)

    @property
    def ready(self) -> bool:
        """Whether the next batch can run in columns."""
        if not self._begun and self._is_due():
            self._begun = True
            if self.when == "at once" or self._is_known():
                self._compile()
            else:
                # Not a daemon: a process must not end in the middle of compiling.
                threading.Thread(target=self._compile, name="compile").start()
        return self._chain is not None

    def run(self, given: pa.Table | Sequence[Any]) -> ColumnBatch | None:
        """Return what comes of items, which may be a table; None: Python has to run them."""
        chain = self._chain
        if chain is None:
            return None
        began_s, count = perf_counter(), len(given)
        is_table = isinstance(given, pa.Table)
        try:
            batch = chain.of_table(given) if is_table else chain.of_items(given)
            made = chain.run(batch)
        except UnfitError as error:
            self._failed += 1
            if self._failed >= _PATIENCE:
                self._drop(f"its items keep going through Python: {error}")
            return None
        self._failed = 0
        self.done += count
        self._columns.add(count, perf_counter() - began_s)
        slower = self._columns.for_an_item > self._python.for_an_item
        tried = self._columns.batches >= _TRIAL_BATCHES and self._python.items
        if self.when == "hot" and tried and slower:
            self._drop("is faster in Python")
        return made

    def observe_python(self, items: int, time_s: float) -> None:
        """Take note of what a batch has taken in Python."""
        self._spent_s += time_s
        self._python.add(items, time_s)

    def _is_due(self) -> bool:
        if self.when == "never":
            return False
        return self.when == "at once" or self._spent_s > _HOT_S or self._is_known()

    def _is_known(self) -> bool:
        return all(has_compiled_columns(self.kernels[op.name]) for op in self.ops)

    def _drop(self, why: str) -> None:
        self._chain = None
        self.why_not = why

    def _compile(self) -> None:
        try:
            self._chain = ColumnChain(self.ops, self.kernels, self.states)
            self.why_not = ""
        except CompilationError as error:
            self.why_not = str(error)
