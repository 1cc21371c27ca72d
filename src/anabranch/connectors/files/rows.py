r"""Numbered rows, some of them bad: the base of the row formats, and plain text.

In the format `text` every line is an item, blank ones too. Lines end with ``
`` or ``\r
``, which is not part of the item. A line that is not UTF-8 is bad.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias


class Position(NamedTuple):
    """The next row: its number in the source, and its line in the file."""

    row: int
    line: int


class Unreadable(Exception):  # noqa: N818 - never leaves the package
    """The fault of a row, as a phrase that follows its location."""


@dataclass(frozen=True)
class BadRow:
    """An unreadable row: its location, its content and its fault."""

    at: Position
    raw: Any
    error: Exception

    @property
    def text(self) -> str:
        """The fault, as a phrase that follows the location of the row."""
        if isinstance(self.error, Unreadable):
            return str(self.error)
        return f"cannot be read: {type(self.error).__name__}: {self.error}"


Refuse: TypeAlias = Callable[[BadRow], None]  # returns to continue without the row
Numbered: TypeAlias = Generator[
    tuple[Any, int], None, Position
]  # items with row numbers


class RowParser(ABC):
    """Parses pieces of a file, each consisting of whole rows."""

    def parse(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        """Yield the items of the rows that begin at `at`; return the next position."""
        items = self.at_once(data)
        if items is None:
            return (yield from self.one_by_one(data, at, refuse))
        yield from zip(items, range(at.row, at.row + len(items)), strict=True)
        return behind(data, at, len(items))

    @abstractmethod
    def at_once(self, data: bytes) -> list[Any] | None:
        """Return the items of all rows; None if one of them is bad."""

    @abstractmethod
    def one_by_one(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        """Do the same as `parse`, row by row: to find bad rows and lose nothing
        else.
        """


def behind(data: bytes, at: Position, rows: int) -> Position:
    r"""Return the position after some rows.

    >>> behind(b"one\n\ntwo\n", Position(row=7, line=9), 2)
    Position(row=9, line=12)
    """
    return Position(at.row + rows, at.line + data.count(b"\n"))


def lines_of(data: bytes) -> list[bytes]:
    r"""Return lines without their line ends.

    >>> lines_of(b"one\r\n\ntwo")
    [b'one', b'', b'two']
    """
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if b"\r" in data:
        lines = [line.removesuffix(b"\r") for line in lines]
    return lines


class TextParser(RowParser):
    r"""Parses lines into strings.

    >>> list(TextParser().parse(b"one\r\n\ntwo", Position(1, 1), print))
    [('one', 1), ('', 2), ('two', 3)]
    """

    def at_once(self, data: bytes) -> list[Any] | None:
        try:
            return [line.decode() for line in lines_of(data)]
        except UnicodeDecodeError:
            return None

    def one_by_one(self, data: bytes, at: Position, refuse: Refuse) -> Numbered:
        number = at.row
        for raw in lines_of(data):
            try:
                line = raw.decode()
            except UnicodeDecodeError:
                place = Position(number, at.line + number - at.row)
                refuse(BadRow(place, raw, Unreadable(f"must be UTF-8; got {raw!r}")))
            else:
                yield line, number
            number += 1
        return behind(data, at, number - at.row)
