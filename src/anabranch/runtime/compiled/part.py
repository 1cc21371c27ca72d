"""A compiled part of an element: its steps in the order of the streams.

The steps are called by a small generated function, one line for each operator, so that
the profiler can tell where a thread is, as it can in any generated program.
"""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anabranch.graph.blocks import Collect, Deal
from anabranch.graph.graph import Graph
from anabranch.plan.plan import Kernel
from anabranch.runtime.compiled.arrays import Array, to_arrays
from anabranch.runtime.compiled.build import compile_kernel
from anabranch.runtime.compiled.shape import Shape
from anabranch.runtime.compiled.steps import (
    CollectStep,
    DealStep,
    FireStep,
    Flow,
    GoneWrongError,
    Stream,
)

_FEWEST = 4  # items: below, starting short kernels costs more than it gains
_LONG = 20  # lines

_serial = itertools.count()


class Part:
    """Runs a batch through the operators of a shape.

    Not thread-safe; the program that owns it is its only caller.
    """

    def __init__(
        self,
        graph: Graph,
        shape: Shape,
        kernels: Mapping[str, Kernel],
        threads: int = 1,
    ) -> None:
        self.graph = graph
        self.shape = shape
        first = next(
            name for name in shape.operators if shape.source in graph[name].inputs
        )
        self._columns = kernels[first].takes
        lengths = [_length(kernels[name]) for name in shape.operators]
        self.fewest = 1 if max(lengths) > _LONG else _FEWEST
        self._item_type = _item_type(graph, shape.source.operator)
        self.gives_type = _item_type(graph, shape.last)
        steps = [_step(graph, name, kernels[name], threads) for name in shape.operators]
        self.filename = (
            f"<anabranch compiled {'+'.join(shape.operators)[:50]} {next(_serial)}>"
        )
        self.line_table = {
            2 + number: name for number, name in enumerate(shape.operators)
        }
        self._run = _called_in_turn(steps, self.filename)

    def run(
        self, items: list[Any], states: Mapping[str, Any], *, triggers: bool = True
    ) -> tuple[Flow, Stream]:
        """Return what the part gives for a batch; the states are as they were.

        Raises `GoneWrongError` if the batch must go through Python.
        """
        arrays = to_arrays(items, self._columns, self._item_type)
        if arrays is None:
            raise GoneWrongError
        return self.run_arrays(arrays, states, triggers=triggers)

    def run_arrays(
        self, arrays: list[Array], states: Mapping[str, Any], *, triggers: bool = True
    ) -> tuple[Flow, Stream]:
        """Return what the part gives for a batch that is in arrays already."""
        flow = Flow(states)
        places = np.arange(len(arrays[0])) if triggers else None
        flow.streams[self.shape.source] = Stream(arrays, places)
        self._run(flow)
        last = next(
            out for out in reversed(flow.streams) if out.operator == self.shape.last
        )
        return flow, flow.streams[last]


def _length(kernel: Kernel) -> int:
    """Return how long a kernel is; one with a loop counts as long."""
    lines = kernel.source.splitlines()
    return 2 * _LONG if any("        for " in line for line in lines) else len(lines)


def _step(
    graph: Graph, name: str, kernel: Kernel, threads: int
) -> Callable[[Flow], None]:
    op = graph[name]
    item_type = _item_type(graph, op.inputs[0].operator)
    match op.kind:
        case Deal(weights=weights):
            return DealStep(op, weights)
        case Collect(weights=weights):
            return CollectStep(op, weights, kernel.takes, item_type)
    return FireStep(op, kernel, compile_kernel(kernel), item_type, threads)


def _item_type(graph: Graph, operator: str) -> type | None:
    """Return the NamedTuple that the items of an operator are, None for numbers."""
    op = graph[operator]
    if isinstance(op.kind, Deal | Collect):
        return _item_type(graph, op.inputs[0].operator)
    found = op.type
    return found if isinstance(found, type) and issubclass(found, tuple) else None


def _called_in_turn(
    steps: list[Callable[[Flow], None]], filename: str
) -> Callable[[Flow], None]:
    lines = ["def run(flow):"]
    lines += [f"    step{number}(flow)" for number in range(len(steps))]
    source = "\n".join([*lines, ""])
    linecache.cache[filename] = (
        len(source),
        None,
        source.splitlines(keepends=True),
        filename,
    )
    names: dict[str, Any] = {f"step{n}": step for n, step in enumerate(steps)}
    exec(compile(source, filename, "exec"), names)  # noqa: S102 - our own text
    made: Callable[[Flow], None] = names["run"]
    return made
