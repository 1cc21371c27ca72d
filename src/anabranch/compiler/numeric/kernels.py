"""Makes the kernel of an operator: the text of a function over arrays.

A kernel fires an operator many times. It reads the items of firing `j` from the places
that begin at `j * pop` of its input arrays, one array for each attribute, and writes what
the firing gives. It returns whether some firing would have raised in Python or left what
the arrays can hold; then nothing that it wrote counts.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from anabranch.compiler.numeric.arithmetic import as_float
from anabranch.compiler.numeric.calls import call, knows
from anabranch.compiler.numeric.lanes import has_loop, in_lanes
from anabranch.compiler.numeric.statements import Statements
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import (
    KIND_OF,
    NEVER,
    Record,
    RefusedError,
    Symbol,
    bounds,
    is_number,
    is_tuple_type,
    kind_of,
    shown,
)
from anabranch.graph.types import fields_of
from anabranch.plan.plan import Column, Kernel

# Ints of a stream count as at most this large; what is larger goes through Python.
INT_BOUND = 1 << 31


@dataclass(frozen=True)
class Layout:
    """How the items of a stream lie in arrays; `type` is None for plain numbers."""

    type: type | None
    columns: tuple[Column, ...]


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


def layout_of(found: Any) -> Layout | None:
    """Return how items of a type lie in arrays; None if they are not all numbers.

    >>> layout_of(float)
    Layout(type=None, columns=(Column(kind='float', low=0, high=0),))
    >>> layout_of(str) is None
    True
    """
    if found in KIND_OF:
        return Layout(None, (_column(found),))
    if not is_tuple_type(found):
        return None
    fields = fields_of(found) or {}
    if not fields or any(each not in KIND_OF for each in fields.values()):
        return None
    return Layout(found, tuple(_column(each) for each in fields.values()))


def _column(found: type) -> Column:
    bound = INT_BOUND if found is int else 0
    return Column(KIND_OF[found], -bound, bound)


def make_kernel(firing: Firing, takes: Layout) -> tuple[Kernel, Layout]:
    """Return the kernel of an operator, and how its outputs lie in arrays.

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
    given = _fired(trace, firing, items[0] if firing.single else items)
    outputs = _outputs(firing, given)
    gives = _common_layout(outputs)
    for index, output in enumerate(outputs):
        values = output.values if isinstance(output, Record) else (output,)
        for number, value in enumerate(values):
            place = _place("j", firing.push, index)
            trace.write(f"o{number}[{place}] = {_stored(trace, value)}")
    kernel = Kernel(
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


def _fired(trace: Trace, firing: Firing, argument: Any) -> Any:
    """Return what the function gives for symbols in the place of items."""
    function = firing.function
    if isinstance(function, types.FunctionType):
        return Statements(trace).invoke(function, [argument], {}, None)
    if knows(function):
        return call(trace, function, [argument])
    name = getattr(function, "__name__", shown(function))
    msg = f"{name} is not a function written in Python"
    raise RefusedError(msg)


def _item(trace: Trace, layout: Layout, pop: int, index: int) -> Any:
    values = []
    for number, (kind, low, high) in enumerate(layout.columns):
        array = f"x{number}[{_place('j', pop, 0)}"
        values.append(trace.load(kind, array, index, (low, high)))
    return values[0] if layout.type is None else Record(layout.type, tuple(values))


def _outputs(firing: Firing, given: Any) -> list[Any]:
    if given is NEVER:
        msg = "raises whatever the items are"
        raise RefusedError(msg)
    if not firing.gives_list:
        return [given]
    if isinstance(given, Record):
        given = given.values
    if not isinstance(given, list | tuple):
        msg = f"gives a {shown(given)}, not a list"
        raise RefusedError(msg)
    if len(given) != firing.push:
        msg = f"gives {len(given)} items where {firing.push} are declared"
        raise RefusedError(msg)
    return list(given)


def _common_layout(outputs: list[Any]) -> Layout:
    """Return how outputs lie in arrays; all of them must be alike."""
    if not outputs:
        msg = "never gives an item"
        raise RefusedError(msg)
    shapes = {
        (one.type, tuple(map(kind_of, one.values)))
        if isinstance(one, Record)
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
        columns.append(Column(kind, low, high))
    return Layout(found, tuple(columns))


def _attribute(output: Any, number: int) -> Any:
    return output.values[number] if isinstance(output, Record) else output


def _stored(trace: Trace, value: Any) -> str:
    if not is_number(value):
        msg = f"gives a {shown(value)}"
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

    Constants are arguments, so filters that differ in nothing else are one function.
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
