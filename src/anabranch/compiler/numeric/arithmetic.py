"""What operators do to numbers in a trace, exactly as Python does it.

Floats are IEEE doubles in Python and in the kernel alike, so sums and products agree to
the last bit as long as nobody reorders them. Whole numbers are unbounded in Python: the
bounds of every one are followed, and what may leave 64 bits is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import (
    EXACT,
    NEVER,
    Record,
    RefusedError,
    Symbol,
    bounds,
    is_number,
    kind_of,
    shown,
)

_CONCRETE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARED: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}
_LARGE_POWER = 64
_LARGE_BITS = 2000
_LONG_LIST = 10_000


def binary(trace: Trace, op: ast.operator, left: Any, right: Any) -> Any:
    """Return what `left op right` gives."""
    if not isinstance(left, Symbol) and not isinstance(right, Symbol):
        return _known(op, left, right)
    kinds = {kind_of(left), kind_of(right)}
    match op:
        case ast.Add() | ast.Sub() | ast.Mult():
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(op)]
            if "float" in kinds:
                one, two = as_float(trace, left), as_float(trace, right)
                return trace.new("float", f"{one} {sign} {two}")
            return _whole(trace, type(op), sign, left, right)
        case ast.Div():
            return _divided(trace, left, right)
        case ast.FloorDiv() | ast.Mod() if "float" not in kinds:
            return _floored(trace, op, left, right)
        case ast.Pow():
            msg = (
                "raises a number to a power, for which the C library and the compiler "
                "differ in the last bit; write the product"
            )
            raise RefusedError(msg)
    msg = f"uses {type(op).__name__} on {shown(left)} and {shown(right)}"
    raise RefusedError(msg)


def _known(op: ast.operator, left: Any, right: Any) -> Any:
    """Let Python compute what does not depend on an item."""
    if type(op) not in _CONCRETE:
        msg = f"uses {type(op).__name__}"
        raise RefusedError(msg)
    if isinstance(op, ast.Pow) and abs(right) > _LARGE_POWER:
        msg = "raises to a large power"
        raise RefusedError(msg)
    sequences = (list, tuple)
    if isinstance(left, sequences) or isinstance(right, sequences):
        joined = isinstance(op, ast.Add) and type(left) is type(right)
        repeated = isinstance(op, ast.Mult) and (
            type(right) is int and right * len(left) <= _LONG_LIST
        )
        if not joined and not repeated:
            msg = f"uses {type(op).__name__} on {shown(left)} and {shown(right)}"
            raise RefusedError(msg)
    elif not (is_number(left) and is_number(right)):
        msg = f"uses {type(op).__name__} on {shown(left)} and {shown(right)}"
        raise RefusedError(msg)
    try:
        made = _CONCRETE[type(op)](left, right)
        if type(made) is int and made.bit_length() > _LARGE_BITS:
            msg = "computes whole numbers without bound"
            raise RefusedError(msg)
        return made  # noqa: TRY300 - what is known is made here
    except ArithmeticError as error:
        msg = f"raises {type(error).__name__} whatever the items are"
        raise RefusedError(msg) from error


def _whole(
    trace: Trace, op: type[ast.operator], sign: str, left: Any, right: Any
) -> Symbol:
    corners = [_CONCRETE[op](a, b) for a in bounds(left) for b in bounds(right)]
    one, two = as_int(trace, left), as_int(trace, right)
    return trace.new("int", f"{one} {sign} {two}", min(corners), max(corners))


def _divided(trace: Trace, left: Any, right: Any) -> Symbol:
    for side in (left, right):
        if kind_of(side) != "float" and max(map(abs, bounds(side))) > EXACT:
            msg = "divides whole numbers that are not all floats"
            raise RefusedError(msg)
    one, two = as_float(trace, left), as_float(trace, right)
    if isinstance(right, Symbol):
        trace.fail_if(f"{two} == 0.0")
    elif right == 0:
        msg = "divides by zero whatever the items are"
        raise RefusedError(msg)
    return trace.new("float", f"{one} / {two}")


def _floored(trace: Trace, op: ast.operator, left: Any, right: Any) -> Symbol:
    if isinstance(right, Symbol) or right <= 0:
        msg = "divides whole numbers by one that is not a known positive number"
        raise RefusedError(msg)
    one, two = as_int(trace, left), int(right)
    low, high = bounds(left)
    if isinstance(op, ast.Mod):
        return trace.new("int", f"{one} % {two}", 0, two - 1)
    return trace.new("int", f"{one} // {two}", low // two, high // two)


def negative(trace: Trace, value: Any) -> Any:
    """Return `-value`."""
    if not isinstance(value, Symbol):
        return -value
    if value.kind == "float":
        return trace.new("float", f"-{value.name}")
    low, high = bounds(value)
    return trace.new("int", f"-{as_int(trace, value)}", -high, -low)


def compare(trace: Trace, op: ast.cmpop, left: Any, right: Any) -> Any:
    """Return what `left op right` gives."""
    if isinstance(op, ast.Is | ast.IsNot):
        if left is None or right is None:
            return (left is right) == isinstance(op, ast.Is)
        msg = "asks whether two numbers are the same object"
        raise RefusedError(msg)
    if type(op) not in _COMPARED:
        msg = f"uses {type(op).__name__}"
        raise RefusedError(msg)
    sign, concrete = _COMPARED[type(op)]
    if not isinstance(left, Symbol) and not isinstance(right, Symbol):
        kind_of(left), kind_of(right)  # nothing but numbers
        return concrete(left, right)
    if "float" not in {kind_of(left), kind_of(right)}:
        one, two = as_int(trace, left), as_int(trace, right)
        return trace.new("bool", f"{one} {sign} {two}")
    for side in (left, right):
        if kind_of(side) != "float" and max(map(abs, bounds(side))) > EXACT:
            msg = "compares a float with a whole number that may not be one"
            raise RefusedError(msg)
    one, two = as_float(trace, left), as_float(trace, right)
    return trace.new("bool", f"{one} {sign} {two}")


def as_float(trace: Trace, value: Any) -> str:
    """Return the text of a number as a float."""
    if not isinstance(value, Symbol):
        try:
            return trace.text(float(value))
        except OverflowError as error:
            msg = "computes with a whole number that is too large for a float"
            raise RefusedError(msg) from error
    if value.kind == "float":
        return value.name
    return trace.new("float", f"float({as_int(trace, value)})").name


def as_int(trace: Trace, value: Any) -> str:
    """Return the text of an int or bool as an int."""
    if isinstance(value, Symbol) and value.kind == "bool":
        return trace.new("int", f"1 if {value.name} else 0", 0, 1).name
    return trace.text(value if isinstance(value, Symbol) else int(value))


def truth(trace: Trace, value: Any) -> Any:
    """Return whether a value counts as true: a bool, known or not."""
    if not isinstance(value, Symbol):
        if isinstance(value, Record):
            return True
        return bool(value)
    match value.kind:
        case "bool":
            return value
        case "int":
            return trace.new("bool", f"{value.name} != 0")
    return trace.new("bool", f"{value.name} != 0.0")


def negated(trace: Trace, value: Any) -> Any:
    """Return `not value`."""
    held = truth(trace, value)
    if isinstance(held, Symbol):
        return trace.new("bool", f"not {held.name}")
    return not held


def either(trace: Trace, condition: Symbol, one: Any, two: Any) -> Any:
    """Return `one if condition else two`, whose kinds must agree."""
    if one is NEVER or two is NEVER:
        return two if one is NEVER else one
    if one is two:
        return one
    if is_number(one) and is_number(two):
        return _either_number(trace, condition, one, two)
    if isinstance(one, Record) and isinstance(two, Record) and one.type is two.type:
        pairs = zip(one.values, two.values, strict=True)
        return Record(one.type, tuple(either(trace, condition, a, b) for a, b in pairs))
    if type(one) is type(two) and isinstance(one, list | tuple):
        if len(one) != len(two):
            msg = "gives sequences of different lengths on different paths"
            raise RefusedError(msg)
        pairs = zip(one, two, strict=True)
        return type(one)(either(trace, condition, a, b) for a, b in pairs)
    msg = f"gives a {shown(one)} on one path and a {shown(two)} on another"
    raise RefusedError(msg)


def _either_number(trace: Trace, condition: Symbol, one: Any, two: Any) -> Any:
    kind = kind_of(one)
    if kind != kind_of(two):
        msg = f"gives {_a(kind)} on one path and {_a(kind_of(two))} on another"
        raise RefusedError(msg)
    known = not isinstance(one, Symbol) and not isinstance(two, Symbol)
    if known and repr(one) == repr(two):
        return one
    low = min(bounds(one)[0], bounds(two)[0]) if kind == "int" else 0
    high = max(bounds(one)[1], bounds(two)[1]) if kind == "int" else 0
    text = f"{trace.text(one)} if {condition.name} else {trace.text(two)}"
    return trace.new(kind, text, low, high)


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "int" else f"a {kind}"
