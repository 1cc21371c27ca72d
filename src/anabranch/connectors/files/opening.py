"""The start of a file: its columns, and the offset of its first row.

Given these, any split of the file can be parsed on its own, by a process that has not
seen the rest: `row_parser(kind, opening.columns, path).parse(bytes, position, ...)`.
"""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass

from anabranch.connectors.files.csv import CsvParser, header_of
from anabranch.connectors.files.input_files import (
    is_compressed,
    open_file,
    read_pieces,
    why_no_file,
)
from anabranch.connectors.files.jsonl import JsonParser
from anabranch.connectors.files.rows import RowParser, TextParser, Unreadable
from anabranch.connectors.files.splits import layout_of, pieces
from anabranch.connectors.storage import Location
from anabranch.errors import InputError
from anabranch.operators.sources import ReadFiles

_FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Opening:
    """The columns of a header (None: there is none), and where the rows begin."""

    columns: tuple[str, ...] | None = None
    offset: int = 0
    line: int = 1


def opening_of(kind: ReadFiles, path: Location) -> Opening:
    """Return the start of a file; `offset` counts raw bytes of the file."""
    with open_file(path) as file:
        mark = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        if not is_compressed(path):  # its beginning has come from a store by now
            file.seek(0)
            head = next(pieces(file, layout_of(kind), _FIRST_BYTES), b"")
    if is_compressed(path):
        head = next(read_pieces(path, layout_of(kind), _FIRST_BYTES), b"")
    begun = opening_in(kind, path, head)
    return Opening(begun.columns, begun.offset + mark, begun.line)


def opening_in(kind: ReadFiles, path: Location, head: bytes) -> Opening:
    """Return the start of a file whose first piece, without a byte order mark, is
    `head`.

    Every engine calls this before it reads a row, so all refuse the same headers.
    """
    opening = _opening_in(kind, path, head)
    row_parser(kind, opening.columns, path)
    return opening


def _opening_in(kind: ReadFiles, path: Location, head: bytes) -> Opening:
    if kind.format != "csv" or not kind.header:
        return Opening()
    try:
        header = header_of(head, kind.delimiter)
    except UnicodeDecodeError as error:
        msg = f"{path}: the header must be UTF-8; {error}; convert the file"
        raise InputError(msg) from None
    except Unreadable as error:
        msg = f"{path}: the header {error}; correct or convert the file"
        raise InputError(msg) from None
    if header is None:
        raise _describe_empty(path)
    return Opening(header.columns, header.end, 1 + header.lines)


def why_left_out(kind: ReadFiles, path: Location, files: int) -> InputError | None:
    """Return why a file is skipped if errors do not stop the job, or None.

    It is no file, or it is empty although its format needs a header; nothing is wrong
    with the others. A source with only an empty file always stops.
    """
    why = why_no_file(path)
    if (
        files > 1
        and why is None
        and kind.format == "csv"
        and kind.header
        and _is_empty(path)
    ):
        return _describe_empty(path)
    return why


def _is_empty(path: Location) -> bool:
    """Tell whether a file is empty; one that cannot be read is not."""
    try:
        with open_file(path) as file:
            return not file.read(1)
    except InputError:
        return False


def _describe_empty(path: Location) -> InputError:
    return InputError(
        f"{path} must begin with a header; it is empty; remove the file, or say "
        f"header=False if its columns have no names"
    )


def row_parser(
    kind: ReadFiles, columns: tuple[str, ...] | None, path: Location
) -> RowParser:
    """Return the parser of a file's rows; missing columns are refused here."""
    match kind.format:
        case "csv":
            return CsvParser(kind.type, columns, kind.delimiter, str(path))
        case "jsonl":
            return JsonParser(kind.type, str(path))
        case "text":
            return TextParser()
    msg = f"{kind.format} is not read row by row"
    raise ValueError(msg)
