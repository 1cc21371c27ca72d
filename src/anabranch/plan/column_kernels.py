"""Kernels over columns, as the plan has them: text to compile, and what it takes.

A kernel runs one operator on a batch of columns. Its text is that of a function which
returns how many items it has done: if not all, Python might have done something else
with the next one, and nothing that the kernel wrote counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

ColumnKind: TypeAlias = Literal["int", "float", "bool", "str", "none"]
ColumnRole: TypeAlias = Literal["map", "filter", "scan", "window"]

COLUMN_KINDS: tuple[ColumnKind, ...] = ("int", "float", "bool", "str", "none")


@dataclass(frozen=True)
class ColumnShape:
    """How a value lies in arrays: the kinds of a scalar, or a tuple of shapes.

    A scalar of several kinds has an array that tells which (an index into
    `COLUMN_KINDS`), and then one for each kind but None. `type` is that of a NamedTuple.
    """

    kinds: tuple[ColumnKind, ...] = ()
    type: Any = None
    parts: tuple[ColumnShape, ...] | None = None

    def scalars(self) -> Iterator[ColumnShape]:
        """Yield the scalars in it, in order."""
        if self.parts is None:
            yield self
        else:
            for part in self.parts:
                yield from part.scalars()

    @property
    def storage(self) -> tuple[str, ...]:
        """How the names of its variables end: nothing for one kind, `t` for the tag."""
        if len(self.kinds) == 1:
            return () if self.kinds == ("none",) else ("",)
        return ("t", *(kind[0] for kind in self.kinds if kind != "none"))

    @property
    def arrays(self) -> tuple[ColumnKind, ...]:
        """The kinds of its arrays; a tag is an int."""
        if len(self.kinds) == 1:
            return () if self.kinds == ("none",) else self.kinds
        return ("int", *(kind for kind in self.kinds if kind != "none"))


TableItems: TypeAlias = tuple[tuple[Any, Any], ...] | None


@dataclass(frozen=True)
class StringTable:
    """A function of one string: an expression in `s`, and the kind of what it gives.

    The expression may look into a dict of the program, `d`, whose items are `items`.

    >>> StringTable("d[s] + len(s)", "int", (("ab", 40),)).function()("ab")
    42
    """

    text: str
    gives: ColumnKind
    items: TableItems = None

    def function(self) -> Callable[[str], Any]:
        """Return the function itself."""
        names = {"d": None if self.items is None else dict(self.items)}
        made: Callable[[str], Any] = eval(f"lambda s: {self.text}", names)  # noqa: S307 - text of our own, of constants
        return made


@dataclass(frozen=True)
class ColumnKernel:
    """An operator as a function over columns.

    The items of its input have attributes of the kinds `takes`, of which the text needs
    those with the numbers `reads`. Attribute n of an output is the attribute
    `sources[n]` of its item, unchanged, or else computed by the kernel. `type` is the
    type of the outputs, None where they are items of the input.
    """

    operator: str
    role: ColumnRole
    takes: tuple[ColumnKind, ...]
    reads: tuple[int, ...]
    gives: tuple[ColumnKind, ...]
    sources: tuple[int | None, ...]
    type: Any
    text: str
    state: ColumnShape | None = None
    strings: tuple[str, ...] = ()
    tables: tuple[StringTable, ...] = ()
    size: int = 0


@dataclass(frozen=True)
class RunsAs:
    """How an operator runs, in columns or in Python, and why."""

    operator: str
    why: str
    kernel: ColumnKernel | None = None

    @property
    def runs(self) -> Literal["columns", "python"]:
        """The word for it."""
        return "python" if self.kernel is None else "columns"
