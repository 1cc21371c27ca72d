"""The inputs of a unit in a task: pieces of sources, and batches of other units.

A piece is read by the task that needs it: through Arrow first, and row by row if Arrow
refuses it, by the file parsers, which report exactly what is wrong, and where.

The rows of a user's DataFrame were written as Arrow files by the tasks of its
micro-batch; they are read like those of any file, by number.

The parts of a cut unit hand over at once. The engine buffers: a worker writes through a
buffer, and the rows for the next worker are collected into large batches. Either would
make the next part wait until the one before has ended. So each chunk is followed by a row
that fills the buffer, which nobody reads, and at a cut, rows go in batches of one. Each
is a chunk of items, so there are few.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.arrow_items import CODES, Form, form_of
from anabranch.connectors.files.columnar_csv import BEHIND, ColumnReader
from anabranch.connectors.files.csv import csv_table
from anabranch.connectors.files.input_files import describe_cut_off, read_range
from anabranch.connectors.files.opening import row_parser
from anabranch.connectors.files.parquet import (
    parse_parquet_rows,
    parse_table,
    read_parquet_table,
)
from anabranch.connectors.files.rows import BadRow, Position
from anabranch.connectors.files.splits import layout_of
from anabranch.connectors.files.survey import survey_file
from anabranch.connectors.files.values import is_made_plainly
from anabranch.connectors.reader import births_of_items, damage_of, refusal, refusal_at
from anabranch.connectors.storage import Location, Status, locate
from anabranch.epochs.intake.connectors import (
    RangePiece,
    ReadRows,
    RowsPiece,
    SourcePiece,
    read_offsets,
    read_partition,
    read_shipped,
)
from anabranch.epochs.intake.intake import (
    FilePiece,
    ParquetPiece,
    Piece,
    Reached,
    ShippedPiece,
    Surveyed,
    SurveyPiece,
)
from anabranch.epochs.intake.items import (
    GeneratedPiece,
    ListedPiece,
    read_generated,
    read_listed,
)
from anabranch.epochs.layout import Unit
from anabranch.epochs.task import EpochTask, Share, WorkerJob
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.unit.egress import Exits
from anabranch.epochs.wire import WireBatch, decode, in_order, interleave
from anabranch.errors import InputError
from anabranch.graph.graph import Edge, Op
from anabranch.operators.sources import ReadFiles
from anabranch.runtime.births import Births, births_of, since_1970
from anabranch.runtime.codegen import Entry
from anabranch.runtime.element import Pace
from anabranch.runtime.failures import Failure, OnError


@dataclass(frozen=True)
class SpooledPiece(Piece):
    """`rows` rows of an Arrow file, starting at `start`."""

    path: str
    start: int


def read_spooled(piece: SpooledPiece) -> pa.Table:
    """Return the rows of a piece."""
    try:
        path = locate(piece.path)
        mapped = isinstance(path, Path)  # a store is read
        with (
            pa.memory_map(piece.path) if mapped else path.open() as file,
            pa.ipc.open_file(file) as opened,
        ):
            return opened.read_all().slice(piece.start, piece.rows)
    except OSError as error:
        msg = (
            f"the rows of a DataFrame must be readable where they are needed; "
            f"{piece.path}: {error}; on a cluster, give the job a checkpoint in a "
            f"directory that all hosts share"
        )
        raise InputError(msg) from error


def read_piece(piece: Piece, op: Op, pickler: Pickler, on_error: OnError) -> WireBatch:  # noqa: PLR0911 - one return for each kind of piece
    """Return the rows of a piece; their positions begin with the row number."""
    form = form_of(op.type) if op.type is not None else None
    match piece:
        case RowsPiece():
            return _as_batch(read_shipped(piece, op, pickler, on_error, form), form)
        case ShippedPiece():
            return _in_a_row(piece, list(pickler.loads(piece.items)), form)
        case ListedPiece():
            return _in_a_row(piece, read_listed(piece, pickler), form)
        case GeneratedPiece():
            return _in_a_row(piece, read_generated(piece, op), form)
        case FilePiece():
            return _read_text(piece, op, form, on_error)
        case ParquetPiece():
            return _read_parquet(piece, op, form, on_error)
        case SpooledPiece():
            return _read_frame(piece, op, form, on_error)
    msg = f"no reader for {piece!r}"
    raise TypeError(msg)


def _in_a_row(piece: Piece, items: list[Any], form: Form | None) -> WireBatch:
    numbers = np.arange(piece.first, piece.first + len(items))
    return WireBatch([numbers], form, None, items)


def _read_text(
    piece: FilePiece, op: Op, form: Form | None, on_error: OnError
) -> WireBatch:
    kind = op.kind
    assert isinstance(kind, ReadFiles)  # noqa: S101
    try:
        data = _bytes_of(piece)
    except InputError as error:
        if not kind.follow:
            raise
        on_error(damage_of(op, locate(piece.path), error))
        return make_batch([], form)
    # A user's constructor may refuse a row, and only the row parser can report it.
    if kind.format == "csv" and form is not None and is_made_plainly(kind.type):
        reader = ColumnReader(form, piece.columns, kind.delimiter)
        table = reader.read(data + bytes(BEHIND), len(data), piece.rows)
        if table is None or table.num_rows != piece.rows:
            table = csv_table(
                data, form, piece.rows, columns=piece.columns, delimiter=kind.delimiter
            )
            if table is not None:
                # As items would be: the pieces of a source can be concatenated.
                table = pa.Table.from_arrays(table.columns, schema=form.schema)
        if table is not None:
            numbers = np.arange(piece.first, piece.first + table.num_rows)
            return WireBatch([numbers], form, table)
    parser = row_parser(kind, piece.columns, locate(piece.path))
    at = Position(piece.first, piece.line)
    return make_batch(parser.parse(data, at, _refuse(piece, op, on_error)), form)


def _as_batch(read: ReadRows, form: Form | None) -> WireBatch:
    if read.table is not None and read.numbers is not None:
        return WireBatch([read.numbers], form, read.table)
    return make_batch(read.items, form)


def make_batch(found: Iterable[tuple[Any, int]], form: Form | None) -> WireBatch:
    """Return items with their numbers as a batch."""
    rows = list(found)
    numbers = np.array([number for _, number in rows], np.int64)
    return WireBatch([numbers], form, None, [item for item, _ in rows])


def _bytes_of(piece: FilePiece) -> bytes:
    data = read_range(locate(piece.path), piece.start, piece.end - piece.start)
    if len(data) < piece.end - piece.start:
        raise describe_cut_off(piece.path, piece.end, piece.start + len(data))
    return data


def _read_parquet(
    piece: ParquetPiece, op: Op, form: Form | None, on_error: OnError
) -> WireBatch:
    assert isinstance(op.kind, ReadFiles)  # noqa: S101
    rows = range(piece.start, piece.start + piece.rows)
    refuse = _refuse(piece, op, on_error)
    kind = op.kind.type
    path, follow = locate(piece.path), op.kind.follow
    known = piece.known
    fast = None if form is None else _parquet_as_form(path, rows, kind, form, known)
    if fast is not None:
        numbers = np.arange(piece.first, piece.first + fast.num_rows)
        return WireBatch([numbers], form, fast)
    parsed = parse_parquet_rows(path, rows, kind, piece.first, refuse, known=known)
    found: list[tuple[Any, int]] = []
    try:
        found.extend(parsed)  # up to the damage, if there is one
    except InputError as error:
        if not follow:
            raise
        on_error(damage_of(op, path, error))
    return make_batch(found, form)


def _parquet_as_form(
    path: Location, rows: range, kind: Any, form: Form, known: Status | None
) -> pa.Table | None:
    """Return rows of a file as a table, if no row has to be checked."""
    if not is_made_plainly(kind):
        return None  # a user's constructor may refuse a row
    try:
        table = read_parquet_table(path, rows, kind, known)
    except (InputError, ValueError):  # because it is empty, for example
        return None  # the row parser reports what is wrong
    return _as_form(table, form) if table.num_rows == len(rows) else None


def _read_frame(
    piece: SpooledPiece, op: Op, form: Form | None, on_error: OnError
) -> WireBatch:
    table = read_spooled(piece)
    fast = None if form is None else _as_form(table, form)
    if fast is not None:
        numbers = np.arange(piece.first, piece.first + piece.rows)
        return WireBatch([numbers], form, fast)

    def refuse(bad: BadRow) -> None:
        where = f"row {bad.at.row} of {op.name}"
        on_error(refusal_at(op, where, bad, "correct the DataFrame"))

    return make_batch(parse_table(table, op.name, op.type, piece.first, refuse), form)


def _as_form(table: pa.Table, form: Form) -> pa.Table | None:
    """Return the columns of a form, if nothing has to be refused for it."""
    if not set(form.names) <= set(table.column_names):
        return None
    chosen = table.select(list(form.names))
    for column, optional in zip(chosen.columns, form.optional, strict=True):
        if column.null_count and not optional:
            return None
    fields = []
    for field, wanted in zip(chosen.schema, form.schema, strict=True):
        coded = (field.type, wanted.type) == (CODES, pa.string())
        same = coded or field.type == wanted.type
        if not same and (field.type, wanted.type) not in _WIDER:
            return None
        fields.append(wanted.with_type(field.type) if coded else wanted)
    return chosen.cast(pa.schema(fields))


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


class UnitInputs:
    """Reads the input of a unit: pieces of sources, and blobs from other tasks."""

    def __init__(
        self, job: WorkerJob, unit: Unit, exits: Exits, on_error: OnError
    ) -> None:
        self._pickler = job.pickler
        self._unit = unit
        self._layout = job.spec.layout
        self._exits = exits
        self._on_error = on_error
        self.reached: dict[str, list[tuple[str, Reached]]] = {}  # of the last streams
        self.births: dict[str, Births] = {}  # the same, since 1970
        self.surveyed: dict[str, list[Surveyed]] = {}  # the same, by source

    def streams(
        self, task: EpochTask, share: Share, received: list[list[pa.Buffer]]
    ) -> tuple[dict[str, int], list[WireBatch]]:
        """Return the input, one batch per entry, and the items of each source."""
        graph, pickler = self._layout.graph, self._pickler
        several = len(graph.sources) > 1
        order = {op.name: index for index, op in enumerate(graph.sources)}
        read: dict[str, int] = {}
        self.reached, self.births, self.surveyed = {}, {}, {}
        streams = []
        for entry, blobs in zip(self._unit.entries, received, strict=True):
            if isinstance(entry, Edge):
                form = self._exits.form(entry.producer.operator)
                batches = [decode(blob, form, pickler) for blob in blobs]
            else:
                pieces = [piece for piece in share.pieces if piece.source == entry]
                end = task.end_of(order[entry])
                batches = self._read(graph[entry], pieces, order[entry], end)
                for batch in batches:
                    if several:
                        batch.positions.append(np.full(len(batch), order[entry]))
                read[entry] = sum(map(len, batches))
            streams.append(in_order(batches))
        return read, streams

    def _read(
        self, op: Op, pieces: list[Piece], source: int, end: float
    ) -> list[WireBatch]:
        """Read pieces of a source up to the row with the number `end`."""

        def on_error(failure: Failure) -> None:
            if failure.place is None or failure.place[0] < end:
                place = failure.place and (*failure.place, source)
                self._on_error(replace(failure, place=place))

        batches = []
        for piece in pieces:
            if isinstance(piece, SurveyPiece):
                self._survey(piece, op)
                continue
            batch = self._read_piece(piece.before(end), op, on_error)
            if len(batch) and batch.positions[0][-1] >= end:
                batch = batch.take(np.flatnonzero(batch.positions[0] < end))
            batches.append(batch)
        return batches

    def _survey(self, piece: SurveyPiece, op: Op) -> None:
        """Find the rows of later epochs; errors are reported by the task that reads them."""
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        span = piece.start, piece.end, piece.size
        with contextlib.suppress(InputError):
            blocks = survey_file(locate(piece.path), *span, layout_of(op.kind))
            found = Surveyed(piece.path, tuple(blocks))
            self.surveyed.setdefault(op.name, []).append(found)

    def _read_piece(self, piece: Piece, op: Op, on_error: OnError) -> WireBatch:
        form = None if op.type is None else form_of(op.type)
        match piece:
            case SourcePiece():
                read, reached = read_partition(piece, op, on_error, form)
                self.reached.setdefault(op.name, []).append((piece.partition, reached))
                return _as_batch(read, form)
            case RangePiece():
                read, births = read_offsets(piece, op, on_error, form)
                self._note_births(op, births)
                return _as_batch(read, form)
            case GeneratedPiece() | ListedPiece():
                batch = read_piece(piece, op, self._pickler, on_error)
                births = births_of_items(op, batch.items)
                self._note_births(op, None if births is None else since_1970(births))
                return batch
        return read_piece(piece, op, self._pickler, on_error)

    def _note_births(self, op: Op, births: Births | None) -> None:
        if births is not None:
            known = self.births.get(op.name, births)
            self.births[op.name] = births_of([*known, *births]) or births

    def along(
        self, entries: tuple[Edge, ...], given: Mapping[Edge, Sequence[pa.Buffer]]
    ) -> list[WireBatch]:
        """Return a chunk's output of earlier parts, one batch per stream."""
        streams = []
        for edge in entries:
            form = self._exits.form(edge.producer.operator)
            blobs = given.get(edge, ())
            batches = [decode(blob, form, self._pickler) for blob in blobs]
            streams.append(in_order(batches))
        return streams

    def read_chunks(
        self, streams: list[WireBatch], entries_of: tuple[Entry, ...] | None = None
    ) -> Iterator[Fed]:
        """Yield the input in chunks of items in order."""
        if not any(map(len, streams)):
            return
        if len(streams) == 1:
            for chunk in streams[0].chunks():
                yield chunk.items, [c.tolist() for c in chunk.positions], None
            return
        form = self._layout.positions
        width = max(
            form.on(entry) if isinstance(entry, Edge) else form.after[entry]
            for entry in entries_of or self._unit.entries
        )
        edges = entries_of or self._unit.entries
        producers = [e.producer.operator if isinstance(e, Edge) else e for e in edges]
        turns = {place for name in producers for place in form.turns[name]}
        items, columns, entries = interleave(streams, width, turns)
        yield items, [column.tolist() for column in columns], entries


MOST_ITEMS = 8192  # passed from part to part at a time
CHUNK_S = 0.02  # of the first part's work
FIRST_STEP, LARGEST_STEP = 16, 1 << 20  # items
STEP_S = 0.25


Fed: TypeAlias = tuple[list[Any], list[list[int]], list[int] | None]


def in_steps(fed: Iterator[Fed]) -> Iterator[Fed]:
    """Cut a program's input so that its progress is known from time to time."""
    pace = Pace(STEP_S, LARGEST_STEP)
    pace.limit = FIRST_STEP
    return _cut(fed, pace)


def in_chunks(fed: Iterator[Fed]) -> Iterator[Fed]:
    """Cut a program's input into chunks that are passed on one by one.

    The chunk size is what the first part processes in a moment: the consumer asks for
    the next chunk when it has processed the one before.

    >>> whole = [1, 2, 3], [[1, 2, 3]], None
    >>> parts = list(in_chunks(iter([whole])))
    >>> [item for items, _, _ in parts for item in items]
    [1, 2, 3]
    >>> parts[0]
    ([1], [[1]], None)
    """
    return _cut(fed, Pace(CHUNK_S, MOST_ITEMS))


def _cut(fed: Iterator[Fed], pace: Pace) -> Iterator[Fed]:
    for items, positions, entries in fed:
        start = 0
        while start < len(items):
            part = slice(start, start + pace.limit)
            began_s = time.perf_counter()
            yield (
                items[part],
                [column[part] for column in positions],
                None if entries is None else entries[part],
            )
            pace.observe(pace.limit, time.perf_counter() - began_s)
            start = part.stop
