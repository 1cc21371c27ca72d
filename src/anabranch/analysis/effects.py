"""What a piece of code was found to do beyond computing a result from its arguments."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, Literal, NamedTuple

from anabranch.analysis.source import FunctionNode
from anabranch.analysis.values import NOTHING, Heap, Value


class Effect(NamedTuple):
    """Something that makes a function unsafe to run in parallel.

    `changes`: it changes an object that outlives the call. `impure`: it depends on, or
    touches, the world outside. `unknown`: it cannot be followed.
    """

    kind: Literal["changes", "impure", "unknown"]
    text: str
    file: str
    line: int


class Read(NamedTuple):
    """A name or attribute that outlives the call was read, and what it stood for.

    `scope` is where the name lives: the globals of a module, the function that encloses
    it, or None for an attribute.
    """

    name: str
    scope: Any
    target: Any
    file: str
    line: int


class Change(NamedTuple):
    """An object that exists already may be changed here; `name` for a global."""

    target: Any
    file: str
    line: int


@dataclass(eq=False)
class Frame:
    """The variables of one function, or comprehension, under analysis.

    Which statement ran last does not matter: a variable may be anything that was ever
    assigned to it. `function` is the object whose globals and cells are in scope.
    """

    node: ast.AST
    file: str
    function: FunctionType
    parent: Frame | None
    own: frozenset[str]  # the names that are local
    declared_global: frozenset[str] = frozenset()
    is_comprehension: bool = False
    variables: dict[str, Value] = field(default_factory=dict)
    returned: Value = NOTHING
    yielded: Value = NOTHING
    finished_at: int = -1


@dataclass
class Findings:
    """Everything that was found out about a function and what it calls."""

    effects: dict[Effect, None] = field(default_factory=dict)
    reads: dict[Any, Read] = field(default_factory=dict)
    changes: dict[int, Change] = field(default_factory=dict)
    touched: dict[int, Read] = field(default_factory=dict)
    visited: set[FunctionNode] = field(default_factory=set)
    heap: Heap = field(default_factory=Heap)

    def effect(
        self, kind: Literal["changes", "impure", "unknown"], text: str, at: Place
    ) -> None:
        """Record an effect."""
        self.effects.setdefault(Effect(kind, text, at.file, at.line))

    def change(self, target: Any, text: str, at: Place) -> None:
        """Record that an object which outlives the call is changed."""
        self.changes.setdefault(id(target), Change(target, at.file, at.line))
        self.effect("changes", text, at)

    def change_inside(self, target: int, text: str, at: Place) -> None:
        """Record that something in an object, known by its id, is changed."""
        self.changes.setdefault(target, Change(None, at.file, at.line))
        self.effect("changes", text, at)

    def touch(self, name: str, target: Any, at: Place) -> None:
        """Record that an object which outlives the call is looked at."""
        self.touched.setdefault(id(target), Read(name, None, target, at.file, at.line))

    def read(self, name: str, scope: Any, target: Any, at: Place) -> None:
        """Record that something which outlives the call is read."""
        self.touch(name, target, at)
        key = (name, id(scope[1] if isinstance(scope, tuple) else scope), id(target))
        self.reads.setdefault(key, Read(name, scope, target, at.file, at.line))


class Place(NamedTuple):
    """A line of the user's."""

    file: str
    line: int


def shown(node: ast.AST, limit: int = 40) -> str:
    """Return an expression as the user would recognise it.

    >>> shown(ast.parse("seen.append( x )").body[0])
    'seen.append(x)'
    """
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= limit else text[: limit - 3] + "..."
