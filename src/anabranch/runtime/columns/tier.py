"""Decides when a chain runs in columns: once compiling pays off, and while it does.

Compiling takes a second, longer than small jobs run. So a chain begins in Python. After
a while, or at once if this process has the kernels already, it continues in columns;
the compiler runs in a background thread meanwhile. If columns turn out to be slower, or
keep giving up, the chain returns to Python for good.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, TypeVar

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
_TELLING = 1024  # items in a batch; for fewer, other costs dominate
_PATIENCE = 5  # consecutive batches that had to run in Python after all

Runs = TypeVar("Runs")


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


class ColumnTier(Generic[Runs]):
    """Decides when operators run in columns; `make` compiles them.

    `why_not` is the reason why they do not.
    """

    def __init__(
        self,
        kernels: Sequence[ColumnKernel],
        make: Callable[[], Runs],
        when: When = "hot",
    ) -> None:
        self.why_not = "has not run long"
        self.compiled: Runs | None = None
        self._kernels = kernels
        self._make = make
        self._when = when
        self._begun = False
        self._spent_s = 0.0
        self._failed = 0
        self._python = _Rate()
        self._columns = _Rate()

    @property
    def ready(self) -> bool:
        """Whether the next batch can run in columns."""
        if not self._begun and self._is_due():
            self._begun = True
            if self._when == "at once" or self._is_known():
                self._compile()
            else:
                # Not a daemon: a process must not end in the middle of compiling.
                threading.Thread(target=self._compile, name="compile").start()
        return self.compiled is not None

    def observe_columns(self, items: int, time_s: float) -> None:
        """Record the time of a batch in columns."""
        self._failed = 0
        self._columns.add(items, time_s)
        slower = self._columns.for_an_item > self._python.for_an_item
        tried = self._columns.batches >= _TRIAL_BATCHES and self._python.items
        if self._when == "hot" and tried and slower:
            self.drop("is faster in Python")

    def observe_python(self, items: int, time_s: float) -> None:
        """Record the time of a batch in Python."""
        self._spent_s += time_s
        self._python.add(items, time_s)

    def observe_misfit(self, error: UnfitError) -> None:
        """Record a batch that had to run in Python after all."""
        self._failed += 1
        if self._failed >= _PATIENCE:
            self.drop(f"its items keep going through Python: {error}")

    def drop(self, why: str) -> None:
        """Run in Python from now on."""
        self.compiled = None
        self.why_not = why

    def _is_due(self) -> bool:
        if self._when == "never":
            return False
        return self._when == "at once" or self._spent_s > _HOT_S or self._is_known()

    def _is_known(self) -> bool:
        return all(map(has_compiled_columns, self._kernels))

    def _compile(self) -> None:
        try:
            self.compiled = self._make()
            self.why_not = ""
        except CompilationError as error:
            self.why_not = str(error)


class ChainTier(ColumnTier[ColumnChain]):
    """Runs batches of a chain in columns when that pays off.

    `done` counts the items run in columns.
    """

    def __init__(
        self,
        ops: Sequence[Op],
        kernels: Mapping[str, ColumnKernel],
        states: Mapping[str, MutableMapping[Any, Any]],
        when: When = "hot",
    ) -> None:
        self.ops = ops
        self.done = 0
        super().__init__(
            [kernels[op.name] for op in ops],
            lambda: ColumnChain(ops, kernels, states),
            when,
        )

    def run(self, given: pa.Table | Sequence[Any]) -> ColumnBatch | None:
        """Run items, possibly a table; None: Python has to run them."""
        chain = self.compiled
        if chain is None:
            return None
        began_s, count = perf_counter(), len(given)
        is_table = isinstance(given, pa.Table)
        try:
            batch = chain.of_table(given) if is_table else chain.of_items(given)
            made = chain.run(batch)
        except UnfitError as error:
            self.observe_misfit(error)
            return None
        self.done += count
        self.observe_columns(count, perf_counter() - began_s)
        return made
