"""Chooses whether each operator runs in columns or in Python.

An element runs in segments, each in columns or in Python: a batch goes through one
segment after the other. A segment in columns that gives up is run by Python alone, so
nothing in another has to be undone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any

from anabranch.compiler.columns.find_columns import find_columns
from anabranch.compiler.options import Target
from anabranch.graph.graph import Graph
from anabranch.graph.kind import SinkKind
from anabranch.graph.traits import Traits
from anabranch.operators.clock import EventTime
from anabranch.operators.sources import FromIterable, Generate
from anabranch.operators.stateless import Union
from anabranch.plan.column_kernels import RunsAs
from anabranch.plan.plan import Element
from anabranch.plan.segments import divide_into_segments, is_line, why_not_in_segments

Together = Sequence[Sequence[str]]  # operators that share something


def choose_columns(
    graph: Graph,
    traits: Mapping[str, Traits],
    elements: Sequence[Element],
    target: Target,
    *,
    on_arrays: Collection[str] = (),
    together: Together = (),
    in_groups: Collection[str] = (),
    in_parts: Collection[str] = (),
) -> Mapping[str, RunsAs]:
    """Return how the computing operators run, and why.

    Those `on_arrays` have kernels of plain numbers, which such engines prefer. Regions
    `in_groups` take several items at a time. Operators `in_parts` receive partial
    aggregates.
    """
    found = {one.operator: one for one in find_columns(graph, traits)}
    marked = _find_marked(graph, traits)
    merged = "it merges what replicas have added up"
    found |= {name: RunsAs(name, merged) for name in in_parts}
    chosen: dict[str, RunsAs] = {}
    for element in elements:
        inner = [name for name in element.operators if name in found]
        if not inner:
            continue
        if not target.batched:
            found |= _leave_arrays(inner, found, on_arrays)
        effects = {name for name in inner if traits[name].effects}
        passing = Union if target.batched else Union | EventTime
        found |= _leave_between(graph, inner, found, passing)
        why = None
        if target.resilient:
            why = "the run goes on after errors, item by item"
        elif target.batched and element.region in in_groups:
            why = "it takes several items at a time"
        elif target.batched and (here := _find_driver_side(graph, element, traits)):
            why = f"{here}, which runs with it, runs in the driver"
        elif not target.batched and is_line(graph, inner) and not marked & {*inner}:
            chosen |= _choose_parts(inner, found, (effects, *together), element)
            continue
        why = why or _why_not_in_segments(graph, inner, found, effects, together)
        for name in inner:
            keeps = found[name].kernel is None or why is None
            chosen[name] = found[name] if keeps else RunsAs(name, why or "")
    return chosen


def _leave_arrays(
    inner: Sequence[str], found: Mapping[str, RunsAs], on_arrays: Collection[str]
) -> dict[str, RunsAs]:
    """Leave an element to kernels of plain numbers, unless columns cover more of it."""
    arrays = [name for name in inner if name in on_arrays]
    columns = [name for name in inner if found[name].kernel is not None]
    if len(columns) > len(arrays):
        return {}
    why = "other operators of its element run on arrays of numbers"
    left = {name: RunsAs(name, why) for name in columns if arrays}
    return left | {
        name: RunsAs(name, "it runs on arrays of numbers") for name in arrays
    }


def _leave_between(
    graph: Graph, inner: Sequence[str], found: Mapping[str, RunsAs], passing: Any
) -> dict[str, RunsAs]:
    """Leave operators that only pass items on to Python if their neighbours run there.

    If batches go between processes as columns, a clock keeps them so.
    """
    left: dict[str, RunsAs] = {}
    for name in inner:
        if not isinstance(graph[name].kind, passing) or found[name].kernel is None:
            continue
        around = {*graph.producers(name), *graph.consumers(name)} & {*inner}
        if all(n in left or found[n].kernel is None for n in around):
            left[name] = RunsAs(name, "what it stands between runs in Python")
    return left


def _find_driver_side(
    graph: Graph, element: Element, traits: Mapping[str, Traits]
) -> str | None:
    """Return an operator of an element whose effects require the driver."""
    outside = FromIterable | Generate | SinkKind
    for name in element.operators:
        if traits[name].effects and not isinstance(graph[name].kind, outside):
            return name
    return None


def _why_not_in_segments(
    graph: Graph,
    inner: Sequence[str],
    found: Mapping[str, RunsAs],
    effects: Collection[str],
    together: Together,
) -> str | None:
    columns = [name for name in inner if found[name].kernel is not None]
    segments = divide_into_segments(graph, inner, columns)
    return why_not_in_segments(graph, segments, effects, together)


def _find_marked(graph: Graph, traits: Mapping[str, Traits]) -> set[str]:
    """Return the operators whose input or output has signs."""
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


def _choose_parts(
    inner: Sequence[str],
    found: Mapping[str, RunsAs],
    noticing: Together | tuple[Collection[str], ...],
    element: Element,
) -> dict[str, RunsAs]:
    """Return how a line of operators runs whose items are objects between the parts.

    The longest part runs in columns, and likewise what follows it; what comes before
    runs in Python. Operators on both sides that share something, or have effects, would
    notice that each takes a whole batch.
    """
    chosen = {name: found[name] for name in inner}
    runs = [
        (columns, list(names))
        for columns, names in groupby(inner, lambda n: found[n].kernel is not None)
    ]
    before = [name for name in element.operators if name not in inner]
    while runs:
        longest = max(runs, key=lambda run: len(run[1]) * run[0])
        if not longest[0]:
            break
        place = runs.index(longest)
        ahead = [name for _, names in runs[:place] for name in names]
        behind = [name for _, names in runs[place + 1 :] for name in names]
        if any(
            {*before, *ahead} & {*group} and {*behind} & {*group} for group in noticing
        ):
            both = "operators that must take turns by item stand on both sides of it"
            for name in (*ahead, *longest[1], *behind):
                if chosen[name].kernel is not None:
                    chosen[name] = RunsAs(name, both)
            break
        early = f"the part from {longest[1][0]} on is compiled instead"
        for name in ahead:
            if found[name].kernel is not None:
                chosen[name] = RunsAs(name, early)
        before = []
        runs = runs[place + 1 :]
    return chosen
