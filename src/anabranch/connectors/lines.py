"""Items as lines of text, for systems that carry text: sockets, topics.

Lines are parsed by the file parsers; only their locations are named differently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from anabranch.connectors.base import Malformed
from anabranch.connectors.files.columns import RowValues, columns_of
from anabranch.connectors.files.csv import cells, encode_rows
from anabranch.connectors.files.jsonl import encode_lines, json_line
from anabranch.connectors.files.opening import row_parser
from anabranch.connectors.files.rows import BadRow, Position, Unreadable
from anabranch.connectors.files.splits import layout_of
from anabranch.errors import OutputError
from anabranch.operators.sources import ReadFiles, RowFormat

Where = Callable[[int], str]  # the location of a row, in words, by its index


class LineDecoder:
    r"""Decodes rows into items.

    A foreign row, such as a message, may contain anything: it must be exactly one row
    of the format. With `whole`, rows are known to be one each.

    >>> decoder = LineDecoder("jsonl", int, place="here")
    >>> decoder.decode([b"1", b"x"], "line {}".format)[0]
    1
    """

    def __init__(
        self,
        format: RowFormat,  # noqa: A002
        type: Any,
        delimiter: str = ",",
        *,
        place: str,
    ) -> None:
        """Prepare for rows of a type; `place` names their origin in errors."""
        kind = ReadFiles(place, format, type, header=False, delimiter=delimiter)
        self.layout = layout_of(kind)
        self._blank_rows = format == "text"
        self._joins = format != "csv"
        self._parser = row_parser(kind, None, Path(place))

    def decode(
        self, rows: Sequence[bytes | None], where: Where, *, whole: bool = False
    ) -> list[Any]:
        """Return the item of each row, or a `Malformed` for a bad one."""
        items: list[Any] = [None] * len(rows)
        plain = [row for row in rows if row is not None and (whole or b"\n" not in row)]
        together = whole or (self._joins and (self._blank_rows or all(plain)))
        if together and len(plain) == len(rows):
            ends = b"" if whole else b"\n"
            found = self._parse(ends.join(plain) + ends)
        else:
            found = ((self._parse_one(row), index) for index, row in enumerate(rows))
        for item, index in found:
            items[index] = (
                Malformed(item.raw, item.error, where(index), "correct what is sent")
                if isinstance(item, BadRow)
                else item
            )
        return items

    def _parse(self, data: bytes) -> Iterator[tuple[Any, int]]:
        """Yield items and bad rows, each with its index."""
        bad: list[BadRow] = []
        yield from self._parser.parse(data, Position(0, 0), bad.append)
        for one in bad:
            yield one, one.at.row

    def _parse_one(self, row: bytes | None) -> Any:
        at = Position(0, 0)
        if row is None or not (row or self._blank_rows):
            return BadRow(at, row, Unreadable("must have a value; it is empty"))
        if self._joins:  # within JSON a newline is white space
            row = row.replace(b"\n", b" ")
        found = list(self._parse(row))
        if len(found) == 1:
            return found[0][0]
        return BadRow(at, row, Unreadable(f"must be one row; it is {len(found)}"))


class Lines(Protocol):
    """A source of which a row is a line of text, in a format that files have too."""

    format: Any
    type: Any  # of an item
    delimiter: str


_decoders: WeakKeyDictionary[Lines, LineDecoder] = WeakKeyDictionary()


def decoder_of(source: Lines, place: str) -> LineDecoder:
    """Return the decoder of a source, made once per process."""
    if source not in _decoders:
        _decoders[source] = LineDecoder(
            source.format, source.type, source.delimiter, place=place
        )
    return _decoders[source]


class LineEncoder:
    """Encodes items as lines, without line ends.

    >>> LineEncoder("jsonl", None).encode(("a", 1))
    b'["a", 1]'
    """

    def __init__(self, format: str, item_type: Any) -> None:  # noqa: A002
        self._format = format
        self._rows = RowValues(columns_of(item_type))

    def encode(self, item: Any) -> bytes:
        """Return the line of an item; raise `OutputError` if it has none."""
        match self._format:
            case "jsonl":
                return encode_lines([json_line(item)]).removesuffix(b"\n")
            case "csv":
                values = self._rows.values(item)
                assert self._rows.names is not None  # noqa: S101 - now there is an item
                return encode_rows([cells(values, self._rows.names)]).removesuffix(
                    b"\n"
                )
        if isinstance(item, bytes):
            return item
        if not isinstance(item, str):
            msg = f"an item must be a str or bytes to be sent as text; got {item!r}"
            raise OutputError(msg)
        return item.encode()

    def encode_all(
        self, items: Sequence[Any]
    ) -> tuple[list[tuple[Any, bytes]], list[Malformed]]:
        """Return the items that can be written, each with its line, and the others."""
        found, refused = [], []
        for item in items:
            try:
                found.append((item, self.encode(item)))
            except (OutputError, UnicodeEncodeError) as error:
                refused.append(Malformed(item, error))
        return found, refused
