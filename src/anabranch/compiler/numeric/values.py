"""The values of a traced function, and the lines that operators on them become.

Tracing runs the user's function once on symbols instead of items. What does not depend
on an item (indices, coefficients, the number of iterations) is computed immediately, by
Python itself. Everything else becomes a line of the kernel.

Floats are IEEE doubles in Python and in the kernel alike, so sums and products agree to
the last bit as long as nothing reorders them. Integers are unbounded in Python: the
bounds of every one are tracked, and a number that may leave 64 bits is refused.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["float", "int", "bool"]

KIND_OF: dict[type, Kind] = {float: "float", int: "int", bool: "bool"}
EXACT = 1 << 53  # every integer up to here is a float
LARGEST = (1 << 63) - 1

Bounds: TypeAlias = tuple[int, int]  # the least and the greatest value


class RefusedError(Exception):
    """The function does something that is not compiled; the text says what.

    `place` is the file and line of the statement, once known.
    """

    place = ""


@dataclass(frozen=True, eq=False)
class Symbol:
    """A number that is known only when the kernel runs.

    An int has bounds, which fit 64 bits. A bool and a float have none of their own.

    >>> Symbol("v1", "int", (0, 1 << 63))
    Traceback (most recent call last):
    anabranch.compiler.numeric.values.RefusedError: computes whole numbers that may not \
fit 64 bits
    """

    name: str
    kind: Kind
    span: Bounds | None = None

    def __post_init__(self) -> None:
        if self.kind not in KIND_OF.values():
            msg = f"{self.name} must be a float, an int or a bool, not a {self.kind}"
            raise TypeError(msg)
        if (self.kind == "int") != (self.span is not None):
            msg = f"an int must have bounds, nothing else; {self.name} is {self.kind}"
            raise TypeError(msg)
        if self.span is not None:
            check_bounds(self.span)


def check_bounds(span: Bounds) -> None:
    """Refuse integers that may not fit 64 bits."""
    low, high = span
    if low > high:
        msg = f"the least value {low} must not be above the greatest, {high}"
        raise ValueError(msg)
    if low < -LARGEST or high > LARGEST:
        msg = "computes whole numbers that may not fit 64 bits"
        raise RefusedError(msg)


@dataclass(frozen=True, eq=False)
class TracedRecord:
    """A NamedTuple whose attributes are values of the trace."""

    type: type
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Passing:
    """An iterator such as a `zip`; `over` are the lists behind it."""

    items: list[Any]
    over: tuple[Any, ...] = ()


class Never:
    """The result of a path that always raises: nothing."""


NEVER = Never()

Known: TypeAlias = bool | int | float


def is_number(value: Any) -> bool:
    """Tell whether a value is one number, known or not.

    >>> is_number(1.5), is_number("a")
    (True, False)
    """
    return isinstance(value, Symbol) or type(value) in KIND_OF


def kind_of(value: Any) -> Kind:
    """Return the kind of a number.

    >>> kind_of(True)
    'bool'
    """
    if isinstance(value, Symbol):
        return value.kind
    if type(value) in KIND_OF:
        return KIND_OF[type(value)]
    msg = f"computes with a {describe_value(value)}, not with numbers alone"
    raise RefusedError(msg)


def bounds(value: Any) -> Bounds:
    """Return the minimum and maximum of an int or bool.

    >>> bounds(True), bounds(Symbol("v1", "bool")), bounds(Symbol("v2", "int", (3, 9)))
    ((1, 1), (0, 1), (3, 9))
    """
    kind = kind_of(value)
    if kind == "float":
        msg = "takes a float for a whole number"
        raise RefusedError(msg)
    if isinstance(value, Symbol):
        return (0, 1) if value.span is None else value.span
    return int(value), int(value)


def lists_in(value: Any) -> Iterator[list[Any]]:
    """Yield the lists that a value is or contains, at any depth, each once.

    >>> list(lists_in(([1.0], 2.0)))
    [[1.0]]
    """
    seen: set[int] = set()
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, TracedRecord):
            waiting += found.values
        elif isinstance(found, list | tuple):
            if id(found) in seen:
                continue
            seen.add(id(found))
            waiting += found
            if isinstance(found, list):
                yield found


# With one of these a NamedTuple may be more than its attributes in order.
_OWN_WAYS = {"__getitem__", "__iter__", "__len__", "__bool__", "__getattribute__"}


class _Sample(NamedTuple):
    one: int


_ATTRIBUTE = type(vars(_Sample)["one"])


def is_tuple_type(found: Any) -> bool:
    """Tell whether a type is a plain NamedTuple, defined by its attributes alone.

    >>> is_tuple_type(tuple)
    False
    """
    return (
        isinstance(found, type)
        and found.__bases__ == (tuple,)
        and hasattr(found, "_fields")
        and "__slots__" in vars(found)
        and vars(found)["__slots__"] == ()
        and _OWN_WAYS.isdisjoint(vars(found))
        and all(type(vars(found).get(each)) is _ATTRIBUTE for each in found._fields)
    )


def is_sequence(value: Any) -> bool:
    """Tell whether a value is a built-in list, tuple or range.

    >>> is_sequence(range(3)), is_sequence("abc")
    (True, False)
    """
    return type(value) in (list, tuple, range) or is_tuple_type(type(value))


def describe_value(value: Any) -> str:
    """Return a value in words, for a reason."""
    if isinstance(value, Symbol):
        return value.kind
    if isinstance(value, TracedRecord):
        return value.type.__name__
    return type(value).__name__


LONGEST = 480  # lines: compiling a kernel takes about 10 ms per line
MOST_STEPS = 20_000
UNROLLED = 260  # a loop that would be unrolled beyond this stays a loop


class Trace:
    """Collects the lines of a kernel, each with one number or one check.

    Equal expressions become one line. A check that fails makes the whole batch run in
    Python instead, which then raises what it raises.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []  # depth, text
        self.constants: list[float] = []
        self.scalars: list[int] = []  # constants that are used by themselves
        self.kinds: dict[str, Kind] = {}  # of the numbers that have a line
        self.loads: dict[str, tuple[str, int]] = {}  # symbol -> array and firing, place
        self.depth = 0
        self.path: list[str] = []  # conditions that hold here
        self.in_expression = 0  # how many of them are within one expression
        self._known: dict[str, Symbol] = {}
        self._frozen: dict[int, list[Any]] = {}
        self._count = 0
        self._steps = 0

    def step(self) -> None:
        """Give up on functions that would take long to trace."""
        self._steps += 1
        if self._steps > MOST_STEPS:
            msg = f"takes more than {MOST_STEPS} steps to trace"
            raise RefusedError(msg)

    def name(self) -> str:
        """Return a new name."""
        self._count += 1
        return f"v{self._count}"

    def write(self, text: str) -> None:
        """Add a line."""
        if len(self.lines) >= LONGEST:
            msg = f"takes more than {LONGEST} steps for one firing"
            raise RefusedError(msg)
        self.lines.append((self.depth, text))

    def new(self, kind: Kind, text: str, span: Bounds | None = None) -> Symbol:
        """Return the number that an expression gives; an int needs its bounds."""
        if span is not None:
            check_bounds(span)
        key = f"{kind}:{text}"
        if key not in self._known:
            made = self.variable(kind, span)
            self.write(f"{made.name} = {text}")
            self._known[key] = made
        return self._known[key]

    def variable(self, kind: Kind, span: Bounds | None = None) -> Symbol:
        """Return a number whose lines the caller writes."""
        made = Symbol(self.name(), kind, span)
        self.kinds[made.name] = kind
        return made

    def freeze(self, value: Any) -> None:
        """Prevent further changes of the lists in a value.

        After `c = a if x > 0 else b` a change of `a` may be one of `c`. A trace has
        three lists then, and could not tell.
        """
        for each in lists_in(value):
            self._frozen[id(each)] = each

    def is_frozen(self, made: list[Any]) -> bool:
        """Tell whether a list may no longer be changed."""
        return id(made) in self._frozen

    def constant(self, value: float) -> str:
        """Return the text of a known float: an element of the list of constants."""
        self.constants.append(value)
        self.scalars.append(len(self.constants) - 1)
        return f"k{len(self.constants) - 1}"

    def row(self, values: Sequence[float]) -> int:
        """Return the index of known floats that a loop iterates over."""
        start = len(self.constants)
        self.constants.extend(values)
        return start

    def load(self, kind: Kind, array: str, place: int, span: Bounds | None) -> Symbol:
        """Return a number of the input; `array` includes the start of a firing.

        It has no line of its own: unused input should not be read.
        """
        name = f"{array} + {place}]" if place else f"{array}]"
        self.loads[name] = (array, place)
        return Symbol(name, kind, span)

    def text(self, value: Symbol | Known) -> str:
        """Return the text of a number in an expression."""
        if isinstance(value, Symbol):
            return value.name
        if type(value) is float:
            return self.constant(value)
        if type(value) is int and abs(value) > LARGEST:
            msg = "computes with a whole number that does not fit 64 bits"
            raise RefusedError(msg)
        return f"({value!r})" if value < 0 else repr(value)

    def fail_if(self, condition: str) -> None:
        """Add a check: if the condition holds here, Python takes over."""
        self.write(f"bad = bad | ({' & '.join([*self.path, f'({condition})'])})")

    @contextmanager
    def under(self, condition: str, *, expression: bool = False) -> Iterator[None]:
        """Trace code that only counts if a condition holds."""
        self.path.append(condition)
        self.in_expression += expression
        try:
            yield
        finally:
            self.in_expression -= expression
            self.path.pop()

    @contextmanager
    def loop(self, head: str) -> Iterator[None]:
        """Trace the body of a loop; its results are unknown after it."""
        known = dict(self._known)
        self.write(head)
        begin = len(self.lines)
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1
            self._known = known
        if len(self.lines) == begin:  # everything it computes was known before
            self.lines.pop()


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
    """Return the value of `left op right`."""
    if not isinstance(left, Symbol) and not isinstance(right, Symbol):
        return _compute(op, left, right)
    kinds = {kind_of(left), kind_of(right)}
    match op:
        case ast.Add() | ast.Sub() | ast.Mult():
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}[type(op)]
            if "float" in kinds:
                one, two = as_float(trace, left), as_float(trace, right)
                return trace.new("float", f"{one} {sign} {two}")
            return _whole(trace, type(op), sign, left, right)
        case ast.Div():
            return _divide(trace, left, right)
        case ast.FloorDiv() | ast.Mod() if "float" not in kinds:
            return _floor_divide(trace, op, left, right)
        case ast.Pow():
            msg = (
                "raises a number to a power, for which the C library and the compiler "
                "differ in the last bit; write the product"
            )
            raise RefusedError(msg)
    msg = f"uses {type(op).__name__} on {describe_value(left)} and {describe_value(right)}"
    raise RefusedError(msg)


def _compute(op: ast.operator, left: Any, right: Any) -> Any:
    """Compute, in Python, what does not depend on an item."""
    if type(op) not in _CONCRETE:
        msg = f"uses {type(op).__name__}"
        raise RefusedError(msg)
    if not (is_number(left) and is_number(right)) and not _joins(op, left, right):
        msg = f"uses {type(op).__name__} on {describe_value(left)} and {describe_value(right)}"
        raise RefusedError(msg)
    if isinstance(op, ast.Pow) and abs(right) > _LARGE_POWER:
        msg = "raises to a large power"
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


def _joins(op: ast.operator, left: Any, right: Any) -> bool:
    """Tell whether two sequences are joined, or one repeated, within our size limit."""
    if type(left) not in (list, tuple):
        return False
    if isinstance(op, ast.Add) and type(right) is type(left):
        return len(left) + len(right) <= _LONG_LIST
    repeated = isinstance(op, ast.Mult) and type(right) is int
    return repeated and right * len(left) <= _LONG_LIST


def _whole(
    trace: Trace, op: type[ast.operator], sign: str, left: Any, right: Any
) -> Symbol:
    corners = [_CONCRETE[op](a, b) for a in bounds(left) for b in bounds(right)]
    one, two = as_int(trace, left), as_int(trace, right)
    return trace.new("int", f"{one} {sign} {two}", (min(corners), max(corners)))


def _divide(trace: Trace, left: Any, right: Any) -> Symbol:
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


def _floor_divide(trace: Trace, op: ast.operator, left: Any, right: Any) -> Symbol:
    if isinstance(right, Symbol) or right <= 0:
        msg = "divides whole numbers by one that is not a known positive number"
        raise RefusedError(msg)
    one, two = as_int(trace, left), int(right)
    text = trace.text(two)
    low, high = bounds(left)
    if isinstance(op, ast.Mod):
        return trace.new("int", f"{one} % {text}", (0, two - 1))
    return trace.new("int", f"{one} // {text}", (low // two, high // two))


def negative(trace: Trace, value: Any) -> Any:
    """Return `-value`."""
    if not isinstance(value, Symbol):
        return -value
    if value.kind == "float":
        return trace.new("float", f"-{value.name}")
    low, high = bounds(value)
    return trace.new("int", f"-{as_int(trace, value)}", (-high, -low))


def compare(trace: Trace, op: ast.cmpop, left: Any, right: Any) -> Any:
    """Return the value of `left op right`."""
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
        return trace.new("int", f"1 if {value.name} else 0", (0, 1)).name
    return trace.text(value if isinstance(value, Symbol) else int(value))


def truth(trace: Trace, value: Any) -> Any:
    """Return the truth of a value: a bool, known or not."""
    if isinstance(value, TracedRecord):
        return bool(value.values)
    if not isinstance(value, Symbol):
        if type(value) not in (*KIND_OF, type(None), str, list, tuple, range):
            msg = f"asks whether a {describe_value(value)} is true"
            raise RefusedError(msg)
        return bool(value)
    match value.kind:
        case "bool":
            return value
        case "int":
            return trace.new("bool", f"{value.name} != 0")
    return trace.new("bool", f"{value.name} != 0.0")


def negate(trace: Trace, value: Any) -> Any:
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
    if (
        isinstance(one, TracedRecord)
        and isinstance(two, TracedRecord)
        and one.type is two.type
    ):
        pairs = zip(one.values, two.values, strict=True)
        return TracedRecord(
            one.type, tuple(either(trace, condition, a, b) for a, b in pairs)
        )
    if type(one) is type(two) and type(one) in (list, tuple):
        if len(one) != len(two):
            msg = "gives sequences of different lengths on different paths"
            raise RefusedError(msg)
        trace.freeze((one, two))
        pairs = zip(one, two, strict=True)
        return type(one)(either(trace, condition, a, b) for a, b in pairs)
    msg = f"gives a {describe_value(one)} on one path and a {describe_value(two)} on another"
    raise RefusedError(msg)


def _either_number(trace: Trace, condition: Symbol, one: Any, two: Any) -> Any:
    kind = kind_of(one)
    if kind != kind_of(two):
        msg = f"gives {_a(kind)} on one path and {_a(kind_of(two))} on another"
        raise RefusedError(msg)
    known = not isinstance(one, Symbol) and not isinstance(two, Symbol)
    if known and repr(one) == repr(two):
        return one
    text = f"{trace.text(one)} if {condition.name} else {trace.text(two)}"
    return trace.new(kind, text, _widest(one, two) if kind == "int" else None)


def _widest(one: Any, two: Any) -> Bounds:
    lows, highs = zip(bounds(one), bounds(two), strict=True)
    return min(lows), max(highs)


def _a(kind: str) -> str:
    return f"an {kind}" if kind == "int" else f"a {kind}"
