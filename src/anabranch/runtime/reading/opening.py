"""How a file begins: its columns, and where its first row is.

With that known, any split of the file can be parsed on its own, by a process that has
not seen the rest: `row_parser(kind, opening.columns, path).parse(bytes, position, ...)`.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass
from pathlib import Path

from anabranch.errors import InputError
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.reading.csv import CsvParser, header_of
from anabranch.runtime.reading.files import opened, read_pieces
from anabranch.runtime.reading.jsonl import JsonParser
from anabranch.runtime.reading.rows import RowParser
from anabranch.runtime.reading.splits import layout_of
from anabranch.runtime.reading.text import TextParser


@dataclass(frozen=True)
class Opening:
    """The columns of a header (None: there is none), and where the rows begin."""

    columns: tuple[str, ...] | None = None
    offset: int = 0
    line: int = 1


def opening_of(kind: ReadFiles, path: Path) -> Opening:
    """Return how a file begins; `offset` counts the bytes of the file as it lies."""
    with opened(path) as file:
        mark = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
    head = next(read_pieces(path, layout_of(kind), 1 << 16), b"")
    begun = opening_in(kind, path, head)
    return Opening(begun.columns, begun.offset + mark, begun.line)


def opening_in(kind: ReadFiles, path: Path, head: bytes) -> Opening:
    """Return how a file begins whose first piece, without a mark, is `head`."""
    if kind.format != "csv" or not kind.header:
        return Opening()
    try:
        header = header_of(head, kind.delimiter)
    except UnicodeDecodeError as error:
        msg = f"{path}: the header must be UTF-8; {error}; convert the file"
        raise InputError(msg) from None
    if header is None:
        msg = (
            f"{path} must begin with a header; it is empty; remove the file, or say "
            f"header=False if its columns have no names"
        )
        raise InputError(msg)
    return Opening(header.columns, header.end, 1 + header.lines)


def row_parser(
    kind: ReadFiles, columns: tuple[str, ...] | None, path: Path
) -> RowParser:
    """Return the parser of the rows of a file; missing columns are refused here."""
    match kind.format:
        case "csv":
            return CsvParser(kind.type, columns, kind.delimiter, str(path))
        case "jsonl":
            return JsonParser(kind.type, str(path))
        case "text":
            return TextParser()
    msg = f"{kind.format} is not read row by row"
    raise ValueError(msg)
