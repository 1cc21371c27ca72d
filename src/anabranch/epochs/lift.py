"""The graph as workers run it: lifted states and windows in two steps.

Lifted states become states of operators, and windows computed in two steps take partial
aggregates.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anabranch.errors import PlanError
from anabranch.graph.graph import Graph, Op
from anabranch.operators.lifted import Lifted, StatePlace
from anabranch.operators.stateless import Filter, FlatMap, Map
from anabranch.operators.window_parts import MergedAggregate
from anabranch.operators.windows import Aggregate
from anabranch.plan.plan import Plan


def lift_states(graph: Graph, plan: Plan) -> Graph:
    """Return the graph with the plan's lifted states, as they are now."""
    lifted = {
        op.name: tuple(StatePlace(scope, name) for scope, name in op.lifted)
        for op in plan.operators
        if op.lifted
    }
    if not lifted:
        return graph
    return Graph(
        tuple(_lift(op, lifted[op.name]) if op.name in lifted else op for op in graph)
    )


def merge_parts(graph: Graph, plan: Plan) -> Graph:
    """Return the graph in which two-step windows accept partial aggregates."""
    in_parts = {op.name for op in plan.operators if op.in_parts}
    if not in_parts:
        return graph
    return Graph(tuple(_merge(op) if op.name in in_parts else op for op in graph))


def _merge(op: Op) -> Op:
    kind = op.kind
    if not isinstance(kind, Aggregate):
        return op
    merged = MergedAggregate(kind.window, kind.function, kind.columns, kind.into)
    return replace(op, kind=merged)


def _lift(op: Op, places: tuple[StatePlace, ...]) -> Op:
    if isinstance(op.kind, Lifted):
        return op
    function: Any = op.kind.user_code[0].function if op.kind.user_code else None
    try:
        values = tuple(place.get(function) for place in places)
    except (AttributeError, KeyError, ValueError) as error:
        values = None
        why = f"{error!r}"
    if values is None or not isinstance(op.kind, Map | Filter | FlatMap):
        why = f"it is a {op.kind.label}" if values is not None else why
        msg = (
            f"only the state of a function can be lifted, out of its own variables; the "
            f"plan lifts {', '.join(map(str, places))} out of {op.name!r}, but {why}; "
            f"compile the program with on='spark'"
        )
        raise PlanError(msg)
    return replace(op, kind=Lifted(op.kind, places, values))
