"""The values that a translated function computes with.

The translation runs a function once, on values that stand for those of any item. A
value that is the same for all items is `Known`, and Python itself computes with it. Any
other is a `Scalar` in variables of the kernel, or a tuple of values. A scalar has one
kind or several: one that may be None, or an int or a float, has a tag variable, and
every use that needs one kind checks it.
"""

from __future__ import annotations

import datetime as dt
import enum
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args, get_origin

from anabranch.graph.types import fields_of
from anabranch.operators.windows import is_row_type
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import ColumnKind as Kind
from anabranch.plan.column_kernels import ColumnShape as Shape
from anabranch.plan.column_kernels import suffix_of
from anabranch.python import ir

KIND_OF: dict[type, Kind] = {
    int: "int",
    float: "float",
    bool: "bool",
    str: "str",
    bytes: "bytes",
    dt.datetime: "datetime",
    dt.date: "date",
    dt.timedelta: "timedelta",
    type(None): "none",
}
ZERO: dict[Kind, str] = {
    **dict.fromkeys(KINDS, "0"),
    "float": "0.0",
    "bool": "False",
}
LARGEST = (1 << 63) - 1


class NoColumnsError(Exception):
    """A function does something that is not compiled; `line` is where, 0 if unknown."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.line = line


@dataclass(frozen=True, eq=False)
class Known:
    """A value that does not depend on the item."""

    value: Any


@dataclass(frozen=True, eq=False)
class Scalar:
    """A value in the variables of a kernel.

    With one kind, `text` is an expression that costs nothing. With several it is the
    prefix of their variables, unless `parts` has an expression for each. `source`
    numbers the parameter that it equals. `type` is that of an Enum.
    """

    kinds: tuple[Kind, ...]
    text: str
    source: int | None = None
    parts: tuple[str, ...] = ()
    type: Any = None

    @property
    def kind(self) -> Kind:
        """Its only kind."""
        (kind,) = self.kinds
        return kind

    @property
    def tag(self) -> str:
        """The variable with its kind, as an index into `KINDS`."""
        return self.parts[0] if self.parts else f"{self.text}_t"

    def part(self, kind: Kind) -> str:
        """Return the variable with the value of one of several kinds."""
        if self.parts:
            return self.parts[Shape(self.kinds).arrays.index(kind, 1)]
        return f"{self.text}{suffix_of(kind)}"

    @property
    def texts(self) -> list[str]:
        """The expressions of all its variables."""
        if len(self.kinds) == 1:
            return [] if self.kinds == ("none",) else [self.text]
        return [self.tag, *(self.part(k) for k in self.kinds if k != "none")]


@dataclass(frozen=True, eq=False)
class RecordValue:
    """A NamedTuple."""

    type: Any
    values: tuple[Value, ...]


@dataclass(frozen=True, eq=False)
class Group:
    """A tuple, or a list.

    A list can grow where it was `made`: in a frame, at some loop depth. A tuple may hold
    the lists that it is `read` from, which must not grow before it is gone. `site` tells
    where a list is made, in the text of the function.
    """

    values: tuple[Value, ...]
    is_list: bool = False
    made: tuple[KernelFrame, int] | None = None
    read: tuple[Value, ...] = ()
    site: int = 0


@dataclass(frozen=True, eq=False)
class ListValue:
    """A list of any length: arrays of its elements' scalars, and their number."""

    name: str
    shape: Shape | None  # None until an element is added
    site: int = 0  # as in `Group`

    def arrays(self) -> list[tuple[str, Kind]]:
        """Return the names of its arrays, and their kinds."""
        scalars = () if self.shape is None else self.shape.scalars()
        kinds = [kind for one in scalars for kind in one.arrays]
        return [(f"{self.name}_{n}", kind) for n, kind in enumerate(kinds)]


@dataclass(frozen=True, eq=False)
class ListView:
    """A list of `count` values that are read at an index, from these `lists`."""

    count: str
    read: Callable[[str], Value]
    lists: frozenset[str] = frozenset()


@dataclass(frozen=True, eq=False)
class Items:
    """The items of a window: `count` of them, from index `first` of the columns."""

    shape: Shape
    columns: tuple[Scalar, ...]  # the text of each has {at} in place of the index
    first: str
    count: str


@dataclass(frozen=True, eq=False)
class Span:
    """A range."""

    start: Value
    stop: Value
    step: Value


@dataclass(frozen=True, eq=False)
class Made:
    """A function made by the function itself, with the names it sees."""

    function: ir.Function
    names: dict[str, Value]


@dataclass(frozen=True, eq=False)
class GeneratorValue:
    """A generator that has not started."""

    made: Made
    iterable: Value


@dataclass(frozen=True, eq=False)
class Iteration:
    """What `zip`, `enumerate`, `reversed` or `iter` gives: values to go through once."""

    values: tuple[Value, ...]
    read: tuple[Value, ...]  # as in `Group`
    view: ListView | None = None  # in place of the values


@dataclass(frozen=True, eq=False)
class TextParts:
    """The parts of a string, as `split` gives them: an expression in `s`."""

    value: Value
    text: str
    kind: Kind


@dataclass(frozen=True, eq=False)
class Bound:
    """A method of a value."""

    value: Value
    name: str


Value: TypeAlias = (
    Known
    | Scalar
    | RecordValue
    | Group
    | Items
    | Span
    | Made
    | GeneratorValue
    | Iteration
    | ListValue
    | ListView
    | TextParts
    | Bound
)


def order_kinds(kinds: Sequence[Kind] | set[Kind]) -> tuple[Kind, ...]:
    """Return kinds in their order, each once.

    >>> order_kinds(["none", "int"])
    ('int', 'none')
    """
    return tuple(kind for kind in KINDS if kind in kinds)


def kind_of_known(value: Any) -> Kind | None:
    """Return the kind of a built-in value, None for any other."""
    kind = KIND_OF.get(type(value))
    if kind == "int" and not -LARGEST <= value <= LARGEST:
        return None
    if kind is None and is_enum_type(type(value)):
        return "enum"
    if kind == "datetime" and (value.tzinfo is not None or value.fold):
        return None
    if kind == "timedelta" and abs(value) > LONGEST:
        return None
    return kind


LONGEST = dt.timedelta(days=100_000_000)  # in microseconds, it fits 64 bits


def is_enum_type(found: Any) -> bool:
    """Tell whether a type is an Enum whose members have no special behaviour.

    >>> is_enum_type(enum.Enum("Side", "BUY SELL")), is_enum_type(enum.IntEnum("N", "A"))
    (True, False)
    """
    if not isinstance(found, enum.EnumMeta) or type(found) is not enum.EnumMeta:
        return False
    own = {name for one in found.__mro__[:-2] for name in vars(one)}
    plain = found.__mro__[-2:] == (enum.Enum, object)
    return plain and len(found) > 0 and not own & _OWN_WAYS - {"__new__"}


def shape_of_type(found: Any) -> Shape | None:  # noqa: PLR0911 - a table
    """Return the variables for values of a declared type; None if there are none.

    >>> shape_of_type(int | None).kinds
    ('int', 'none')
    >>> shape_of_type(list) is None
    True
    """
    if found in KIND_OF if _is_hashable(found) else False:
        return Shape((KIND_OF[found],))
    if is_enum_type(found):
        return Shape(("enum",), found)
    if get_origin(found) in (typing.Union, types.UnionType):
        return _shape_of_union([shape_of_type(one) for one in get_args(found)])
    if get_origin(found) is tuple and Ellipsis not in get_args(found):
        parts = [shape_of_type(one) for one in get_args(found)]
        return None if None in parts else Shape(parts=tuple(parts))  # type: ignore[arg-type]
    if not is_record_type(found):
        return None
    parts = [shape_of_type(kind) for kind in (fields_of(found) or {}).values()]
    if not parts or None in parts:
        return None
    return Shape((), found, tuple(parts))  # type: ignore[arg-type]


def _shape_of_union(members: Sequence[Shape | None]) -> Shape | None:
    kinds: set[Kind] = set()
    found = None
    for one in members:
        if one is None or one.parts is not None:
            return None
        if one.type is not None and found not in (None, one.type):
            return None
        found = one.type or found
        kinds.update(one.kinds)
    return Shape(order_kinds(kinds), found)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def find_constant(value: Value) -> Known | None:
    """Return a value, or a tuple of values, that is the same for all items."""
    if isinstance(value, Group) and not value.is_list:
        parts = [find_constant(one) for one in value.values]
        known = tuple(one.value for one in parts if one is not None)
        return Known(known) if len(known) == len(parts) else None
    return value if isinstance(value, Known) else None


def shape_of(value: Value) -> Shape:
    """Return the variables of a value."""
    match value:
        case Scalar(kinds=kinds, type=kind):
            return Shape(kinds, kind)
        case RecordValue(type=kind, values=values):
            return Shape(type=kind, parts=tuple(map(shape_of, values)))
        case Group(values=values, is_list=False):
            return Shape(parts=tuple(map(shape_of, values)))
        case Known(value=known):
            kind = kind_of_known(known)
            if kind is not None:
                return Shape((kind,), type(known) if kind == "enum" else None)
            if type(known) is tuple:
                return Shape(parts=tuple(shape_of(Known(one)) for one in known))
            if is_record_type(type(known)):
                parts = tuple(shape_of(Known(one)) for one in known)
                return Shape(type=type(known), parts=parts)
            msg = f"computes with {type(known).__name__}"
            raise NoColumnsError(msg)
    msg = f"keeps a {describe(value)}"
    raise NoColumnsError(msg)


def join(one: Shape, two: Shape) -> Shape:
    """Return the shape that holds values of both."""
    if one == two:
        return one
    if one.parts is None and two.parts is None:
        if None not in (one.type, two.type) and one.type is not two.type:
            msg = "gives values of different types on different paths"
            raise NoColumnsError(msg)
        return Shape(order_kinds({*one.kinds, *two.kinds}), one.type or two.type)
    if one.parts is None or two.parts is None or one.type is not two.type:
        msg = "gives values of different types on different paths"
        raise NoColumnsError(msg)
    if len(one.parts) != len(two.parts):
        msg = "gives tuples of different lengths on different paths"
        raise NoColumnsError(msg)
    return Shape((), one.type, tuple(map(join, one.parts, two.parts)))


def parts_of(value: Value) -> tuple[Value, ...]:
    """Return the values in a tuple."""
    match value:
        case RecordValue(values=values) | Group(values=values):
            return values
        case Known(value=tuple() | list() as known):
            return tuple(map(Known, known))
    msg = f"takes a {describe(value)} for a tuple"
    raise NoColumnsError(msg)


def elements_of(value: Value) -> tuple[Value, ...]:
    """Return the values that an iteration goes through."""
    if isinstance(value, Iteration) and value.view is None:
        return value.values
    return parts_of(value)


def leaves(value: Value, shape: Shape) -> Iterator[Value]:
    """Yield the scalars of a value, in the order of a shape that holds it."""
    if shape.parts is None:
        yield value
        return
    for part, inner in zip(parts_of(value), shape.parts, strict=True):
        yield from leaves(part, inner)


def rebuild(shape: Shape, scalars: Iterator[Value]) -> Value:
    """Return the value of a shape that is made of scalars."""
    if shape.parts is None:
        return next(scalars)
    values = tuple(rebuild(part, scalars) for part in shape.parts)
    return Group(values) if shape.type is None else RecordValue(shape.type, values)


def describe(value: Value) -> str:  # noqa: PLR0911 - a table
    """Describe a value in words."""
    match value:
        case Scalar(kinds=kinds):
            return " or ".join(kinds)
        case RecordValue(type=kind):
            return str(kind.__name__)
        case Group(is_list=is_list):
            return "list" if is_list else "tuple"
        case Known(value=known):
            return type(known).__name__
        case Items():
            return "list of items"
        case Span():
            return "range"
        case GeneratorValue():
            return "generator"
        case Iteration():
            return "iterator"
        case ListValue() | ListView() | TextParts():
            return "list"
    return "function"


def describe_shape(shape: Shape) -> str:
    """Describe the values of a shape in words.

    >>> describe_shape(Shape(("int", "none")))
    'int or none'
    """
    if shape.parts is not None:
        return "tuple" if shape.type is None else str(shape.type.__name__)
    return " or ".join(shape.kinds)


_OWN_WAYS = frozenset(
    [
        "__new__",
        "__init__",
        "__getattribute__",
        "__getattr__",
        "__getitem__",
        "__iter__",
        "__len__",
        "__eq__",
        "__bool__",
        "__contains__",
        "__hash__",
        "__lt__",
        "__le__",
        "__gt__",
        "__ge__",
        "__add__",
        "__mul__",
        "_replace",
    ]
)


def is_record_type(found: Any) -> bool:
    """Tell whether a type is a NamedTuple without special behaviour.

    >>> is_record_type(tuple)
    False
    """
    if is_row_type(found):
        return True
    if not isinstance(found, type) or found.__bases__ != (tuple,):
        return False
    own = vars(found)
    if not hasattr(found, "_fields") or own.get("__slots__") != ():
        return False
    generated = getattr(found.__new__, "__code__", None)
    by_namedtuple = generated is not None and "<" in generated.co_filename
    changed = {name for name in _OWN_WAYS & own.keys() if name not in _GENERATED}
    return by_namedtuple and not changed


_GENERATED = frozenset({"__new__", "_replace"})  # namedtuple itself writes these


def flatten(value: Value) -> Iterator[Scalar]:
    """Yield the scalars of an argument."""
    match value:
        case Scalar():
            yield value
        case RecordValue(values=values) | Group(values=values):
            for one in values:
                yield from flatten(one)


def flatten_all(args: Sequence[Value]) -> Iterator[Scalar]:
    """Yield the scalars of arguments, which are the parameters of a translation."""
    for value in args:
        yield from flatten(value)


@dataclass(eq=False)
class KernelFrame:
    """The names of a function, or of a generator in it."""

    names: dict[str, Value]
    scope: dict[str, Any]
    cells: dict[str, Value]
    on_yield: Callable[[Value], None] | None = None
