"""Makes the kernels of operators that can run in columns, and says why others cannot.

A stream runs in columns if the types of its items are known: from the declared type of
a source, along operators whose functions can be translated. A function must be proved
to depend on its arguments alone. Its results must match the annotations of its tuple
type; an int where a float is promised is left to Python.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping
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
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.graph.traits import Traits
from anabranch.graph.types import parameter_type
from anabranch.operators.clock import EventTime, Timing
from anabranch.operators.custom import Scan
from anabranch.operators.stateless import (
    Filter,
    FlatMap,
    Map,
    Split,
    Union,
    describe_function,
)
from anabranch.operators.windows import Aggregate
from anabranch.plan.column_kernels import ColumnKernel, ColumnShape, RunsAs
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
                found.append(RunsAs(op.name, _why_columns(kernel), kernel))
                shape = kernel.gives
            except NoColumnsError as refused:
                found.append(RunsAs(op.name, str(refused)))
            except Exception as error:  # noqa: BLE001 - whatever users write, it runs
                why = f"cannot be translated ({type(error).__name__}: {error})"
                found.append(RunsAs(op.name, why))
        if shape is not None:
            known[op.name] = shape
    return tuple(found)


def _why_columns(kernel: ColumnKernel) -> str:
    match kernel.role:
        case "clock":
            return "its clock is a maximum over a column"
        case "filter":
            return "its predicate is compiled"
        case "split" | "routes":
            return "its route is compiled"
        case "union":
            return "it puts columns in order"
    count = len(kernel.sources)
    return f"compiled; {len(kernel.computed)} of {count} columns are computed"


def _kernel(op: Op, traits: Traits, known: KnownShapes) -> ColumnKernel:
    if isinstance(op.kind, Union):
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
    """Refuse operators that follow the clock, except keyed windows."""
    if timing.forget_after is not None:
        msg = "it forgets keys by the clock of its stream"
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
