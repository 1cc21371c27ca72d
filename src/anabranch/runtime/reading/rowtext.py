r"""Rows that come as text from elsewhere: lines of a socket, messages of a topic.

They are parsed by the parsers of files; only their places are named otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from anabranch.graph.sources import Kafka, ReadFiles, Socket
from anabranch.runtime.reading.opening import row_parser
from anabranch.runtime.reading.rows import (
    BadRow,
    Position,
    Refuse,
    RowParser,
    Unreadable,
)
from anabranch.runtime.reading.splits import Layout, layout_of


class RowText:
    r"""Parses the rows of a source that sends text.

    >>> kind = Socket("localhost", 9999, int, "jsonl")
    >>> list(RowText(kind, "here").parse(b"1\n2\n", 1, print))
    [(1, 1), (2, 2)]
    """

    def __init__(self, kind: Socket | Kafka, place: str) -> None:
        """Prepare for rows of a source; `place` names it in errors about its type."""
        same = ReadFiles(
            place, kind.format, kind.type, header=False, delimiter=kind.delimiter
        )
        self.layout: Layout = layout_of(same)
        self._blank_rows = kind.format == "text"
        self._joins = kind.format != "csv"
        self._parser: RowParser = row_parser(same, None, Path(place))

    def parse(
        self, data: bytes, first: int, refuse: Refuse
    ) -> Iterator[tuple[Any, int]]:
        """Give the items of whole rows, numbered from `first`."""
        yield from self._parser.parse(data, Position(first, first), refuse)

    def messages(
        self, values: Sequence[bytes | None], numbers: Sequence[int], refuse: Refuse
    ) -> list[tuple[Any, int]]:
        """Return the items of messages, each of which is one row."""
        plain = [value for value in values if value is not None and b"\n" not in value]
        if (
            self._joins
            and len(plain) == len(values)
            and (self._blank_rows or all(plain))
        ):
            places = []
            bad: list[BadRow] = []
            for item, index in self.parse(b"\n".join(plain) + b"\n", 0, bad.append):
                places.append((item, numbers[index]))
            for one in bad:
                at = Position(numbers[one.at.row], 1)
                refuse(BadRow(at, one.raw, one.error))
            return places
        found: list[tuple[Any, int]] = []
        for value, number in zip(values, numbers, strict=True):
            found += self._message(value, number, refuse)
        return found

    def _message(
        self, value: bytes | None, number: int, refuse: Refuse
    ) -> list[tuple[Any, int]]:
        if value is None or not (value or self._blank_rows):
            empty = Unreadable("must have a value; it is empty")
            refuse(BadRow(Position(number, 1), value, empty))
            return []
        if self._joins:  # within JSON a newline is white space
            value = value.replace(b"\n", b" ")
        bad: list[BadRow] = []
        found = list(self.parse(value, number, bad.append))
        if len(found) + len(bad) == 1:
            for one in bad:
                refuse(one)
            return found
        several = Unreadable(f"must be one row; it is {len(found) + len(bad)}")
        refuse(BadRow(Position(number, 1), value, several))
        return []
