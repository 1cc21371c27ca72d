"""Read an `ab.Source`: its partitions, each from a position on.

A bounded source gives a block of rows of each partition in turn. The number of a row
follows from its partition and its place there alone, so any process can number the rows
of one partition without knowing the others. Where a partition has ended, the numbers of
its blocks are left out.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from anabranch.connectors.base import Malformed, Source
from anabranch.connectors.delta import DeltaSource
from anabranch.connectors.files.rows import BadRow, Position, Unreadable
from anabranch.connectors.iceberg import IcebergSource
from anabranch.connectors.postgres import PostgresSource
from anabranch.connectors.reader import LiveReader, Reader, refusal_at
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind
from anabranch.operators.sources import (
    ReadDelta,
    ReadIceberg,
    ReadPostgres,
    ReadSource,
)
from anabranch.runtime.births import births_of
from anabranch.runtime.failures import Failure, OnError, name_error, user_line

SOURCES: Mapping[type[Kind], Callable[[Any], Source]] = {
    ReadPostgres: PostgresSource,
    ReadDelta: DeltaSource,
    ReadIceberg: IcebergSource,
}

_made: WeakKeyDictionary[Kind, Source] = WeakKeyDictionary()
_PARTITIONS_S = 10.0  # how often a live source is asked for new partitions


@dataclass(frozen=True)
class Segment:
    """Rows of one block: `count` rows of a partition from row `index` on.

    The rows are numbered from `first`; rows of a partition are counted from 0.
    """

    partition: int
    index: int
    count: int
    first: int


@dataclass(frozen=True)
class BlockOrder:
    """The order of a bounded source: `block` rows of each partition in turn."""

    partitions: int
    block: int

    def segments(self, first: int, end: float) -> Iterator[Segment]:
        """Yield the segments of the rows with the numbers `first` up to `end`.

        >>> for segment in BlockOrder(partitions=2, block=3).segments(2, 9):
        ...     print(segment)
        Segment(partition=0, index=1, count=2, first=2)
        Segment(partition=1, index=0, count=3, first=4)
        Segment(partition=0, index=3, count=2, first=7)
        """
        while self.partitions and first < end:
            number, offset = divmod(first - 1, self.block)
            turn, partition = divmod(number, self.partitions)
            count = int(min(self.block - offset, end - first))
            yield Segment(partition, turn * self.block + offset, count, first)
            first += count

    def end_of_turn(self, number: int) -> int:
        """Return the first number of the turn behind that of a row.

        >>> BlockOrder(partitions=2, block=3).end_of_turn(6)
        7
        """
        turn = self.partitions * self.block
        return (number - 1) // turn * turn + turn + 1


class Cursor:
    """A partition that is being read.

    `position` and `index` are those behind the last row; `ended` tells whether the
    partition has no more rows, for now or for good.
    """

    def __init__(
        self, op: Op, partition: str, position: Any = None, index: int = 0
    ) -> None:
        self._op = op
        self._source = source_of(op)
        self.partition = partition
        self.position = position
        self.index = index
        self.ended = False
        self._rows: Iterator[Any] | None = None

    def rows(self, count: int) -> Iterator[Any]:
        """Yield up to `count` rows: items, and malformed ones."""
        if self._rows is None:
            self._rows = self._begin()
        before = self.index
        for _ in range(count):
            try:
                pair = next(self._rows)
            except StopIteration:
                self.ended = True
                break
            except Exception as error:
                self._rows = None  # whoever tries again begins anew
                raise self._describe_failure(error) from error
            if type(pair) is not tuple or len(pair) != 2:  # noqa: PLR2004 - a pair
                raise self._describe_no_pair(pair)
            self.position = pair[1]
            self.index += 1
            yield pair[0]
        if self.index > before:
            self._refuse_position()

    def read_on(self) -> None:
        """Read from the last position again: more rows may have arrived."""
        self.close()
        self.ended = False

    def close(self) -> None:
        """Have `read` let go of what it holds, now and not when it is collected."""
        if isinstance(self._rows, Generator):
            self._rows.close()
        self._rows = None

    def _begin(self) -> Iterator[Any]:
        try:
            return iter(self._source.read(self.partition, self.position))
        except Exception as error:
            raise self._describe_failure(error) from error

    def _refuse_position(self) -> None:
        """Refuse a position that a checkpoint could not save, or that is none."""
        if self.position is None:
            msg = (
                f"{_describe(self._op)} must give the position behind each row; for "
                f"partition {self.partition!r} it gave None, which means the start; "
                f"give an offset, or the number of rows so far"
            )
            raise InputError(msg)
        try:
            if json.loads(json.dumps(self.position)) == self.position:
                return
        except (TypeError, ValueError, RecursionError):
            pass
        msg = (
            f"{_describe(self._op)} must give positions that JSON gives back "
            f"unchanged; for partition {self.partition!r} it gave {self.position!r}; "
            f"make it of numbers, strings, lists and dicts with strings as keys"
        )
        raise InputError(msg)

    def _describe_no_pair(self, found: Any) -> InputError:
        return InputError(
            f"{_describe(self._op)} must yield pairs of an item and the position "
            f"behind it; read({self.partition!r}, ...) gave {found!r}; yield both"
        )

    def _describe_failure(self, error: Exception) -> InputError:
        if isinstance(error, InputError):  # of a connector that says it all
            return InputError(f"source {self._op.name!r} ({self._op.site}) {error}")
        return InputError(
            f"{_describe(self._op)} must give rows to its end; partition "
            f"{self.partition!r} failed after position {self.position!r}, "
            f"{_line_of(error)}{name_error(error)}; correct read, or have it yield "
            f"ab.Malformed for a row that cannot be read"
        )


class PartitionedReader(Reader):
    """The rows of a bounded source."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        self._op = op
        self._on_error = on_error

    def read_numbered(self) -> Iterator[tuple[Any, int]]:
        source = source_of(self._op)
        partitions = partitions_of(self._op)
        cursors = [Cursor(self._op, one) for one in partitions]
        order = BlockOrder(len(partitions), block_of(self._op))
        try:
            for segment in order.segments(1, math.inf):
                cursor = cursors[segment.partition]
                if not cursor.ended:
                    yield from self._read(cursor, segment)
                elif all(one.ended for one in cursors):
                    return
        finally:
            for cursor in cursors:
                cursor.close()
            call(self._op, "close", source.close)

    def _read(self, cursor: Cursor, segment: Segment) -> Iterator[tuple[Any, int]]:
        for row, number in rows_of(cursor, segment):
            if isinstance(row, Malformed):
                self._on_error(refusal_of(self._op, row, number))
            else:
                yield row, number

    def where(self, number: int) -> str:
        return f"row {number} of {self._op.name}"


def rows_of(cursor: Cursor, segment: Segment) -> Iterator[tuple[Any, int]]:
    """Yield the rows of a segment with their numbers; an error has its place."""
    number = segment.first
    try:
        for row in cursor.rows(segment.count):
            yield row, number
            number += 1
    except InputError as error:
        error.place = (number,)
        raise


class LivePartitions:
    """The rows of a live source as they arrive."""

    def __init__(self, op: Op, positions: Mapping[str, Any] | None = None) -> None:
        self._op = op
        self._source = source_of(op)
        self._cursors = {p: Cursor(op, p, at) for p, at in (positions or {}).items()}
        self._asked_s = -math.inf
        self._failure: InputError | None = None
        self.ended = False

    @property
    def positions(self) -> dict[str, Any]:
        """The position behind the last row of each partition."""
        return {name: cursor.position for name, cursor in self._cursors.items()}

    def take(self, most: int) -> list[Any]:
        """Return up to `most` rows that have arrived, partition by partition.

        Each partition gets its share, so that none keeps the others waiting.
        """
        if self._failure is not None:
            raise self._failure
        self._find_partitions()
        rows: list[Any] = []
        cursors = list(self._cursors.values())
        try:
            for left, cursor in zip(range(len(cursors), 0, -1), cursors, strict=True):
                if cursor.ended:
                    cursor.read_on()
                rows.extend(cursor.rows(-(-(most - len(rows)) // left)))
        except InputError as error:
            if not rows:
                raise
            self._failure = error  # is raised behind the rows before it
        if not rows:
            self.ended = bool(call(self._op, "has_ended", self._source.has_ended))
        return rows

    def born_s(self, rows: Sequence[Any]) -> list[float] | None:
        """Return when rows came into being, by `time.perf_counter`, if that is known."""
        if type(self._source).born_s is Source.born_s:
            return None
        clock_s = time.perf_counter()
        now_s = time.time()
        ahead_s = clock_s - now_s
        born_s = self._source.born_s
        given = call(self._op, "born_s", lambda: [born_s(row) for row in rows])
        strange = next(
            (t for t in given if not isinstance(t, float | int | None)), None
        )
        if strange is not None:
            msg = (
                f"{_describe(self._op)} must return from born_s seconds since 1970, or "
                f"None; it gave {strange!r}; return a number"
            )
            raise InputError(msg)
        return [
            clock_s if one is None else min(clock_s, ahead_s + one) for one in given
        ]

    def count_waiting(self) -> int | None:
        """Return how many rows have arrived that were not read, if that is known."""
        if type(self._source).count_waiting is Source.count_waiting:
            return None
        positions = self.positions
        found: Any = call(
            self._op, "count_waiting", lambda: self._source.count_waiting(positions)
        )
        if found is None or (isinstance(found, int) and found >= 0):
            return found
        msg = (
            f"{_describe(self._op)} must return from count_waiting a number of rows, "
            f"or None; it gave {found!r}; return a whole number"
        )
        raise InputError(msg)

    def close(self) -> None:
        for cursor in self._cursors.values():
            cursor.close()
        call(self._op, "close", self._source.close)
        self.ended = True

    def _find_partitions(self) -> None:
        now_s = time.monotonic()
        if now_s - self._asked_s > _PARTITIONS_S:
            self._asked_s = now_s
            for name in partitions_of(self._op):
                self._cursors.setdefault(name, Cursor(self._op, name))


class ArrivingReader(LiveReader):
    """The items of a live source."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        self._op = op
        self._on_error = on_error
        self._partitions = LivePartitions(op)
        self._next = 1

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        rows = self._partitions.take(most)
        self.ended = self._partitions.ended
        if not rows and not self.ended:
            time.sleep(wait_s)
        numbers = itertools.count(self._next)
        self._next += len(rows)
        found = []
        for row, number in zip(rows, numbers, strict=False):
            if isinstance(row, Malformed):
                self._on_error(refusal_of(self._op, row, number))
            else:
                found.append((row, number))
        born_s = self._partitions.born_s([item for item, _ in found])
        self.births = None if born_s is None else births_of(born_s)
        return found

    def count_arrivals(self) -> int | None:
        waiting = self._partitions.count_waiting()
        return None if waiting is None else self._next - 1 + waiting

    def where(self, number: int) -> str:
        return f"row {number} of {self._op.name}"

    def close(self) -> None:
        self.ended = True
        self._partitions.close()


def open_source(op: Op, on_error: OnError) -> Reader:
    """Return the reader of an `ab.Source`."""
    return (ArrivingReader if source_of(op).live else PartitionedReader)(op, on_error)


def source_of(op: Op) -> Source:
    """Return the source behind an operator: the user's, or one of ours."""
    if isinstance(op.kind, ReadSource):
        source = op.kind.source
        assert isinstance(source, Source)  # noqa: S101
        return source
    if op.kind not in _made:
        _made[op.kind] = SOURCES[type(op.kind)](op.kind)
    return _made[op.kind]


def partitions_of(op: Op) -> list[str]:
    """Return the partitions of a source; refuse a list that cannot be used."""
    found: Any = call(op, "partitions", source_of(op).partitions)
    if (
        isinstance(found, list | tuple)
        and all(isinstance(one, str) for one in found)
        and len(set(found)) == len(found)
    ):
        return list(found)
    msg = (
        f"{_describe(op)} must return its partitions as a list of different strings; "
        f"partitions() gave {found!r}; name each partition once"
    )
    raise InputError(msg)


def block_of(op: Op) -> int:
    """Return the size of the blocks of a bounded source."""
    block: Any = source_of(op).block
    if isinstance(block, int) and block > 0:
        return block
    msg = (
        f"{_describe(op)} must have a block of at least one row; it is {block!r}; "
        f"set block to a whole number above 0"
    )
    raise InputError(msg)


def call(op: Op, method: str, act: Callable[[], Any]) -> Any:
    """Call a method of a source; name it in errors."""
    try:
        return act()
    except InputError as error:
        msg = f"source {op.name!r} ({op.site}) {error}"
        raise InputError(msg) from error
    except Exception as error:
        msg = (
            f"{_describe(op)} must answer; {method} failed, {_line_of(error)}"
            f"{name_error(error)}; correct {method}"
        )
        raise InputError(msg) from error


def refusal_of(op: Op, row: Malformed, number: int) -> Failure:
    """Return the failure of a source on a malformed row."""
    error = Unreadable(row.reason) if isinstance(row.reason, str) else row.reason
    where = row.where or f"row {number} of {op.name}"
    bad = BadRow(Position(number, number), row.raw, error)
    return refusal_at(op, where, bad, row.advice)


def _describe(op: Op) -> str:
    return f"source {op.name!r} ({type(source_of(op)).__name__}, {op.site})"


def _line_of(error: Exception) -> str:
    line = user_line(error)
    return "" if line is None else f"at {line}: "
