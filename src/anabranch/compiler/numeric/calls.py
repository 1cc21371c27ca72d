"""The functions that a trace knows: of the language, and of `math`.

A function of `math` is here if the kernel calls the same routine of the C library as
Python, which the tests compare on many numbers; where Python raises, a check sends the
batch to Python. `hypot`, `pow` and what is not listed may differ in the last bit.
"""

from __future__ import annotations

import ast
import builtins
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.compiler.numeric.arithmetic import (
    as_float,
    as_int,
    binary,
    compare,
    either,
    truth,
)
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import (
    EXACT,
    Passing,
    RefusedError,
    Symbol,
    bounds,
    is_number,
    kind_of,
    shown,
)

LONGEST_LIST = 10_000
PLAIN_SUM = sys.version_info < (3, 12)  # since then it makes up for rounding

# name -> when Python raises, given the argument and the result of the C routine
_MATH = {
    "sqrt": "{x} < 0.0",
    "sin": "math.isinf({x})",
    "cos": "math.isinf({x})",
    "tan": "math.isinf({x})",
    "atan": "",
    "exp": "math.isinf({y}) & (not math.isinf({x}))",
    "log": "{x} <= 0.0",
    "fabs": "",
}
# What may be computed while a function is traced: none of these takes long.
_QUICK = set(_MATH) | {"floor", "ceil", "trunc", "isnan", "isinf", "isfinite"}
_QUICK |= {"hypot", "pow", "atan2", "asin", "acos", "sinh", "cosh", "tanh", "copysign"}
_QUICK |= {"log2", "log10", "radians", "degrees", "asinh", "acosh", "atanh"}
_WHOLE = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}


def call(trace: Trace, function: Any, args: Sequence[Any]) -> Any:
    """Return what a function of the language or of `math` gives."""
    if function in _BUILTINS:
        return _BUILTINS[function](trace, *args)
    name = getattr(function, "__name__", "")
    if getattr(math, name, None) is function:
        return _math(trace, name, args)
    msg = f"calls {name or shown(function)}"
    raise RefusedError(msg)


def knows(function: Any) -> bool:
    """Tell whether `call` may be asked about a function."""
    try:
        return function in _BUILTINS or (
            getattr(math, getattr(function, "__name__", ""), None) is function
        )
    except TypeError:  # not hashable
        return False


def _math(trace: Trace, name: str, args: Sequence[Any]) -> Any:
    function = getattr(math, name)
    if name not in _QUICK:
        msg = f"calls math.{name}"
        raise RefusedError(msg)
    if not any(isinstance(arg, Symbol) for arg in args):
        try:
            return function(*args)
        except (ArithmeticError, ValueError, TypeError) as error:
            msg = f"raises {type(error).__name__} whatever the items are"
            raise RefusedError(msg) from error
    if name in _WHOLE and len(args) == 1:
        return _to_int(trace, args[0], f"math.{name}({{x}})")
    if name in ("isnan", "isinf", "isfinite") and len(args) == 1:
        x = as_float(trace, args[0])
        if name == "isfinite":
            return trace.new("bool", f"not (math.isinf({x}) | math.isnan({x}))")
        return trace.new("bool", f"math.{name}({x})")
    if name not in _MATH or len(args) != 1:
        msg = f"calls math.{name}, which may differ from the C library in the last bit"
        raise RefusedError(msg)
    x = as_float(trace, args[0])
    made = trace.new("float", f"math.{name}({x})")
    if _MATH[name]:
        trace.fail_if(_MATH[name].format(x=x, y=made.name))
    return made


def _to_int(trace: Trace, value: Any, text: str) -> Any:
    """Return a float as a whole number; beyond 2**53, and for nan, Python does it."""
    if kind_of(value) != "float":
        return _int(trace, value)
    x = as_float(trace, value)
    trace.fail_if(f"not (abs({x}) < {float(EXACT)!r})")
    safe = trace.new("float", f"{x} if abs({x}) < {float(EXACT)!r} else 0.0").name
    return trace.new("int", f"int({text.format(x=safe)})", -EXACT, EXACT)


def _int(trace: Trace, value: Any = 0) -> Any:
    if not isinstance(value, Symbol):
        return _concretely(int, value)
    match value.kind:
        case "float":
            return _to_int(trace, value, "{x}")
        case "int":
            return value
    return trace.new("int", as_int(trace, value), 0, 1)


def _round(trace: Trace, value: Any) -> Any:
    """Return the nearest whole number, of two the even one."""
    if not isinstance(value, Symbol):
        return _concretely(round, value)
    return _to_int(trace, value, "np.rint({x})")


def _float(trace: Trace, value: Any = 0.0) -> Any:
    if not isinstance(value, Symbol):
        return _concretely(float, value)
    return trace.new("float", as_float(trace, value))


def _bool(trace: Trace, value: Any = False) -> Any:
    return truth(trace, value)


def _abs(trace: Trace, value: Any) -> Any:
    if not isinstance(value, Symbol):
        return _concretely(abs, value)
    if value.kind == "float":
        return trace.new("float", f"abs({value.name})")
    low, high = bounds(value)
    least = 0 if low <= 0 <= high else min(abs(low), abs(high))
    text = f"abs({as_int(trace, value)})"
    return trace.new("int", text, least, max(abs(low), abs(high)))


def _concretely(function: Callable[[Any], Any], value: Any) -> Any:
    if not is_number(value):
        msg = f"calls {function.__name__} on a {shown(value)}"
        raise RefusedError(msg)
    try:
        return function(value)
    except (ArithmeticError, ValueError) as error:
        msg = f"raises {type(error).__name__} whatever the items are"
        raise RefusedError(msg) from error


def _chosen(trace: Trace, op: ast.cmpop, args: Sequence[Any]) -> Any:
    """Return the first of the least, or greatest, as `min` and `max` do."""
    values = listed(args[0]) if len(args) == 1 else list(args)
    if not values:
        msg = "takes the least or greatest of nothing"
        raise RefusedError(msg)
    best = values[0]
    for value in values[1:]:
        better = compare(trace, op, value, best)
        if isinstance(better, Symbol):
            best = either(trace, better, value, best)
        elif better:
            best = value
    return _bounded(best, op, values)


def _bounded(best: Any, op: ast.cmpop, values: Sequence[Any]) -> Any:
    """Return the least or greatest of whole numbers with the bounds that it has."""
    if not isinstance(best, Symbol) or best.kind != "int":
        return best
    choose = min if isinstance(op, ast.Lt) else max
    lows, highs = zip(*map(bounds, values), strict=True)
    return Symbol(best.name, "int", choose(lows), choose(highs))


def add_up(trace: Trace, values: Sequence[Any], start: Any) -> Any:
    """Return `sum(values, start)`."""
    total = start
    for value in values:
        if not is_number(value):
            msg = f"adds up a {shown(value)}"
            raise RefusedError(msg)
        refuse_compensated(value)
        total = binary(trace, ast.Add(), total, value)
    return total


def refuse_compensated(value: Any) -> None:
    """Refuse the sum of floats where Python adds them up in a better way than `+`."""
    if not PLAIN_SUM and kind_of(value) == "float":
        msg = "adds up floats with sum(), which makes up for rounding; write a loop"
        raise RefusedError(msg)


def _sum(trace: Trace, values: Any, start: Any = 0) -> Any:
    return add_up(trace, listed(values), start)


def _all(trace: Trace, values: Any, *, of: bool = True) -> Any:
    held: Any = of
    for value in listed(values):
        this = truth(trace, value)
        if isinstance(held, bool):
            if held is not of:
                return held
            held = this
        elif isinstance(this, bool):
            if this is not of:
                return this
        else:
            sign = "and" if of else "or"
            held = trace.new("bool", f"{held.name} {sign} {this.name}")
    return held


def listed(values: Any) -> list[Any]:
    """Return the values that one can go through."""
    return values.items if isinstance(values, Passing) else sequence(values)


def sequence(values: Any) -> list[Any]:
    """Return the values of a list, tuple or range."""
    if isinstance(values, list | tuple | range):
        if len(values) > LONGEST_LIST:
            msg = f"goes through more than {LONGEST_LIST} values"
            raise RefusedError(msg)
        return list(values)
    msg = f"goes through a {shown(values)}"
    raise RefusedError(msg)


def lists_behind(values: Any) -> tuple[Any, ...]:
    """Return the lists that one goes through with this value."""
    if isinstance(values, Passing):
        return values.over
    return (values,) if isinstance(values, list) else ()


def passing(items: list[Any], *values: Any) -> Passing:
    """Return what goes once through the items of some values."""
    return Passing(items, tuple(one for each in values for one in lists_behind(each)))


def zipped(values: Sequence[Any], *, strict: Any = False) -> Passing:
    """Return `zip(*values)`."""
    rows = [listed(each) for each in values]
    if strict and len({len(row) for row in rows}) > 1:
        msg = "zips sequences of different lengths strictly"
        raise RefusedError(msg)
    return passing(list(zip(*rows, strict=False)), *values)


def _enumerate(_: Trace, values: Any, start: Any = 0) -> Passing:
    return passing(list(enumerate(listed(values), start)), values)


def _range(_: Trace, *args: Any) -> range:
    if not all(type(arg) in (int, bool) for arg in args):
        msg = "counts to a number that depends on the items"
        raise RefusedError(msg)
    return range(*args)


_BUILTINS: dict[Any, Callable[..., Any]] = {
    builtins.abs: _abs,
    builtins.float: _float,
    builtins.int: _int,
    builtins.bool: _bool,
    builtins.round: _round,
    builtins.min: lambda trace, *args: _chosen(trace, ast.Lt(), args),
    builtins.max: lambda trace, *args: _chosen(trace, ast.Gt(), args),
    builtins.sum: _sum,
    builtins.all: _all,
    builtins.any: lambda trace, values: _all(trace, values, of=False),
    builtins.len: lambda _, values: len(sequence(values)),
    builtins.range: _range,
    builtins.list: lambda _, values=(): listed(values),
    builtins.tuple: lambda _, values=(): tuple(listed(values)),
    builtins.reversed: lambda _, values: passing(sequence(values)[::-1], values),
    builtins.enumerate: _enumerate,
}
