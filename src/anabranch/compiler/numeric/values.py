"""What a traced function computes with: numbers that are known, and ones that are not.

Tracing runs the user's function once on symbols instead of items. What does not depend
on an item (indices, coefficients, the number of rounds of a loop) is computed then and
there, by Python itself. What does becomes a line of the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Kind: TypeAlias = Literal["float", "int", "bool"]

KIND_OF: dict[type, Kind] = {float: "float", int: "int", bool: "bool"}
EXACT = 1 << 53  # every whole number up to here is a float
LARGEST = (1 << 63) - 1


class RefusedError(Exception):
    """The function does something that is not compiled; the text tells what."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """A number that is known only when the kernel runs; an int has its bounds."""

    name: str
    kind: Kind
    low: int = 0
    high: int = 0


@dataclass(frozen=True, eq=False)
class Record:
    """A NamedTuple whose attributes are values of the trace."""

    type: type
    values: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Passing:
    """What can be gone through once, such as a `zip`; `over` are the lists behind it."""

    items: list[Any]
    over: tuple[Any, ...] = ()


class Never:
    """What a path gives that always raises: nothing."""


NEVER = Never()

Known: TypeAlias = bool | int | float


def is_number(value: Any) -> bool:
    """Tell whether a value is one number, known or not.

    >>> is_number(1.5), is_number("a")
    (True, False)
    """
    return isinstance(value, Symbol) or type(value) in KIND_OF


def kind_of(value: Any) -> Kind:
    """Return of which kind a number is.

    >>> kind_of(True)
    'bool'
    """
    if isinstance(value, Symbol):
        return value.kind
    if type(value) in KIND_OF:
        return KIND_OF[type(value)]
    msg = f"computes with a {shown(value)}, not with numbers alone"
    raise RefusedError(msg)


def bounds(value: Any) -> tuple[int, int]:
    """Return the least and greatest value of an int or bool."""
    if isinstance(value, Symbol):
        return (0, 1) if value.kind == "bool" else (value.low, value.high)
    return int(value), int(value)


# With one of these a NamedTuple may mean something else than its attributes in order.
_OWN_WAYS = {"__getitem__", "__iter__", "__len__", "__bool__", "__getattribute__"}


def is_tuple_type(found: Any) -> bool:
    """Tell whether a type is a plain NamedTuple: its attributes are all there is to it.

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
    )


def shown(value: Any) -> str:
    """Return what a value is, in words for a reason."""
    if isinstance(value, Symbol):
        return value.kind
    if isinstance(value, Record):
        return value.type.__name__
    return type(value).__name__
