"""Choose how each operator runs: in columns, or in Python.

An element whose operators stand in a straight line runs in segments, each in columns or
in Python: a batch goes through one segment after the other. A segment in columns that
gives up is run by Python alone, so nobody has to undo what another one did.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from anabranch.compiler.columns.find_columns import find_columns
from anabranch.compiler.options import Target
from anabranch.graph.graph import Graph
from anabranch.graph.kind import SinkKind
from anabranch.operators.clock import EventTime
from anabranch.plan.column_kernels import RunsAs
from anabranch.plan.plan import Element
from anabranch.python.traits import Traits


def choose_columns(
    graph: Graph,
    traits: Mapping[str, Traits],
    elements: Sequence[Element],
    target: Target,
    on_arrays: Collection[str] = (),
    *,
    in_parts: Collection[str] = (),
) -> Mapping[str, RunsAs]:
    """Return how the operators that compute run, and why.

    Those `on_arrays` have kernels of numbers alone, which such engines prefer. What comes
    to those `in_parts` are no items any more.
    """
    found = {one.operator: one for one in find_columns(graph, traits)}
    marked = _find_marked(graph, traits)
    signs = "punctuations or a clock pass through it"
    found |= {name: RunsAs(name, signs) for name in marked if found[name].kernel}
    merged = "it merges what replicas have added up"
    found |= {name: RunsAs(name, merged) for name in in_parts}
    if not target.batched:
        arrays = "it runs on arrays of numbers"
        found |= {name: RunsAs(name, arrays) for name in on_arrays if name in found}
    chosen: dict[str, RunsAs] = {}
    for element in elements:
        inner = [name for name in element.operators if name in found]
        if not target.batched:
            effects = {name for name in element.operators if traits[name].effects}
            chosen |= _choose_parts(graph, inner, found, target, effects)
            continue
        why = why_not_columns(graph, inner, target)
        why = why or _why_not_apart(inner, found, traits)
        for name in inner:
            own = found[name]
            keeps = own.kernel is None or why is None
            chosen[name] = own if keeps else RunsAs(name, why or "")
    return chosen


def _find_marked(graph: Graph, traits: Mapping[str, Traits]) -> set[str]:
    """Return the operators in whose input or output there are signs beside items."""
    giving: set[str] = set()
    marked: set[str] = set()
    for op in graph:
        if not op.inputs or isinstance(op.kind, SinkKind):
            continue
        given = traits[op.name].punctuation
        comes = not giving.isdisjoint(graph.producers(op.name))
        makes = given == "generating" or isinstance(op.kind, EventTime)
        makes = makes or op.timing is not None
        if makes or (comes and given == "preserving"):
            giving.add(op.name)
        if comes or op.name in giving:
            marked.add(op.name)
    return marked


def why_not_columns(graph: Graph, inner: Sequence[str], target: Target) -> str | None:
    """Return why the operators of an element do not run in columns, or None."""
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


def _choose_parts(
    graph: Graph,
    inner: Sequence[str],
    found: Mapping[str, RunsAs],
    target: Target,
    effects: Collection[str],
) -> dict[str, RunsAs]:
    """Return how an element runs whose items are objects between its parts.

    Its longest part runs in columns, and likewise what follows that; what comes before
    runs in Python. Operators with effects on both sides would notice that each takes a
    whole batch.
    """
    chosen = {name: found[name] for name in inner}
    why = why_not_columns(graph, inner, target)
    runs = [
        (columns, list(names))
        for columns, names in groupby(inner, lambda n: found[n].kernel is not None)
    ]
    before = [name for name in effects if name not in inner]
    while why is None and runs:
        longest = max(runs, key=lambda run: len(run[1]) * run[0])
        place = runs.index(longest)
        ahead = [name for _, names in runs[:place] for name in names]
        behind = [name for _, names in runs[place + 1 :] for name in names]
        if {*before, *ahead} & {*effects} and {*behind} & {*effects}:
            why = "operators with effects stand on both sides of it"
            inner = [*ahead, *longest[1], *behind]
            break
        early = f"the part from {longest[1][0]} on is compiled instead"
        if longest[0]:
            chosen |= {
                n: RunsAs(n, early) for n in ahead if found[n].kernel is not None
            }
        before = []
        runs = runs[place + 1 :]
    if why is not None:
        plain = [name for name in inner if chosen[name].kernel is not None]
        chosen |= {name: RunsAs(name, why) for name in plain}
    return chosen
