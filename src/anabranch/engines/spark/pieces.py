"""Reads a piece of a source in the task that needs it: Arrow first, by rows if not.

Whatever Arrow refuses is read again by the parsers of `runtime.reading`, which say
exactly what is wrong, and where.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.engines.spark.dataframes import SpooledPiece, read_spooled
from anabranch.engines.spark.generated import GeneratedPiece, read_generated
from anabranch.engines.spark.intake import (
    FilePiece,
    ParquetPiece,
    Piece,
    ShippedPiece,
)
from anabranch.engines.spark.listed import ListedPiece, read_listed
from anabranch.engines.spark.live import KafkaPiece, LinesPiece
from anabranch.engines.spark.pickling import Pickler
from anabranch.engines.spark.wire import Batch
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.sources import Kafka, ReadFiles, Socket
from anabranch.runtime.columns import Form, form_of
from anabranch.runtime.failures import OnError
from anabranch.runtime.reading.arrow_csv import csv_table
from anabranch.runtime.reading.follow import damage_of
from anabranch.runtime.reading.kafka import Topic, read_messages
from anabranch.runtime.reading.opening import row_parser
from anabranch.runtime.reading.parquet import parse_parquet_rows, parse_table
from anabranch.runtime.reading.ranges import read_range
from anabranch.runtime.reading.reader import refusal, refusal_at
from anabranch.runtime.reading.rows import BadRow, Position
from anabranch.runtime.reading.rowtext import RowText
from anabranch.runtime.reading.values import made_plainly


def read_piece(piece: Piece, op: Op, pickler: Pickler, on_error: OnError) -> Batch:  # noqa: PLR0911 - one return for each kind of piece
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
        case ListedPiece():
            return _in_a_row(piece, read_listed(piece, pickler), form)
        case GeneratedPiece():
            return _in_a_row(piece, read_generated(piece, op), form)
        case FilePiece():
            return _read_text(piece, op, form, on_error)
        case ParquetPiece():
            return _read_parquet(piece, op, form, on_error)
        case LinesPiece():
            return _batch(_lines(piece, op, on_error), form)
        case KafkaPiece():
            topic, text = _topic(op)
            found = read_messages(piece.range, piece.first, topic, text, on_error)
            return _batch(found, form)
        case SpooledPiece():
            return _read_frame(piece, op, form, on_error)
    msg = f"no reader for {piece!r}"
    raise TypeError(msg)


def _in_a_row(piece: Piece, items: list[Any], form: Form | None) -> Batch:
    numbers = np.arange(piece.first, piece.first + len(items))
    return Batch([numbers], form, None, items)


def _read_text(piece: FilePiece, op: Op, form: Form | None, on_error: OnError) -> Batch:
    kind = op.kind
    assert isinstance(kind, ReadFiles)  # noqa: S101
    try:
        data = _bytes_of(piece)
    except InputError as error:
        if not kind.follow:
            raise
        on_error(damage_of(op, Path(piece.path), error))
        return _batch([], form)
    # A constructor of the user's may refuse a row, and only the parser of rows tells.
    if kind.format == "csv" and form is not None and made_plainly(kind.type):
        table = csv_table(
            data, form, piece.rows, columns=piece.columns, delimiter=kind.delimiter
        )
        if table is not None:
            numbers = np.arange(piece.first, piece.first + table.num_rows)
            # As items would be laid out: the pieces of a source can be put together.
            same = pa.Table.from_arrays(table.columns, schema=form.schema)
            return Batch([numbers], form, same)
    parser = row_parser(kind, piece.columns, Path(piece.path))
    at = Position(piece.first, piece.line)
    return _batch(parser.parse(data, at, _refuse(piece, op, on_error)), form)


def _batch(found: Iterable[tuple[Any, int]], form: Form | None) -> Batch:
    rows = list(found)
    numbers = np.array([number for _, number in rows], np.int64)
    return Batch([numbers], form, None, [item for item, _ in rows])


def _bytes_of(piece: FilePiece) -> bytes:
    data = read_range(Path(piece.path), piece.start, piece.end - piece.start)
    if len(data) < piece.end - piece.start:
        msg = (
            f"{piece.path} must not change while it is read; it had at least "
            f"{piece.end} bytes and has {piece.start + len(data)} now; "
            f"put it back and run the job again"
        )
        raise InputError(msg)
    return data


def _read_parquet(
    piece: ParquetPiece, op: Op, form: Form | None, on_error: OnError
) -> Batch:
    assert isinstance(op.kind, ReadFiles)  # noqa: S101
    rows = range(piece.start, piece.start + piece.rows)
    refuse = _refuse(piece, op, on_error)
    kind = op.kind.type
    parsed = parse_parquet_rows(Path(piece.path), rows, kind, piece.first, refuse)
    return _batch(parsed, form)


def _lines(piece: LinesPiece, op: Op, on_error: OnError) -> Iterator[tuple[Any, int]]:
    assert isinstance(op.kind, Socket)  # noqa: S101
    place = f"{op.kind.host}:{op.kind.port}"

    def refuse(bad: BadRow) -> None:
        where = f"line {bad.at.row} from {place}"
        on_error(refusal_at(op, where, bad, "correct what is sent"))

    return RowText(op.kind, place).parse(piece.data, piece.first, refuse)


_topics: dict[tuple[Any, ...], tuple[Topic, RowText]] = {}  # connections are kept


def _topic(op: Op) -> tuple[Topic, RowText]:
    """Return this process's connection to a topic."""
    kind = op.kind
    assert isinstance(kind, Kafka)  # noqa: S101
    key = op.name, kind.servers, kind.topic, kind.format, kind.type, kind.options
    if key not in _topics:
        for topic, _ in _topics.values():
            topic.close()
        _topics.clear()
        _topics[key] = Topic(op), RowText(kind, f"topic {kind.topic}")
    return _topics[key]


def _read_frame(
    piece: SpooledPiece, op: Op, form: Form | None, on_error: OnError
) -> Batch:
    table = read_spooled(piece)
    fast = None if form is None else _as_form(table, form)
    if fast is not None:
        numbers = np.arange(piece.first, piece.first + piece.rows)
        return Batch([numbers], form, fast)

    def refuse(bad: BadRow) -> None:
        where = f"row {bad.at.row} of {op.name}"
        on_error(refusal_at(op, where, bad, "correct the DataFrame"))

    return _batch(parse_table(table, op.name, op.type, piece.first, refuse), form)


def _as_form(table: pa.Table, form: Form) -> pa.Table | None:
    """Return the columns of a form, if nothing has to be refused for it."""
    if not set(form.names) <= set(table.column_names):
        return None
    chosen = table.select(list(form.names))
    for column, optional in zip(chosen.columns, form.optional, strict=True):
        if column.null_count and not optional:
            return None
    widened = all(
        field.type == wanted.type or (field.type, wanted.type) in _WIDER
        for field, wanted in zip(chosen.schema, form.schema, strict=True)
    )
    return chosen.cast(form.schema) if widened else None


_WIDER = {
    *((narrow, pa.int64()) for narrow in (pa.int8(), pa.int16(), pa.int32())),
    (pa.float32(), pa.float64()),
}


def _refuse(
    piece: FilePiece | ParquetPiece, op: Op, on_error: OnError
) -> Callable[[BadRow], None]:
    row = piece.row if isinstance(piece, FilePiece) else piece.start + 1

    def refuse(bad: BadRow) -> None:
        place = bad.at.row - piece.first + row
        on_error(refusal(op, piece.path, place, bad))

    return refuse
