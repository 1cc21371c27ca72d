"""A program as a row of operators that the engine and any scheduler can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind
from anabranch.language.drafts import Result, build_graph
from anabranch.operators.custom import Apply
from anabranch.operators.getters import key_getter
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import FlatMap, Map
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.keys import in_key_order
from anabranch.runtime.state import States


@dataclass(frozen=True)
class Stage:
    """An operator: its outputs for an item, and what it gives at the end."""

    name: str
    process: Callable[[Any], Any]
    finish: Callable[[], list[Any]]


@dataclass(frozen=True)
class Row:
    """A program that is a straight line."""

    sink: Result
    graph: Graph
    items: list[Any]
    names: tuple[str, ...]  # of the operators between source and sink

    def stages(self) -> list[Stage]:
        """Return fresh operators, without anything in their states."""
        return [stage_of(self.graph[name]) for name in self.names]


def row_of(sink: Result) -> Row:
    """Return a program as a row; it must be one source, a line, and one sink."""
    graph = build_graph([sink])
    (source,) = graph.sources
    if any(len(op.inputs) > 1 or len(graph.out_edges(op.name)) > 1 for op in graph):
        msg = "the program must be a straight line"
        raise ValueError(msg)
    assert isinstance(source.kind, FromIterable)
    inner = [op.name for op in graph if op.inputs and not isinstance(op.kind, SinkKind)]
    return Row(sink, graph, list(source.kind.items), tuple(inner))


def stage_of(op: Op) -> Stage:
    """Return an operator as a stage with a state of its own."""
    kernel = kernel_of(op)
    if isinstance(op.kind, Map):
        function = op.kind.function
        return Stage(op.name, lambda item: (function(item),), list)
    if isinstance(op.kind, FlatMap):
        prolific = op.kind.function
        return Stage(op.name, lambda item: list(prolific(item)), list)
    if not kernel.stateful:
        return Stage(op.name, lambda item: kernel.process(None, item, 0), list)
    if isinstance(op.kind, Apply) and not op.state_key:
        instance = kernel.open()
        process = instance.process
        return Stage(
            op.name,
            lambda item: [*process(item)],
            lambda: list(kernel.finish(instance)),
        )
    states = States(op, kernel)
    key = key_getter(op.state_key) if op.state_key else lambda _: ()

    def finish() -> list[Any]:
        return [x for k in in_key_order(states) for x in kernel.finish(states[k])]

    return Stage(
        op.name, lambda item: kernel.process(states[key(item)], item, 0), finish
    )
