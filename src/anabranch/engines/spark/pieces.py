"""Reads a piece of a source in the task that needs it: Arrow first, by rows if not.

Arrow reads whole columns fast, but knows nothing of row numbers and has its own idea
of what a number looks like. Whatever it refuses is read again by the parsers of
`runtime.reading`, which say exactly what is wrong, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from anabranch.engines.spark.intake import (
    FilePiece,
    ParquetPiece,
    Piece,
    ShippedPiece,
)
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.wire import Batch
from anabranch.graph.graph import Op
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.columns import ARROW, Form, form_of
from anabranch.runtime.failures import OnError
from anabranch.runtime.reading.opening import row_parser
from anabranch.runtime.reading.parquet import parse_parquet_rows
from anabranch.runtime.reading.reader import refusal
from anabranch.runtime.reading.rows import BadRow, Position


def read_piece(piece: Piece, op: Op, pickler: Pickler, on_error: OnError) -> Batch:
    """Return the rows of a piece; the first number of their positions is the row's."""
    form = form_of(op.type) if op.type is not None else None
    match piece:
        case ShippedPiece():
            items = list(pickler.loads(piece.items))
            numbers = (
                np.arange(piece.first, piece.first + len(items))
                if piece.numbers is None
                else np.frombuffer(piece.numbers, np.int64)
            )
            return Batch([numbers], form, None, items)
        case FilePiece():
            return _read_text(piece, op, form, on_error)
        case ParquetPiece():
            return _read_parquet(piece, op, form, on_error)
    msg = f"no reader for {piece!r}"
    raise TypeError(msg)


def _read_text(piece: FilePiece, op: Op, form: Form | None, on_error: OnError) -> Batch:
    kind = op.kind
    assert isinstance(kind, ReadFiles)  # noqa: S101
    with Path(piece.path).open("rb") as file:
        file.seek(piece.start)
        data = file.read(piece.end - piece.start)
    if kind.format == "csv" and form is not None:
        table = _csv_table(data, kind, form, piece)
        if table is not None:
            numbers = np.arange(piece.first, piece.first + table.num_rows)
            return Batch([numbers], form, table)
    parser = row_parser(kind, piece.columns, Path(piece.path))
    at = Position(piece.first, piece.line)
    found = list(parser.parse(data, at, _refuse(piece, op, on_error)))
    numbers = np.array([number for _, number in found], np.int64)
    return Batch([numbers], form, None, [item for item, _ in found])


def _csv_table(
    data: bytes, kind: ReadFiles, form: Form, piece: FilePiece
) -> pa.Table | None:
    """Return what Arrow reads, if it is sure to be what the row parser would read."""
    plain = not any(form.optional) and not {bool, bytes}.intersection(form.types)
    if not plain or b"\r" in data or b'"' in data:
        return None
    table = _arrow_csv(data, kind, form, piece, ARROW)
    if table is None or table.num_rows != piece.rows:
        return None
    if any(byte in data for byte in _LENIENT):  # perhaps only within strings
        texts = _arrow_csv(data, kind, form, piece, dict.fromkeys(ARROW, pa.string()))
        numbers = [
            name
            for name, kind in zip(form.names, form.types, strict=True)
            if kind is not str
        ]
        if texts is None or any(_lenient(texts.column(name)) for name in numbers):
            return None
    return table


# Arrow takes hexadecimal numbers and blanks around a number; the row parser does not.
_LENIENT = (b" ", b"\t", b"\v", b"\f", b"x", b"X")


def _lenient(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, r"[\sxX]")).as_py())


def _arrow_csv(
    data: bytes,
    kind: ReadFiles,
    form: Form,
    piece: FilePiece,
    types: Mapping[type, pa.DataType],
) -> pa.Table | None:
    read = pyarrow.csv.ReadOptions(
        column_names=list(piece.columns or form.names),
        use_threads=False,
        block_size=max(1, len(data)),
    )
    parse = pyarrow.csv.ParseOptions(delimiter=kind.delimiter, quote_char=False)
    attributes = zip(form.names, form.types, strict=True)
    convert = pyarrow.csv.ConvertOptions(
        column_types={name: types[attribute] for name, attribute in attributes},
        include_columns=list(form.names),
        null_values=[],
        strings_can_be_null=False,
    )
    try:
        return pyarrow.csv.read_csv(pa.BufferReader(data), read, parse, convert)
    except pa.ArrowException:
        return None


def _read_parquet(
    piece: ParquetPiece, op: Op, form: Form | None, on_error: OnError
) -> Batch:
    assert isinstance(op.kind, ReadFiles)  # noqa: S101
    rows = range(piece.start, piece.start + piece.rows)
    refuse = _refuse(piece, op, on_error)
    kind = op.kind.type
    parsed = parse_parquet_rows(Path(piece.path), rows, kind, piece.first, refuse)
    found = list(parsed)
    numbers = np.array([number for _, number in found], np.int64)
    return Batch([numbers], form, None, [item for item, _ in found])


def _refuse(
    piece: FilePiece | ParquetPiece, op: Op, on_error: OnError
) -> Callable[[BadRow], None]:
    row = piece.row if isinstance(piece, FilePiece) else piece.start + 1

    def refuse(bad: BadRow) -> None:
        place = bad.at.row - piece.first + row
        on_error(refusal(op, piece.path, place, bad))

    return refuse
