"""What a name or an expression may stand for, as far as purity is concerned.

A value is the set of objects that it may be. Of each object matters who else can see
it: an object that was made in this call may be changed, the input item and whatever
outlives the call may not. What lies inside of a made object is kept in the `Heap`, by
attribute and by position, so that a captured list does not become our own by being put
into a tuple.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeAlias

ELEMENTS = "[]"


@dataclass(frozen=True, slots=True)
class Plain:
    """An immutable value of a builtin type, such as a number or a text."""

    type: type | None = None


@dataclass(frozen=True, slots=True)
class Fresh:
    """An object that was made here, at the syntax node with number `site`."""

    site: int
    type: Any = None


class LibraryObject:
    """Stands for the class of an object of Python's or a package's, whichever it is."""


@dataclass(frozen=True, slots=True)
class Input:
    """The input item, or anything reached from it; `type` is its annotation."""

    type: Any = None


@dataclass(frozen=True, slots=True)
class Shared:
    """Something inside of `target`, an object that outlives the call."""

    text: str
    target: int = 0  # its id


class Known:
    """An object that exists already: a global, a captured variable, a default."""

    __slots__ = ("obj", "text")

    def __init__(self, obj: Any, text: str) -> None:
        self.obj = obj
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Known) and self.obj is other.obj

    def __hash__(self) -> int:
        return id(self.obj)


@dataclass(frozen=True, slots=True)
class Bound:
    """A function of the user's, bound to the object that it is a method of."""

    owner: Root
    function: FunctionType


@dataclass(frozen=True, slots=True)
class Method:
    """A method, by name, of an object whose class is not the user's, or not known."""

    owner: Root
    name: str


@dataclass(frozen=True, slots=True)
class Closure:
    """A function that is defined in the function under analysis."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Any  # the Frame it was defined in


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that cannot be followed; the effect that says so is recorded."""


Root: TypeAlias = (
    Plain | Fresh | Input | Shared | Known | Bound | Method | Closure | Lost
)
Value: TypeAlias = frozenset[Root]

NOTHING: Value = frozenset()
PLAIN: Value = frozenset([Plain()])
LOST: Value = frozenset([Lost()])


def join(values: Iterable[Value]) -> Value:
    """Return the value that may be any of `values`."""
    return NOTHING.union(*values)


@dataclass
class Arguments:
    """The arguments of a call; `rest` may stand for any parameter."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    rest: Value = NOTHING

    def all(self) -> Value:
        """Return whatever is passed, by whatever name."""
        return join([*self.positional, *self.keywords.values(), self.rest])


class Heap:
    """What the objects that were made here hold, by attribute or position.

    It only grows; `version` tells whether it did.
    """

    def __init__(self) -> None:
        self._fields: dict[tuple[int, str], Value] = {}
        self._names: dict[int, set[str]] = {}
        self._sites: dict[Any, int] = {}
        self.version = 0

    def site(self, key: Any) -> int:
        """Return the number of a place where objects are made."""
        return self._sites.setdefault(key, len(self._sites))

    def put(self, site: int, name: str, value: Value) -> None:
        """Record that an object made at `site` may hold `value` under `name`."""
        old = self._fields.get((site, name), NOTHING)
        if not value <= old:
            self._fields[site, name] = old | value
            self._names.setdefault(site, set()).add(name)
            self.version += 1

    def get(self, site: int, name: str) -> Value:
        """Return what may be found under one attribute or position."""
        return self._fields.get((site, name), NOTHING)

    def fields(self, site: int) -> dict[str, Value]:
        """Return what an object may hold, by attribute or position."""
        return {n: self._fields[site, n] for n in self._names.get(site, ())}

    def inside(self, site: int) -> Value:
        """Return whatever the object may hold."""
        return join(self._fields[site, n] for n in self._names.get(site, ()))

    def elements(self, site: int) -> Value:
        """Return what may be found by index, key or iteration."""
        names = (n for n in self._names.get(site, ()) if n.startswith("["))
        return join(self._fields[site, n] for n in names)
