"""Choose how each operator runs: in columns, or in Python.

An element runs in columns as a whole: a batch of columns goes through all its kernels
before any of it counts. So all its operators must have one, in a straight line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.compiler.columns.find_columns import find_columns
from anabranch.compiler.options import Target
from anabranch.graph.graph import Graph
from anabranch.graph.kind import SourceKind
from anabranch.operators.sources import ReadFiles
from anabranch.plan.column_kernels import RunsAs
from anabranch.plan.plan import Element
from anabranch.python.traits import Traits


def choose_columns(
    graph: Graph,
    traits: Mapping[str, Traits],
    elements: Sequence[Element],
    target: Target,
) -> Mapping[str, RunsAs]:
    """Return how the operators that compute run, and why."""
    found = {one.operator: one for one in find_columns(graph, traits)}
    chosen: dict[str, RunsAs] = {}
    for element in elements:
        inner = [name for name in element.operators if name in found]
        why = why_not_columns(graph, inner, found, target)
        for name in inner:
            own = found[name]
            if why is None or own.kernel is None:
                chosen[name] = own
            else:
                chosen[name] = RunsAs(name, why)
    return chosen


def why_not_columns(
    graph: Graph, inner: Sequence[str], found: Mapping[str, RunsAs], target: Target
) -> str | None:
    """Return why the operators of an element do not run in columns, or None."""
    if not target.batched:
        return "this engine runs its items one by one"
    if target.resilient:
        return "the run goes on after errors, item by item"
    for name in inner:
        if found[name].kernel is None:
            return f"{name}, which runs with it, runs in Python"
        if len(graph.out_edges(name)) != 1:
            return f"{name} feeds several operators"
    return _why_not_fed(graph, inner)


def _why_not_fed(graph: Graph, inner: Sequence[str]) -> str | None:
    """Return why what comes in does not come in columns, or None."""
    outside = [name for name in inner if graph.producers(name)[0] not in inner]
    if len(outside) > 1:
        return "several streams lead into it"
    for name in outside:
        producer = graph[graph.producers(name)[0]]
        if producer.type is None:
            return f"the type of what {producer.name} gives is not declared"
        files = isinstance(producer.kind, ReadFiles)
        if isinstance(producer.kind, SourceKind) and not files:
            return f"{producer.name} gives objects"
    return None
