"""Chooses whether each operator runs in columns or in Python, and makes the kernels.

An element runs in segments, each in columns or in Python: a batch goes through one
segment after the other. A segment in columns that gives up is run by Python alone, so
nothing in another has to be undone.

A stream runs in columns if the types of its items are known: from the declared type of
a source, along operators whose functions can be translated. A function must be proved
to depend on its arguments alone. Its results must match the annotations of its tuple
type; an int where a float is promised is left to Python.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, get_args

from anabranch.compiler.columns.values import NoColumnsError, shape_of_type
from anabranch.compiler.columns.write_kernel import (
    Function,
    write_clock,
    write_filter,
    write_flat_map,
    write_map,
    write_scan,
    write_split,
    write_union,
    write_window,
)
from anabranch.compiler.options import Target
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind, Traits
from anabranch.graph.types import parameter_type
from anabranch.operators.clock import EventTime, Timing
from anabranch.operators.custom import Scan
from anabranch.operators.fan_in import Union
from anabranch.operators.sources import FromIterable, Generate
from anabranch.operators.stateless import Filter, FlatMap, Map, Split, describe_function
from anabranch.operators.windows import Aggregate
from anabranch.plan.column_kernels import (
    ColumnKernel,
    ColumnShape,
    RunsAs,
    divide_into_segments,
    is_line,
    why_not_in_segments,
)
from anabranch.plan.plan import Element
from anabranch.python.source import path_to_show

KnownShapes = Mapping[str, ColumnShape]  # operator -> the shape of its outputs
_KEYS = {"int", "bool", "str", "bytes", "enum", "datetime", "date", "timedelta", "none"}


def find_columns(graph: Graph, traits: Mapping[str, Traits]) -> tuple[RunsAs, ...]:
    """Return for each computing operator whether it runs in columns, and why.

    >>> from anabranch.language.sources import from_iterable
    >>> from anabranch.language.drafts import build_graph
    >>> made = build_graph([from_iterable([1.0]).map(str, name="text").to_list()])
    >>> [r.runs for r in find_columns(made, {op.name: Traits("stateless") for op in made})]
    ['python']
    """
    known: dict[str, ColumnShape] = {}
    found: list[RunsAs] = []
    for op in graph:
        if isinstance(op.kind, SinkKind):
            continue
        shape = None if op.type is None else shape_of_type(op.type)
        if not isinstance(op.kind, SourceKind):
            try:
                kernel = _kernel(op, traits[op.name], known)
                found.append(RunsAs(op.name, _why_columns(op, kernel), kernel))
                shape = kernel.gives
            except NoColumnsError as refused:
                found.append(RunsAs(op.name, str(refused)))
            except Exception as error:  # noqa: BLE001 - whatever users write, it runs
                why = f"cannot be translated ({type(error).__name__}: {error})"
                found.append(RunsAs(op.name, why))
        if shape is not None:
            known[op.name] = shape
    return tuple(found)


def _why_columns(op: Op, kernel: ColumnKernel) -> str:
    match kernel.role:
        case "clock":
            return "its clock is a maximum over a column"
        case "filter":
            return "its predicate is compiled"
        case "split" | "routes":
            return "its route is compiled"
        case "union" if op.timing is not None:
            return "it only reorders columns, and takes the least of their clocks"
        case "union":
            return "it only reorders columns"
    count = len(kernel.sources)
    return f"compiled; {len(kernel.computed)} of {count} columns are computed"


def _kernel(op: Op, traits: Traits, known: KnownShapes) -> ColumnKernel:
    if isinstance(op.kind, Union):
        if op.timing is not None:
            _check_timing(op, op.timing)
        return write_union(op, _find_common(op, known))
    compiled = Map | Filter | FlatMap | Scan | Aggregate | Split | EventTime
    if len(op.inputs) != 1 or not isinstance(op.kind, compiled):
        msg = f"operators of the kind {op.kind.label} are not compiled"
        raise NoColumnsError(msg)
    if op.timing is not None:
        _check_timing(op, op.timing)
    takes = _find_input(op, known)
    if isinstance(op.kind, EventTime):
        return write_clock(op, takes)
    if isinstance(op.kind, Aggregate) and op.kind.function is None:
        into = op.kind.into
        if isinstance(into, types.FunctionType):
            _check_function(op, into, traits)
        _check_key(op, takes)
        return write_window(op, None, takes)
    function = _find_function(op, traits)
    try:
        return _write(op, function, takes)
    except NoColumnsError as refused:
        code = _plain(function).__code__
        file = path_to_show(code.co_filename)
        line = refused.line or code.co_firstlineno
        msg = f"{describe_function(function)} {refused} ({file}:{line})"
        raise NoColumnsError(msg) from refused


def _check_timing(op: Op, timing: Timing) -> None:
    """Refuse operators that follow the clock, except unions and keyed windows."""
    if timing.forget_after is not None:
        msg = "it expires keys by the clock of its stream"
    elif isinstance(op.kind, Union):
        return
    elif not (isinstance(op.kind, Aggregate) and op.kind.window.time is not None):
        msg = "it follows the clock of its stream"
    elif not op.keyed_by:
        msg = "it follows the clock of its stream, without a key"
    else:
        return
    raise NoColumnsError(msg)


def _write(op: Op, function: Function, takes: ColumnShape) -> ColumnKernel:
    match op.kind:
        case Map():
            return write_map(op, function, takes)
        case Filter():
            return write_filter(op, function, takes)
        case FlatMap():
            return write_flat_map(op, function, takes)
        case Split():
            return write_split(op, function, takes)
        case Scan(initial=initial):
            _check_key(op, takes)
            return write_scan(op, function, initial, takes)
    _check_key(op, takes)
    return write_window(op, function, takes)


def _find_common(op: Op, known: KnownShapes) -> ColumnShape:
    """Return the common shape of an operator's input streams."""
    shapes = {known.get(out.operator) for out in op.inputs}
    shape = shapes.pop()
    if shapes or shape is None:
        msg = "the items of its streams are not of one tuple type with plain attributes"
        raise NoColumnsError(msg)
    return shape


def _find_input(op: Op, known: KnownShapes) -> ColumnShape:
    """Return the shape of an operator's input items.

    If the stream does not determine it, the function's annotation may. Whether the
    items match is checked at run time.
    """
    producer = op.inputs[0].operator
    shape = known.get(producer)
    if shape is None and op.kind.user_code:
        function = op.kind.user_code[0].function
        taken = parameter_type(function, int(isinstance(op.kind, Scan)))
        if isinstance(op.kind, Aggregate):
            taken = next(iter(get_args(taken)), None)
        shape = shape_of_type(taken)
    if shape is None:
        msg = f"the items of {producer} are not of a tuple type with plain attributes"
        raise NoColumnsError(msg)
    return shape


def _find_function(op: Op, traits: Traits) -> Function:
    """Return the function of an operator; refuse one that may depend on more."""
    function: Any = op.kind.user_code[0].function
    if not isinstance(_plain(function), types.FunctionType):
        msg = f"{describe_function(function)} is not a function written in Python"
        raise NoColumnsError(msg)
    _check_function(op, function, traits)
    return function  # type: ignore[no-any-return]


def _plain(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _check_function(op: Op, function: Any, traits: Traits) -> None:
    keeps = isinstance(op.kind, Scan | Aggregate)
    proven = not traits.effects and (keeps or traits.state == "stateless")
    if not proven or declaration_of(function).state is not None:
        msg = (
            f"{describe_function(function)} is not proven to depend on its items alone"
        )
        raise NoColumnsError(msg)


def _check_key(op: Op, takes: ColumnShape) -> None:
    scalars = list(takes.scalars())
    for name in op.state_key if op.timing is None else op.keyed_by:
        place = None if hasattr(name, "function") else takes.place_of(name)
        if place is None:
            msg = f"has the key {name}, which is no plain attribute"
            raise NoColumnsError(msg)
        kinds = {*scalars[place].kinds}
        if kinds - _KEYS or {"int", "bool"} <= kinds:
            msg = f"has the key {name}, whose values of different types may be equal"
            raise NoColumnsError(msg)


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
    merged = "it merges the partial aggregates of replicas"
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
            why = "the run continues after errors, item by item"
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
            left[name] = RunsAs(name, "its neighbours run in Python")
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
            both = "operators on both sides of it must take turns item by item"
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
