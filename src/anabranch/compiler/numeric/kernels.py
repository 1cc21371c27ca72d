"""Finds the operators of fixed rates that can be compiled, and makes their kernels.

A kernel is the text of a function over arrays that fires an operator many times. It reads the items of firing `j` from index `j *
pop` of its input arrays, one array per attribute, and writes the outputs of the firing.
It returns whether some firing would have raised in Python or left the range of the
arrays; then nothing it wrote counts.

Loops are turned inside out. A loop with dependent iterations runs at the pace of one
addition after the other. Different firings are independent, so a kernel with such a
loop runs it for many firings at once, each in its lane: the same steps in the same
order for each, but the processor works on several lanes at a time.

A kernel must give Python's results, to the last bit and for every item. So the code
must be proved to depend on nothing but its items, and everything it computes must be
numbers whose types are known before it runs. Types that a stream only promises are
checked when items arrive; items of another type run in Python.
"""

from __future__ import annotations

import re
import types
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from anabranch.compiler.numeric.calls import call, knows
from anabranch.compiler.numeric.statements import StatementTracer
from anabranch.compiler.numeric.values import (
    KIND_OF,
    NEVER,
    Kind,
    RefusedError,
    Symbol,
    Trace,
    TracedRecord,
    as_float,
    bounds,
    describe_value,
    is_number,
    is_tuple_type,
    kind_of,
)
from anabranch.graph.declarations import declaration_of
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import Traits
from anabranch.graph.types import fields_of
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import FlatMap, Map, describe_function
from anabranch.plan.plan import ArrayColumn, ArrayKernel

LANES = 256
_NAME = re.compile(r"\bv\d+\b")
_DTYPES: dict[Kind, str] = {
    "float": "np.float64",
    "int": "np.int64",
    "bool": "np.bool_",
}


def has_loop(lines: Sequence[tuple[int, str]]) -> bool:
    """Tell whether some line is inside a loop."""
    return any(depth for depth, _ in lines)


def in_lanes(
    lines: Sequence[tuple[int, str]], kinds: Mapping[str, Kind]
) -> Iterator[str]:
    r"""Yield the body of a kernel that runs its firings in lanes.

    >>> lines = [(0, "v1 = x0[j]"), (0, "for v2 in range(9):"), (1, "v1 = v1 + k0"),
    ...          (0, "o0[j] = v1")]
    >>> print("\n".join(in_lanes(lines, {"v1": "float"})))
        r1 = np.empty(256, np.float64)
        for j0 in range(0, count, 256):
            m = min(256, count - j0)
            for l in range(m):
                j = j0 + l
                r1[l] = x0[j]
            for v2 in range(9):
                for l in range(m):
                    j = j0 + l
                    r1[l] = r1[l] + k0
            for l in range(m):
                j = j0 + l
                o0[j] = r1[l]
    """
    pieces = list(_pieces(lines))
    crossing = _crossing(pieces)
    for name in crossing:
        yield f"    r{name[1:]} = np.empty({LANES}, {_DTYPES[kinds[name]]})"
    yield f"    for j0 in range(0, count, {LANES}):"
    yield f"        m = min({LANES}, count - j0)"
    for depth, texts in pieces:
        indent = "    " * (2 + depth)
        if texts[0].startswith("for "):
            yield indent + texts[0]
            continue
        yield f"{indent}for l in range(m):"
        yield f"{indent}    j = j0 + l"
        for text in texts:
            yield f"{indent}    {_NAME.sub(lambda m: _lane(m[0], crossing), text)}"


def _pieces(lines: Sequence[tuple[int, str]]) -> Iterator[tuple[int, list[str]]]:
    """Yield the heads of loops, and the code between them."""
    numbered = [
        (depth, n if text.startswith("for ") else -1, text)
        for n, (depth, text) in enumerate(lines)
    ]
    for (depth, _), group in groupby(numbered, key=lambda line: line[:2]):
        yield depth, [text for _, _, text in group]


def _crossing(pieces: Sequence[tuple[int, list[str]]]) -> list[str]:
    """Return the numbers that one piece passes to another; loops have their own."""
    seen: dict[str, set[int]] = {}
    counters: set[str] = set()
    for number, (_, texts) in enumerate(pieces):
        for text in texts:
            if text.startswith("for "):
                counters.update(_NAME.findall(text.partition(" in ")[0]))
            for name in _NAME.findall(text):
                seen.setdefault(name, set()).add(number)
    return [n for n, places in seen.items() if len(places) > 1 and n not in counters]


def _lane(name: str, crossing: Sequence[str]) -> str:
    return f"r{name[1:]}[l]" if name in crossing else name


# Ints of a stream count as at most this large; larger ones run in Python.
INT_BOUND = 1 << 31


@dataclass(frozen=True)
class ArrayLayout:
    """The array layout of a stream's items; `type` is None for plain numbers."""

    type: type | None
    columns: tuple[ArrayColumn, ...]


@dataclass(frozen=True)
class Firing:
    """A function with fixed rates; a `single` one takes an item, not a sequence."""

    operator: str
    function: Any
    pop: int
    push: int
    peek: int
    single: bool
    gives_list: bool


def layout_of(found: Any) -> ArrayLayout | None:
    """Return the array layout of a type's items; None if they are not all numbers.

    >>> layout_of(float)
    ArrayLayout(type=None, columns=(ArrayColumn(kind='float', low=0, high=0),))
    >>> layout_of(str) is None
    True
    """
    if found in KIND_OF:
        return ArrayLayout(None, (_column(found),))
    if not is_tuple_type(found):
        return None
    fields = fields_of(found) or {}
    if not fields or any(each not in KIND_OF for each in fields.values()):
        return None
    return ArrayLayout(found, tuple(_column(each) for each in fields.values()))


def _column(found: type) -> ArrayColumn:
    bound = INT_BOUND if found is int else 0
    return ArrayColumn(KIND_OF[found], -bound, bound)


def make_kernel(firing: Firing, takes: ArrayLayout) -> tuple[ArrayKernel, ArrayLayout]:
    """Return the kernel of an operator, and the array layout of its outputs.

    >>> firing = Firing("size", abs, 1, 1, 1, single=True, gives_list=False)
    >>> kernel, gives = make_kernel(firing, layout_of(float))
    >>> print(kernel.source)
    def kernel(count, x0, o0, constants):
        bad = False
        for j in range(count):
            v1 = abs(x0[j])
            o0[j] = v1
        return bad
    <BLANKLINE>
    """
    trace = Trace()
    items = [_item(trace, takes, firing.pop, index) for index in range(firing.peek)]
    given = _fire(trace, firing, items[0] if firing.single else items)
    outputs = _outputs(firing, given)
    gives = _common_layout(outputs)
    for index, output in enumerate(outputs):
        values = output.values if isinstance(output, TracedRecord) else (output,)
        for number, value in enumerate(values):
            place = _place("j", firing.push, index)
            trace.write(f"o{number}[{place}] = {_store(trace, value)}")
    kernel = ArrayKernel(
        operator=firing.operator,
        pop=firing.pop,
        push=firing.push,
        peek=firing.peek,
        takes=takes.columns,
        gives=gives.columns,
        source=_text(trace, len(takes.columns), len(gives.columns)),
        constants=tuple(trace.constants),
    )
    return kernel, gives


def _fire(trace: Trace, firing: Firing, argument: Any) -> Any:
    """Call the function with symbols in place of items."""
    function = firing.function
    if isinstance(function, types.FunctionType):
        return StatementTracer(trace).invoke(function, [argument], {}, None)
    if knows(function):
        return call(trace, function, [argument])
    name = getattr(function, "__name__", describe_value(function))
    msg = f"{name} is not a function written in Python"
    raise RefusedError(msg)


def _item(trace: Trace, layout: ArrayLayout, pop: int, index: int) -> Any:
    values = []
    for number, (kind, low, high) in enumerate(layout.columns):
        array = f"x{number}[{_place('j', pop, 0)}"
        span = (low, high) if kind == "int" else None
        values.append(trace.load(kind, array, index, span))
    return (
        values[0] if layout.type is None else TracedRecord(layout.type, tuple(values))
    )


def _outputs(firing: Firing, given: Any) -> list[Any]:
    if given is NEVER:
        msg = "raises whatever the items are"
        raise RefusedError(msg)
    if not firing.gives_list:
        return [given]
    if isinstance(given, TracedRecord):
        given = given.values
    if not isinstance(given, list | tuple):
        msg = f"gives a {describe_value(given)}, not a list"
        raise RefusedError(msg)
    if len(given) != firing.push:
        msg = f"gives {len(given)} items where {firing.push} are declared"
        raise RefusedError(msg)
    return list(given)


def _common_layout(outputs: list[Any]) -> ArrayLayout:
    """Return the array layout of outputs; all of them must be alike."""
    if not outputs:
        msg = "never gives an item"
        raise RefusedError(msg)
    shapes = {
        (one.type, tuple(map(kind_of, one.values)))
        if isinstance(one, TracedRecord)
        else (None, (kind_of(one),))
        for one in outputs
    }
    if len(shapes) > 1:
        msg = "gives items of different types"
        raise RefusedError(msg)
    ((found, kinds),) = shapes
    if found is not None:
        declared = tuple(KIND_OF.get(t) for t in (fields_of(found) or {}).values())
        if declared != kinds:
            msg = f"gives a {found.__name__} with other types than it declares"
            raise RefusedError(msg)
    columns = []
    for number, kind in enumerate(kinds):
        low = high = 0
        if kind == "int":
            ranges = [bounds(_attribute(one, number)) for one in outputs]
            low = min(first for first, _ in ranges)
            high = max(last for _, last in ranges)
        columns.append(ArrayColumn(kind, low, high))
    return ArrayLayout(found, tuple(columns))


def _attribute(output: Any, number: int) -> Any:
    return output.values[number] if isinstance(output, TracedRecord) else output


def _store(trace: Trace, value: Any) -> str:
    if not is_number(value):
        msg = f"gives a {describe_value(value)}"
        raise RefusedError(msg)
    if isinstance(value, Symbol):
        return value.name
    return as_float(trace, value) if type(value) is float else trace.text(value)


def _place(firing: str, rate: int, index: int) -> str:
    if rate == 1:
        return firing
    return f"{firing} * {rate} + {index}" if index else f"{firing} * {rate}"


def _text(trace: Trace, inputs: int, outputs: int) -> str:
    """Return the text of the kernel.

    Constants are arguments, so filters that differ only in these share a function.
    """
    arrays = [f"x{n}" for n in range(inputs)] + [f"o{n}" for n in range(outputs)]
    lines = [f"def kernel(count, {', '.join([*arrays, 'constants'])}):"]
    lines += [f"    k{n} = constants[{n}]" for n in trace.scalars]
    lines.append("    bad = False")
    if has_loop(trace.lines):
        lines += in_lanes(trace.lines, trace.kinds)
    else:
        lines.append("    for j in range(count):")
        lines += [f"        {text}" for _, text in trace.lines]
    lines += ["    return bad", ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class Compiled:
    """The kernels by operator, and why every other static operator has none."""

    kernels: Mapping[str, ArrayKernel]
    reasons: Mapping[str, str]


def find_kernels(
    graph: Graph, traits: Mapping[str, Traits], static: Container[str]
) -> Compiled:
    """Return the kernels of the static operators that have one.

    >>> from anabranch.language.sources import from_iterable
    >>> from anabranch.language.drafts import build_graph
    >>> made = build_graph([from_iterable([1.0]).map(str, name="text").to_list()])
    >>> find_kernels(made, {op.name: Traits("stateless") for op in made}, ["text"]).reasons
    {'text': 'str is not a function written in Python'}
    """
    layouts: dict[str, ArrayLayout] = {}
    kernels: dict[str, ArrayKernel] = {}
    reasons: dict[str, str] = {}
    for op in graph:
        if op.name not in static:
            found = _find_layout(op)
        else:
            try:
                kernels[op.name], found = _kernel(op, traits[op.name], layouts)
            except RefusedError as refused:
                reasons[op.name] = str(refused)
                found = _find_layout(op)
        if found is not None:
            layouts[op.name] = found
    return Compiled(kernels, reasons)


_GIVES: dict[Any, type] = {float: float, int: int, bool: bool, len: int, ord: int}


def _find_layout(op: Op) -> ArrayLayout | None:
    """Return the array layout of an operator's items, if its type determines it."""
    if op.type is not None:
        return layout_of(op.type)
    if isinstance(op.kind, Map) and op.kind.function in _GIVES:
        return layout_of(_GIVES[op.kind.function])
    if isinstance(op.kind, FromIterable) and isinstance(op.kind.items, list | tuple):
        first = next(iter(op.kind.items), None)
        if type(first) in KIND_OF:
            return layout_of(type(first))
    return None


def _kernel(
    op: Op, traits: Traits, layouts: Mapping[str, ArrayLayout]
) -> tuple[ArrayKernel, ArrayLayout]:
    if op.keyed_by:
        msg = "keeps its items apart by key"
        raise RefusedError(msg)
    takes = _find_input_layout(op, layouts)
    if isinstance(op.kind, Deal | Collect):
        return _turns(op, takes), takes
    if len(op.inputs) != 1:
        msg = f"is a {op.kind.label}"
        raise RefusedError(msg)
    firing = _firing(op, traits)
    if traits.effects or declaration_of(firing.function).state is not None:
        msg = f"{describe_function(firing.function)} is not proven to depend on its items alone"
        raise RefusedError(msg)
    try:
        kernel, gives = make_kernel(firing, takes)
    except RefusedError as refused:
        if "not a function written" in str(refused):
            raise
        where = f" ({refused.place})" if refused.place else ""
        msg = f"{describe_function(firing.function)} {refused}{where}"
        raise RefusedError(msg) from refused
    except Exception as error:  # whatever users write, their program must run
        msg = f"{describe_function(firing.function)} cannot be traced ({type(error).__name__})"
        raise RefusedError(msg) from error
    declared = op.type if _is_tuple(op.type) else None
    if gives.type is not declared:
        msg = "gives something else than its annotation says"
        if gives.type is not None:
            msg = f"gives {gives.type.__name__}, which its annotation does not say"
        raise RefusedError(msg)
    return kernel, gives


def _is_tuple(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, tuple)


def _firing(op: Op, traits: Traits) -> Firing:
    match op.kind:
        case Map(function=function):
            return Firing(op.name, function, 1, 1, 1, single=True, gives_list=False)
        case Block(function=function, pop=pop, push=push, peek=peek):
            return Firing(
                op.name, function, pop, push, peek, single=False, gives_list=True
            )
        case FlatMap(function=function) if traits.push.most is not None:
            push = traits.push.most
            return Firing(op.name, function, 1, push, 1, single=True, gives_list=True)
    msg = f"is a {op.kind.label}"
    raise RefusedError(msg)


def _find_input_layout(op: Op, layouts: Mapping[str, ArrayLayout]) -> ArrayLayout:
    found: list[ArrayLayout] = []
    if not op.inputs:
        msg = "has no input"
        raise RefusedError(msg)
    for each in op.inputs:
        if each.operator not in layouts:
            msg = (
                f"the items of {each.operator} are not known to be numbers; give it a "
                f"type, or annotate what its function returns"
            )
            raise RefusedError(msg)
        found.append(layouts[each.operator])
    first = found[0]
    kinds = {(one.type, tuple(c.kind for c in one.columns)) for one in found}
    if len(kinds) > 1:
        msg = "brings items of different types together"
        raise RefusedError(msg)
    return ArrayLayout(first.type, tuple(map(_widest, *(one.columns for one in found))))


def _widest(*columns: ArrayColumn) -> ArrayColumn:
    low, high = min(c.low for c in columns), max(c.high for c in columns)
    return ArrayColumn(columns[0].kind, low, high)


def _turns(op: Op, takes: ArrayLayout) -> ArrayKernel:
    """Return the kernel of a splitter or joiner, which computes nothing."""
    weights: Any = op.kind.weights  # type: ignore[attr-defined]
    total = sum(weights)
    columns = takes.columns
    return ArrayKernel(op.name, total, total, total, columns, columns, "", ())
