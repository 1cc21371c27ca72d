"""The intake of an `ab.Source`.

Workers read the partitions of a bounded source themselves, one block of each at a time,
and report their progress. For a source with offsets they read the ranges that the
driver assigns. The driver reads sources that have one partition, are live or cannot be
pickled; it ships the rows, and workers decode them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.connectors.base import Malformed, RowRange, Source
from anabranch.connectors.files.arrow_items import Form
from anabranch.connectors.files.values import is_made_plainly
from anabranch.connectors.partitions import (
    BlockOrder,
    Cursor,
    LivePartitions,
    OffsetRange,
    Ranges,
    Segment,
    births_on_this_clock,
    births_since_1970,
    block_of,
    call,
    decode,
    decode_rows,
    describe,
    has_decoder,
    has_offsets,
    partitions_of,
    read_range,
    refuse_malformed,
    rows_of,
    source_of,
)
from anabranch.epochs.intake.intake import Intake, Piece, Reached, cut
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.transport.ship import travels
from anabranch.errors import CheckpointError, InputError
from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind
from anabranch.runtime.births import Births, births_of
from anabranch.runtime.failures import OnError, name_error


@dataclass(frozen=True)
class SourcePiece(Piece):
    """Rows of a partition, from row `index`; `known` is a position before that."""

    partition: str
    index: int
    known: Reached

    def before(self, end: float) -> SourcePiece:
        return replace(self, rows=max(0, int(min(self.rows, end - self.first))))


@dataclass(frozen=True)
class RangePiece(Piece):
    """A range of a partition's offsets."""

    range: OffsetRange


@dataclass(frozen=True)
class RowsPiece(Piece):
    """Rows that the driver read, pickled, with their numbers; some may be malformed."""

    items: bytes
    numbers: bytes
    decoded: bool


class BoundedIntake(Intake):
    """The blocks of a bounded source: the position of each partition, and the next
    block.
    """

    def __init__(self, op: Op, partitions: Sequence[str]) -> None:
        self._op = op
        self._partitions = list(partitions)
        self._order = BlockOrder(len(partitions), block_of(op))
        self._reached = [Reached()] * len(partitions)
        self._next = 1  # the number of the next row
        self.ended = not partitions

    def position(self) -> Any:
        partitions = {
            name: vars(reached)
            for name, reached in zip(self._partitions, self._reached, strict=True)
        }
        block = self._order.block
        return {"next": self._next, "block": block, "partitions": partitions}

    def seek(self, position: Any) -> None:
        found = position["partitions"]
        self._refuse_change("partitions", list(found), self._partitions)
        self._refuse_change("block", position["block"], self._order.block)
        self._next = position["next"]
        self._go_to([Reached(**one) for one in found.values()])

    def close(self) -> None:
        call(self._op, "close", source_of(self._op).close)

    def _refuse_change(self, what: str, before: Any, now: Any) -> None:
        """Refuse a source that would give its rows in another order."""
        if before != now:
            msg = (
                f"a source must have the same {what} in every run of a job; "
                f"{self._op.name} ({type(source_of(self._op)).__name__}, "
                f"{self._op.site}) had {before} and has {now}; put it back as it was, "
                f"or start with an empty checkpoint"
            )
            raise CheckpointError(msg)

    def _go_to(self, reached: list[Reached]) -> None:
        self._reached = reached
        self.ended = all(one.ended for one in reached)

    def _segments(
        self, rows: int, end_of_turn: float, *, exactly: bool
    ) -> list[Segment]:
        """Return the next rows, without those of partitions that have ended."""
        first = self._next
        while not self.ended:
            end = first + rows if exactly else min(first + rows, end_of_turn)
            segments = [
                segment
                for segment in self._order.segments(first, end)
                if not self._reached[segment.partition].ended
            ]
            self._next = first = int(end)
            if segments or exactly:
                return segments
            end_of_turn = self._order.end_of_turn(first)
        return []


class WorkerIntake(BoundedIntake):
    """Workers read the partitions; an epoch has at most one block of each."""

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        end = self._order.end_of_turn(self._next) if self._partitions else 1
        return [
            SourcePiece(
                self._op.name,
                segment.first,
                segment.count,
                self._partitions[segment.partition],
                segment.index,
                self._reached[segment.partition],
            )
            for segment in self._segments(rows, end, exactly=exactly)
        ]

    def advance(self, reached: Mapping[str, Reached]) -> None:
        pairs = zip(self._partitions, self._reached, strict=True)
        self._go_to([reached.get(name, before) for name, before in pairs])


class DriverIntake(BoundedIntake):
    """The driver reads the partitions and ships their rows."""

    def __init__(self, op: Op, partitions: Sequence[str], pickler: Pickler) -> None:
        super().__init__(op, partitions)
        self._pickler = pickler
        self._cursors: dict[int, Cursor] = {}
        self._failure: InputError | None = None

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        if self._failure is not None:
            raise self._failure
        taken: list[tuple[Any, int]] = []
        try:
            for segment in self._segments(rows, math.inf, exactly=exactly):
                self._read(segment, taken)
        except InputError as error:
            if not taken:
                raise
            self._failure = error  # raised after the rows before it
            (self._next,) = error.place or (self._next,)
        self._go_to(self._reached)
        return ship(self._op, taken, parts, self._pickler)

    def close(self) -> None:
        for cursor in self._cursors.values():
            cursor.close()
        super().close()

    def _read(self, segment: Segment, taken: list[tuple[Any, int]]) -> None:
        """Add the rows of a segment to those taken."""
        number = segment.partition
        if number not in self._cursors:
            known = self._reached[number]
            name = self._partitions[number]
            self._cursors[number] = _resume(self._op, name, known)
        cursor = self._cursors[number]
        if not cursor.ended:
            try:
                for row in rows_of(cursor, segment):
                    taken.append(row)  # noqa: PERF402 - an error may end it
            finally:
                self._reached[number] = _find_reached(cursor)


class LiveIntake(Intake):
    """The driver reads what has arrived and ships it."""

    live = True

    def __init__(self, op: Op, pickler: Pickler) -> None:
        self._op = op
        self._pickler = pickler
        self._partitions = LivePartitions(op)
        self._next = 1
        self._born_s: Sequence[float] | None = None
        self._taken = 0  # rows, in this run
        self._arrived = 0  # rows at the last count

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        taken = self._partitions.take(rows)
        self.ended = self._partitions.ended
        self._born_s = births_on_this_clock(self._op, taken)
        numbered = [(row, number) for number, row in enumerate(taken, self._next)]
        self._next += len(taken)
        self._taken += len(taken)
        return ship(self._op, numbered, parts, self._pickler)

    def born_s(self) -> Sequence[float] | None:
        return self._born_s

    def waiting(self) -> int | None:
        return self._partitions.count_waiting()

    def count_arrivals(self) -> int | None:
        """Count arrived rows, also while an epoch runs: a controller calls it in its
        own thread.

        Rows being taken at the moment are in neither count, so it never decreases.
        """
        waiting = self._partitions.count_waiting()
        if waiting is None:
            return None
        self._arrived = max(self._arrived, self._taken + waiting)
        return self._arrived

    def position(self) -> Any:
        return {"next": self._next, "partitions": self._partitions.positions}

    def seek(self, position: Any) -> None:
        if "row" in position:  # of a socket, as saved before sockets were sources
            row = position["row"]
            position = {"next": row, "partitions": {"all": row - 1}}
        self._next = position["next"]
        self._partitions = LivePartitions(self._op, position["partitions"])

    def close(self) -> None:
        self._partitions.close()


class RangedIntake(Intake):
    """Ranges of arrived offsets; workers read them if the source can be pickled."""

    live = True

    def __init__(self, op: Op, pickler: Pickler) -> None:
        self._op = op
        self._pickler = pickler
        self._travels = travels(source_of(op))
        self._ranges = Ranges(op)
        self._number = 1

    def take(self, rows: int, parts: int, *, exactly: bool) -> list[Piece]:
        ranges = self._ranges.take(rows)
        self.ended = self._ranges.ended
        if not self._travels:
            return self._ship(ranges, parts)
        size = max(1, -(-sum(one.size for one in ranges) // parts))
        pieces: list[Piece] = []
        for one in ranges:
            for start in range(one.start, one.end, size):
                end = min(one.end, start + size)
                part = OffsetRange(one.partition, start, end)
                pieces.append(RangePiece(self._op.name, self._number, part.size, part))
                self._number += part.size
        return pieces

    def _ship(self, ranges: Sequence[OffsetRange], parts: int) -> list[Piece]:
        taken: list[tuple[Any, int]] = []
        for one in ranges:
            taken += read_range(self._op, one, self._number)
            self._number += one.size
        return ship(self._op, taken, parts, self._pickler)

    def waiting(self) -> int:
        return self._ranges.left

    def position(self) -> Any:
        return {"offsets": dict(self._ranges.next), "number": self._number}

    def seek(self, position: Any) -> None:
        self._ranges.next = dict(position["offsets"])
        self._number = position["number"]

    def close(self) -> None:
        self._ranges.close()


def intake_of_source(op: Op, pickler: Pickler) -> Intake:
    """Return the intake of an `ab.Source`."""
    source = source_of(op)
    if has_offsets(source):
        return RangedIntake(op, pickler)
    if source.live:
        return LiveIntake(op, pickler)
    partitions = partitions_of(op)
    if len(partitions) > 1 and travels(source):
        return WorkerIntake(op, partitions)
    return DriverIntake(op, partitions, pickler)


def ship(
    op: Op, rows: Sequence[tuple[Any, int]], parts: int, pickler: Pickler
) -> list[Piece]:
    """Return numbered rows in about `parts` pieces; workers decode them if possible."""
    source = source_of(op)
    decoded = not (has_decoder(source) and travels(source))
    if decoded:
        rows = decode(op, rows)
    pieces: list[Piece] = []
    for start, stop in cut(0, len(rows), parts):
        chosen = rows[start:stop]
        numbers = np.array([number for _, number in chosen], np.int64)
        pieces.append(
            RowsPiece(
                op.name,
                int(numbers[0]),
                int(numbers[-1] - numbers[0]) + 1,
                pickler.dumps([_travelling(row, pickler) for row, _ in chosen]),
                numbers.tobytes(),
                decoded,
            )
        )
    return pieces


def _travelling(row: Any, pickler: Pickler) -> Any:
    """Return a row; a malformed one that cannot be pickled becomes its description."""
    if not isinstance(row, Malformed) or pickler.takes(row):
        return row
    reason = row.reason
    text = (
        reason if isinstance(reason, str) else f"cannot be read: {name_error(reason)}"
    )
    raw = row.raw if pickler.takes(row.raw) else repr(row.raw)
    return replace(row, raw=raw, reason=text)


@dataclass(frozen=True)
class ReadRows:
    """Rows of a source in a worker: a table with their numbers, or numbered items."""

    items: Sequence[tuple[Any, int]] = ()
    table: pa.Table | None = None
    numbers: npt.NDArray[np.int64] | None = None


def read_shipped(
    piece: RowsPiece, op: Op, pickler: Pickler, on_error: OnError, form: Form | None
) -> ReadRows:
    """Return the items of a shipped piece."""
    numbers, rows = np.frombuffer(piece.numbers, np.int64), pickler.loads(piece.items)
    if piece.decoded:
        numbered = zip(rows, numbers.tolist(), strict=True)
        return ReadRows(refuse_malformed(op, numbered, on_error))
    return _decode(op, rows, numbers, on_error, form)


def read_partition(
    piece: SourcePiece, op: Op, on_error: OnError, form: Form | None
) -> tuple[ReadRows, Reached]:
    """Return the items of a piece, and the new position of its partition."""
    cursor = _cursor_at(piece, op)
    segment = Segment(0, piece.index, piece.rows, piece.first)
    rows = [row for row, _ in rows_of(cursor, segment)]
    numbers = np.arange(piece.first, piece.first + len(rows))
    return _decode(op, rows, numbers, on_error, form), _find_reached(cursor)


def read_offsets(
    piece: RangePiece, op: Op, on_error: OnError, form: Form | None
) -> tuple[ReadRows, Births | None]:
    """Return the items of a range, and their births since 1970."""
    found = _read_range(op, piece.range)
    births = births_of([one for one in found.born_s if one is not None])
    numbers = np.array(found.offsets, np.int64) + (piece.first - piece.range.start)
    return _decode(op, found.rows, numbers, on_error, form), births


def _read_range(op: Op, wanted: OffsetRange) -> RowRange:
    source = source_of(op)
    found: Any = call(op, "read_range", lambda: source.read_range(**vars(wanted)))
    if found is None:
        pairs = read_range(op, wanted, wanted.start)
        rows = [row for row, _ in pairs]
        births = births_since_1970(op, rows) or ()
        return RowRange(rows, [offset for _, offset in pairs], births)
    if isinstance(found, RowRange) and len(found.rows) == len(found.offsets):
        offsets = np.array([wanted.start - 1, *found.offsets, wanted.end])
        if offsets.dtype == np.int64 and (np.diff(offsets) > 0).all():
            return found
    msg = (
        f"{describe(op)} must return from read_range None, or an ab.RowRange of rows "
        f"and their offsets, each offset above the one before; "
        f"read_range({wanted.partition!r}, {wanted.start}, {wanted.end}) returned "
        f"{found!r:.200}; give each row its own offset, from start to end"
    )
    raise InputError(msg)


def _decode(
    op: Op,
    rows: Sequence[Any],
    numbers: npt.NDArray[np.int64],
    on_error: OnError,
    form: Form | None,
) -> ReadRows:
    """Return the items of rows; as a table if their source can make one."""
    table = _make_table(op, rows, form)
    if table is not None:
        return ReadRows(table=table, numbers=numbers)
    numbered = list(zip(rows, numbers.tolist(), strict=True))
    return ReadRows(decode_rows(op, numbered, on_error))


def _make_table(op: Op, rows: Sequence[Any], form: Form | None) -> pa.Table | None:
    source = source_of(op)
    # A user's constructor may refuse a row, and only `decode` can report it.
    if form is None or not is_made_plainly(form.type) or not len(rows):
        return None
    if type(source).decode_table is Source.decode_table or (
        isinstance(rows, list) and any(isinstance(row, Malformed) for row in rows)
    ):
        return None
    found: Any = call(op, "decode_table", lambda: source.decode_table(rows))
    if found is None:
        return None
    table = _with_form(found, len(rows), form)
    if table is not None:
        return table
    msg = (
        f"{describe(op)} must return from decode_table None, or an Arrow table with "
        f"{len(rows)} rows, nulls only where the type has None, and the columns "
        f"{_describe_columns(form.schema)}; it returned "
        f"{_describe_columns(getattr(found, 'schema', None)) or repr(found)}; cast "
        f"the columns, or return None"
    )
    raise InputError(msg)


def _describe_columns(schema: pa.Schema | None) -> str:
    return ", ".join(f"{one.name}: {one.type}" for one in schema or ())


def _with_form(table: Any, rows: int, form: Form) -> pa.Table | None:
    """Return a table with the schema of a form; None if it has other contents."""
    if not isinstance(table, pa.Table) or table.num_rows != rows:
        return None
    if (table.column_names, table.schema.types) != (
        form.schema.names,
        form.schema.types,
    ):
        return None
    if any(
        column.null_count and not optional
        for column, optional in zip(table.columns, form.optional, strict=True)
    ):
        return None
    return pa.Table.from_arrays(table.columns, schema=form.schema).combine_chunks()


def latest(reached: Iterable[tuple[str, Reached]]) -> dict[str, Reached]:
    """Return the furthest position of each partition.

    >>> latest([("a", Reached(7, 2)), ("a", Reached(9, 3)), ("b", Reached(1, 1))])["a"]
    Reached(position=9, index=3, ended=False, before=None)
    """
    found: dict[str, Reached] = {}
    for partition, one in reached:
        if partition not in found or found[partition].index <= one.index:
            found[partition] = one
    return found


def _find_reached(cursor: Cursor) -> Reached:
    return Reached(cursor.position, cursor.index, cursor.ended, cursor.before)


def _resume(op: Op, partition: str, known: Reached) -> Cursor:
    return Cursor(op, partition, known.position, known.index, known.before)


_cursors: WeakKeyDictionary[Kind, dict[str, Cursor]] = WeakKeyDictionary()


def _cursor_at(piece: SourcePiece, op: Op) -> Cursor:
    """Return a cursor before a piece, reusing one that is there already."""
    kept = _cursors.setdefault(op.kind, {})
    cursor = kept.pop(piece.partition, None)
    if cursor is None or not piece.known.index <= cursor.index <= piece.index:
        cursor = _resume(op, piece.partition, piece.known)
    for _ in cursor.rows(piece.index - cursor.index):
        pass
    kept[piece.partition] = cursor
    return cursor
