"""Calls in a trace: known functions, and the user's own.

A function of `math` is listed if the kernel calls the same routine of the C library as
Python, which the tests compare on many numbers; where Python raises, a check sends the
batch to Python. `hypot`, `pow` and functions that are not listed may differ in the last
bit.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anabranch.compiler.numeric.values import (
    EXACT,
    Passing,
    RefusedError,
    Symbol,
    Trace,
    TracedRecord,
    as_float,
    as_int,
    binary,
    bounds,
    check_bounds,
    compare,
    describe_value,
    either,
    is_number,
    is_sequence,
    is_tuple_type,
    kind_of,
    truth,
)
from anabranch.python.known import SUM_NOTES_LOSSES, SUM_NOTES_LOSSES_OF_INTS
from anabranch.python.source import node_of

_NOT_AT_ONCE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def read_function(function: types.FunctionType) -> ast.FunctionDef | ast.Lambda:
    """Return the syntax tree of a function; refuse one whose tree is incomplete."""
    node = node_of(function.__code__)
    if node is None or isinstance(node, ast.AsyncFunctionDef):
        msg = f"the source of {function.__name__} is not available"
        raise RefusedError(msg)
    if isinstance(node, ast.Lambda):
        if is_generator(function):
            msg = "is a lambda that yields"
            raise RefusedError(msg)
    elif node.decorator_list:
        msg = f"{function.__name__} is decorated"
        raise RefusedError(msg)
    return node


def is_generator(function: types.FunctionType) -> bool:
    """Tell whether a call returns an iterator before anything is computed.

    Its code tells, since even an unreachable `yield` makes a generator.
    """
    return bool(function.__code__.co_flags & _NOT_AT_ONCE)


def bind_parameters(
    function: types.FunctionType,
    declared: ast.arguments,
    args: list[Any],
    keywords: dict[str, Any],
) -> dict[str, Any]:
    """Return the names of the parameters with their values."""
    if declared.vararg or declared.kwarg or declared.kwonlyargs:
        msg = f"{function.__name__} takes a varying number of arguments"
        raise RefusedError(msg)
    names = [each.arg for each in (*declared.posonlyargs, *declared.args)]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    given.update(zip(names, args, strict=False))
    given.update(keywords)
    by_place = {*names[: len(args)], *names[: len(declared.posonlyargs)]}
    twice = not by_place.isdisjoint(keywords)
    if twice or len(args) > len(names) or set(given) != set(names):
        msg = f"{function.__name__} is called with other arguments than it takes"
        raise RefusedError(msg)
    return given


LONGEST_LIST = 10_000

# name -> when Python raises, by the argument and the result of the C routine
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
# Known functions that are evaluated while tracing: none of them takes long.
_QUICK = set(_MATH) | {"floor", "ceil", "trunc", "isnan", "isinf", "isfinite"}
_QUICK |= {"hypot", "pow", "atan2", "asin", "acos", "sinh", "cosh", "tanh", "copysign"}
_QUICK |= {"log2", "log10", "radians", "degrees", "asinh", "acosh", "atanh"}
_WHOLE = {"floor": math.floor, "ceil": math.ceil, "trunc": math.trunc}


def call(trace: Trace, function: Any, args: Sequence[Any]) -> Any:
    """Call a function of the language or of `math`."""
    if function in _BUILTINS:
        return _BUILTINS[function](trace, *args)
    name = getattr(function, "__name__", "")
    if getattr(math, name, None) is function:
        return _math(trace, name, args)
    msg = f"calls {name or describe_value(function)}"
    raise RefusedError(msg)


def knows(function: Any) -> bool:
    """Tell whether `call` supports a function."""
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
    """Return a float as an integer; beyond 2**53, and for nan, Python does it."""
    if kind_of(value) != "float":
        return _int(trace, value)
    x = as_float(trace, value)
    trace.fail_if(f"not (abs({x}) < {float(EXACT)!r})")
    safe = trace.new("float", f"{x} if abs({x}) < {float(EXACT)!r} else 0.0").name
    return trace.new("int", f"int({text.format(x=safe)})", (-EXACT, EXACT))


def _int(trace: Trace, value: Any = 0) -> Any:
    if not isinstance(value, Symbol):
        return _concretely(int, value)
    match value.kind:
        case "float":
            return _to_int(trace, value, "{x}")
        case "int":
            return value
    return trace.new("int", as_int(trace, value), (0, 1))


def _round(trace: Trace, value: Any) -> Any:
    """Return the nearest integer, rounding half to even."""
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
    return trace.new("int", text, (least, max(abs(low), abs(high))))


def _concretely(function: Callable[[Any], Any], value: Any) -> Any:
    if not is_number(value):
        msg = f"calls {function.__name__} on a {describe_value(value)}"
        raise RefusedError(msg)
    try:
        return function(value)
    except (ArithmeticError, ValueError) as error:
        msg = f"raises {type(error).__name__} whatever the items are"
        raise RefusedError(msg) from error


def _choose(trace: Trace, op: ast.cmpop, args: Sequence[Any]) -> Any:
    """Return the first minimum or maximum, as `min` and `max` do."""
    values = list_values(args[0]) if len(args) == 1 else list(args)
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
    return _limit_best(best, op, values)


def _limit_best(best: Any, op: ast.cmpop, values: Sequence[Any]) -> Any:
    """Return the minimum or maximum of integers with its bounds."""
    if not isinstance(best, Symbol) or best.kind != "int":
        return best
    choose = min if isinstance(op, ast.Lt) else max
    whole = [value for value in values if kind_of(value) == "int"]
    lows, highs = zip(*map(bounds, whole), strict=True)
    return Symbol(best.name, "int", (choose(lows), choose(highs)))


def add_up(trace: Trace, values: Sequence[Any], start: Any) -> Any:
    """Return `sum(values, start)`."""
    for value in (start, *values):
        if not is_number(value):
            msg = f"adds up a {describe_value(value)}"
            raise RefusedError(msg)
    if kind_of(start) == "bool":  # `sum` compensates for nothing then
        total = start
        for value in values:
            total = binary(trace, ast.Add(), total, value)
        return total
    total, lost = start, 0.0
    for value in values:
        total, lost = _add_next(trace, total, lost, value)
    return _make_up(trace, total, lost)


def _add_next(trace: Trace, total: Any, lost: Any, value: Any) -> tuple[Any, Any]:
    """Return the sum with one more number, and the rounding error so far.

    After a float this Python's `sum` may compensate for rounding (Neumaier, 1974).
    """
    if not is_number(value):
        msg = f"adds up a {describe_value(value)}"
        raise RefusedError(msg)
    if SUM_NOTES_LOSSES:
        for number in (
            total,
            value,
        ):  # it adds plainly after one that does not fit a C long
            if kind_of(number) != "float":
                check_bounds(bounds(number))
    added = binary(trace, ast.Add(), total, value)
    if kind_of(total) != "float" or not SUM_NOTES_LOSSES:
        return added, lost
    if kind_of(value) != "float":
        if not SUM_NOTES_LOSSES_OF_INTS:
            return added, lost
        value = _float(trace, value)
    kept = compare(trace, ast.GtE(), _abs(trace, total), _abs(trace, value))
    large = _choose_number(trace, kept, total, value)
    small = _choose_number(trace, kept, value, total)
    left = binary(trace, ast.Sub(), large, added)
    return added, binary(trace, ast.Add(), lost, binary(trace, ast.Add(), left, small))


def _make_up(trace: Trace, total: Any, lost: Any) -> Any:
    """Return a sum plus its rounding error, unless that is NaN."""
    if not isinstance(lost, Symbol) and lost == 0.0:
        return total
    known = compare(trace, ast.Eq(), binary(trace, ast.Sub(), lost, lost), 0.0)
    some = compare(trace, ast.NotEq(), lost, 0.0)
    whole = binary(trace, ast.Add(), total, lost)
    whole = _choose_number(trace, known, whole, total)
    return _choose_number(trace, some, whole, total)  # adding 0.0 would lose a sign


def _choose_number(trace: Trace, held: Any, one: Any, two: Any) -> Any:
    if isinstance(held, Symbol):
        return either(trace, held, one, two)
    return one if held else two


def _sum(trace: Trace, values: Any, start: Any = 0) -> Any:
    return add_up(trace, list_values(values), start)


def _all(trace: Trace, values: Any, *, of: bool = True) -> Any:
    held: Any = of
    for value in list_values(values):
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


def list_values(values: Any) -> list[Any]:
    """Return the values of an iterable."""
    return values.items if isinstance(values, Passing) else sequence(values)


def sequence(values: Any) -> list[Any]:
    """Return the values of a list, tuple or range."""
    if is_sequence(values):
        if len(values) > LONGEST_LIST:
            msg = f"goes through more than {LONGEST_LIST} values"
            raise RefusedError(msg)
        return list(values)
    msg = f"goes through a {describe_value(values)}"
    raise RefusedError(msg)


def lists_behind(values: Any) -> tuple[Any, ...]:
    """Return the lists that are iterated with this value."""
    if isinstance(values, Passing):
        return values.over
    return (values,) if isinstance(values, list) else ()


def passing(items: list[Any], *values: Any) -> Passing:
    """Return an iterator over the items of some values."""
    return Passing(items, tuple(one for each in values for one in lists_behind(each)))


def zip_values(values: Sequence[Any], *, strict: Any = False) -> Passing:
    """Return `zip(*values)`."""
    rows = [list_values(each) for each in values]
    if strict and len({len(row) for row in rows}) > 1:
        msg = "zips sequences of different lengths strictly"
        raise RefusedError(msg)
    return passing(list(zip(*rows, strict=False)), *values)


def _enumerate(_: Trace, values: Any, start: Any = 0) -> Passing:
    if type(start) not in (int, bool):
        msg = "counts from a number that depends on the items"
        raise RefusedError(msg)
    return passing(list(enumerate(list_values(values), start)), values)


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
    builtins.min: lambda trace, *args: _choose(trace, ast.Lt(), args),
    builtins.max: lambda trace, *args: _choose(trace, ast.Gt(), args),
    builtins.sum: _sum,
    _add_next: _add_next,
    builtins.all: _all,
    builtins.any: lambda trace, values: _all(trace, values, of=False),
    builtins.len: lambda _, values: len(sequence(values)),
    builtins.range: _range,
    builtins.list: lambda _, values=(): list_values(values),
    builtins.tuple: lambda _, values=(): tuple(list_values(values)),
    builtins.reversed: lambda _, values: passing(sequence(values)[::-1], values),
    builtins.enumerate: _enumerate,
}


NO_NAME = object()


@dataclass
class CallFrame:
    """A call of a user's function: its names, and the lists it has made."""

    function: types.FunctionType
    names: dict[str, Any]
    depth: int = 0
    own: list[list[Any]] = field(default_factory=list)

    def owns(self, made: list[Any]) -> bool:
        """Tell whether a list was made in this call, so that nothing else refers to
        it.
        """
        return any(one is made for one in self.own)

    def look_up(self, name: str) -> Any:
        """Return the value of a name."""
        if name in self.names:
            return self.names[name]
        code = self.function.__code__
        if name in (*code.co_varnames, *code.co_cellvars):
            return NO_NAME  # its own, without a value on this path
        if name in code.co_freevars and self.function.__closure__ is not None:
            cell = self.function.__closure__[code.co_freevars.index(name)]
            return _content(cell)
        for scope in (self.function.__globals__, vars(builtins)):
            if name in scope:
                return scope[name]
        return NO_NAME


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return NO_NAME


def bind(target: ast.expr, value: Any, names: dict[str, Any]) -> None:
    """Bind the names of an assignment to their values."""
    if isinstance(target, ast.Name):
        names[target.id] = value
        return
    if not isinstance(target, ast.Tuple | ast.List):
        msg = f"assigns to {type(target).__name__}"
        raise RefusedError(msg)
    parts = unpack(value)
    if any(isinstance(t, ast.Starred) for t in target.elts):
        msg = "assigns to *names"
        raise RefusedError(msg)
    if len(parts) != len(target.elts):
        msg = f"takes {len(parts)} values apart into {len(target.elts)}"
        raise RefusedError(msg)
    given = [t.id for t in target.elts if isinstance(t, ast.Name)]
    # Python 3.11.2 keeps the first value, others do not
    if len(given) > len(set(given)):
        msg = f"assigns a name twice in {ast.unparse(target)}"
        raise RefusedError(msg)
    for each, part in zip(target.elts, parts, strict=True):
        bind(each, part, names)


def unpack(value: Any) -> list[Any]:
    return list(value.values) if isinstance(value, TracedRecord) else list_values(value)


_TOTAL = "<total>"
_LOST = "<lost>"
_ADD = "<add>"


class Runs(Protocol):
    """Runs statements."""

    def invoke(
        self, function: Any, args: list[Any], keywords: dict[str, Any], caller: Any
    ) -> Any:
        """Call a function of the user's."""

    def run(self, steps: list[ast.stmt], frame: CallFrame) -> None:
        """Run statements."""


class Calling(ABC):
    """The part of expression evaluation that handles calls."""

    def __init__(self, trace: Trace, runs: Runs) -> None:
        self.trace = trace
        self._runs = runs

    @abstractmethod
    def value(self, node: ast.expr, frame: CallFrame) -> Any:
        """Return the value of an expression that may be stored."""

    @abstractmethod
    def passing(self, node: ast.expr, frame: CallFrame) -> Any:
        """Return the value of an expression, which may be an iterator."""

    @abstractmethod
    def _elements(self, nodes: list[ast.expr], frame: CallFrame) -> Iterator[Any]: ...

    def _call(self, node: ast.Call, frame: CallFrame) -> Any:
        if isinstance(node.func, ast.Attribute):
            target = self.value(node.func.value, frame)
            if isinstance(target, TracedRecord) and node.func.attr == "_replace":
                if node.args:
                    msg = "calls _replace with a value that has no name"
                    raise RefusedError(msg)
                return _replace_fields(target, self._keywords(node, frame))
            if isinstance(target, list):
                return self._list_method(target, node, frame)
        return self._function_call(self.value(node.func, frame), node, frame)

    def _function_call(self, function: Any, node: ast.Call, frame: CallFrame) -> Any:
        if function is sum and len(node.args) == 1 and not node.keywords:
            match node.args[0]:
                case ast.GeneratorExp(elt=element, generators=[each]) if not each.ifs:
                    return self._sum_loop(element, each, frame)
        if function is zip or (knows(function) and len(node.args) == 1):
            args = [self._argument(each, frame) for each in node.args]
        else:
            args = list(self._elements(node.args, frame))
        keywords = self._keywords(node, frame)
        if function is zip and not keywords.keys() - {"strict"}:
            return zip_values(args, **keywords)
        if is_tuple_type(function):
            return _record(function, args, keywords)
        if isinstance(function, types.FunctionType) and not knows(function):
            return self._runs.invoke(function, args, keywords, frame)
        return self._call_known(function, args, keywords, frame)

    def _call_known(
        self, function: Any, args: list[Any], keywords: dict[str, Any], frame: CallFrame
    ) -> Any:
        if not knows(function) or keywords:
            name = getattr(function, "__name__", describe_value(function))
            msg = f"calls {name}" + (" with keywords" if keywords else "")
            raise RefusedError(msg)
        try:
            given = call(self.trace, function, args)
            return self._own(given, frame) if function is list else given
        except TypeError as error:
            msg = f"calls {function.__name__} in a way that is not known: {error}"
            raise RefusedError(msg) from error

    def _sum_loop(
        self, element: ast.expr, each: ast.comprehension, frame: CallFrame
    ) -> Any:
        """Return `sum(element for ...)`, as a loop."""
        names = {**frame.names, _TOTAL: 0, _LOST: 0.0, _ADD: _add_next}
        inner = CallFrame(frame.function, names, frame.depth, frame.own)
        so_far = [ast.Name(name, ast.Load()) for name in (_TOTAL, _LOST)]
        added = ast.Call(ast.Name(_ADD, ast.Load()), [*so_far, element], [])
        kept: list[ast.expr] = [ast.Name(name, ast.Store()) for name in (_TOTAL, _LOST)]
        body: list[ast.stmt] = [ast.Assign([ast.Tuple(kept, ast.Store())], added)]
        self.trace.in_expression += 1
        try:
            self._runs.run([ast.For(each.target, each.iter, body, [])], inner)
        finally:
            self.trace.in_expression -= 1
        return _make_up(self.trace, inner.names[_TOTAL], inner.names[_LOST])

    def _argument(self, node: ast.expr, frame: CallFrame) -> Any:
        if isinstance(node, ast.Starred):
            msg = "calls with *arguments"
            raise RefusedError(msg)
        return self.passing(node, frame)

    def _keywords(self, node: ast.Call, frame: CallFrame) -> dict[str, Any]:
        if any(each.arg is None for each in node.keywords):
            msg = "calls with **keywords"
            raise RefusedError(msg)
        return {str(k.arg): self.value(k.value, frame) for k in node.keywords}

    def _list_method(self, target: list[Any], node: ast.Call, frame: CallFrame) -> None:
        assert isinstance(node.func, ast.Attribute)  # noqa: S101 - seen by the caller
        args = list(self._elements(node.args, frame))
        self.changing(target, frame)
        if node.keywords or len(target) >= LONGEST_LIST:
            msg = f"calls .{node.func.attr} with keywords, or of a very long list"
            raise RefusedError(msg)
        match node.func.attr, args:
            case "append", [value]:
                target.append(value)
            case "extend", [values]:
                target.extend(list_values(values))
            case name, _:
                msg = f"calls .{name} of a list"
                raise RefusedError(msg)

    def changing(self, target: Any, frame: CallFrame) -> None:
        """Refuse to change what something else may refer to, or only on one path."""
        if not isinstance(target, list) or not frame.owns(target):
            msg = "changes something that it has not made itself"
            raise RefusedError(msg)
        if self.trace.is_frozen(target):
            msg = "changes a list that may be another one on another path"
            raise RefusedError(msg)
        if self.trace.in_expression:
            msg = "changes a list within a condition"
            raise RefusedError(msg)

    def _own(self, made: Any, frame: CallFrame) -> Any:
        if isinstance(made, list):
            frame.own.append(made)
        return made


def _record(made: Any, args: list[Any], keywords: Mapping[str, Any]) -> TracedRecord:
    given = dict(made._field_defaults)
    given.update(zip(made._fields, args, strict=False))
    given.update(keywords)
    whole = len(args) <= len(made._fields) and set(given) == set(made._fields)
    twice = set(made._fields[: len(args)]) & set(keywords)
    if not whole or twice:
        msg = f"makes a {made.__name__} with other attributes than it has"
        raise RefusedError(msg)
    return TracedRecord(made, tuple(given[name] for name in made._fields))


def _replace_fields(record: TracedRecord, keywords: Mapping[str, Any]) -> TracedRecord:
    fields = record.type._fields  # type: ignore[attr-defined]
    if not set(keywords) <= set(fields):
        msg = f"replaces what a {record.type.__name__} does not have"
        raise RefusedError(msg)
    pairs = zip(fields, record.values, strict=True)
    return TracedRecord(record.type, tuple(keywords.get(n, v) for n, v in pairs))
