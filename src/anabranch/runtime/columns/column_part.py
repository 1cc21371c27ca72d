"""A part of an element that runs in columns: items in, items out.

Attributes that functions only pass on stay objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.graph.graph import Graph
from anabranch.plan.column_kernels import ColumnKernel
from anabranch.runtime.batch import TableItems
from anabranch.runtime.columns.chain import ColumnChain, Commit
from anabranch.runtime.columns.column import Numpy, UnfitError
from anabranch.runtime.columns.held_state import ColumnBatch
from anabranch.runtime.compiled.part import FallbackError, name_part, write_calls
from anabranch.runtime.compiled.shape import PartShape
from anabranch.runtime.program import StatesOf

_FEWEST = 64  # items: for fewer, starting the kernels costs more than it gains


@dataclass(frozen=True)
class ColumnFlow:
    """The new states, once a batch succeeds."""

    changes: list[Commit] = field(default_factory=list)


@dataclass(frozen=True)
class ColumnStream:
    """The output of a part: items in columns, with the index of the item behind
    each.
    """

    batch: ColumnBatch
    count: int  # of the input items

    @property
    def triggers(self) -> Numpy:
        """The indices of the items that triggered the outputs."""
        rows = self.batch.rows
        return np.arange(self.count) if rows is None else np.asarray(rows, np.int64)


class ColumnPart:
    """Runs batches through a line of operators.

    Not thread-safe; the program that owns it is its only caller.
    """

    fewest = _FEWEST

    def __init__(
        self,
        graph: Graph,
        shape: PartShape,
        kernels: Mapping[str, ColumnKernel],
        states: StatesOf,
    ) -> None:
        """Compile; raise `CompilationError` if Numba cannot."""
        self.graph = graph
        self.shape = shape
        ops = [graph[name] for name in shape.operators]
        self._chain = ColumnChain(ops, kernels, states)
        self.filename = name_part("columns", shape.operators)
        self.line_table = {2 + n: name for n, name in enumerate(shape.operators)}
        self._run = write_calls(self._chain.steps, self.filename)

    def run(
        self,
        items: list[Any],
        states: StatesOf,
        *,
        triggers: bool = True,
    ) -> tuple[ColumnFlow, ColumnStream]:
        """Run a batch through the part, leaving the states unchanged.

        Raises `FallbackError` if the batch must go through Python.
        """
        flow = ColumnFlow()
        try:
            batch = self._run(self._chain.of_items(items), flow.changes)
        except UnfitError as error:
            raise FallbackError from error
        return flow, ColumnStream(batch, len(items))

    def run_table(self, table: pa.Table) -> tuple[ColumnFlow, ColumnStream]:
        """Do the same as `run` for a table; raise `UnfitError` likewise."""
        flow = ColumnFlow()
        batch = self._run(self._chain.of_table(table), flow.changes)
        return flow, ColumnStream(batch, table.num_rows)

    def table_of(self, stream: ColumnStream) -> TableItems | None:
        """Return a part's output as a table; None if the items do not fit one."""
        batch = stream.batch
        names = getattr(batch.shape.type, "_fields", ("value",))
        if len(names) != len(batch.columns):
            return None
        try:
            table = batch.table()
        except UnfitError:
            return None
        return TableItems(table, lambda start, stop: batch.items()[start:stop])

    def items_of(self, stream: ColumnStream) -> list[Any]:
        """Return a part's output as items."""
        return stream.batch.items()
