"""Choose how each operator runs: in columns, or in Python.

An element whose operators stand in a straight line runs in segments, each in columns or
in Python: a batch goes through one segment after the other. A segment in columns that
gives up is run by Python alone, so nobody has to undo what another one did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

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
        why = why_not_columns(graph, inner, target)
        why = why or _why_not_apart(inner, found, traits)
        for name in inner:
            own = found[name]
            if own.kernel is None or (
                why is None and _is_fed(graph, inner, name, found)
            ):
                chosen[name] = own
            else:
                chosen[name] = RunsAs(name, why or _why_not_fed(graph, inner) or "")
    return chosen


def why_not_columns(graph: Graph, inner: Sequence[str], target: Target) -> str | None:
    """Return why the operators of an element do not run in columns, or None."""
    if not target.batched:
        return "this engine runs its items one by one"
    if target.resilient:
        return "the run goes on after errors, item by item"
    for name in inner:
        if len(graph.out_edges(name)) != 1:
            return f"{name}, which runs with it, feeds several operators"
        if len(graph[name].inputs) != 1:
            return f"several streams lead into {name}, which runs with it"
    outside = [name for name in inner if graph.producers(name)[0] not in inner]
    return "several streams lead into it" if len(outside) > 1 else None


def _why_not_apart(
    inner: Sequence[str], found: Mapping[str, RunsAs], traits: Mapping[str, Traits]
) -> str | None:
    """Return why an element cannot run segment by segment, or None.

    Two segments that may share something would notice that each takes a whole batch.
    """
    in_python = [name for name in inner if found[name].kernel is None]
    for name in in_python:
        if traits[name].effects:
            return f"{name}, which runs with it, runs in the driver"
    runs = groupby(inner, lambda name: found[name].kernel is None)
    keeping = []
    for python, names in runs:
        kept = [name for name in names if traits[name].state == "global"]
        keeping += kept[:1] if python else []
    if len(keeping) > 1:
        return f"{keeping[0]} and {keeping[1]}, which run with it, may share state"
    return None


def _is_fed(
    graph: Graph, inner: Sequence[str], name: str, found: Mapping[str, RunsAs]
) -> bool:
    """Tell whether the segment of an operator gets columns, or can make them."""
    while graph.producers(name)[0] in inner:
        name = graph.producers(name)[0]
        if found[name].kernel is None:
            return True
    return _why_not_fed(graph, inner) is None


def _why_not_fed(graph: Graph, inner: Sequence[str]) -> str | None:
    """Return why what comes in does not come in columns, or None."""
    for name in inner:
        producer = graph[graph.producers(name)[0]]
        if producer.name in inner:
            continue
        if producer.type is None:
            return f"the type of what {producer.name} gives is not declared"
        files = isinstance(producer.kind, ReadFiles)
        if isinstance(producer.kind, SourceKind) and not files:
            return f"{producer.name} gives objects"
    return None
