"""Reads an `ab.Source`: its partitions, each from a position.

A bounded source gives a block of rows of each partition in turn. The number of a row
follows from its partition and its index there alone, so any process can number the rows
of one partition without knowing the others. After the end of a partition, the numbers
of its blocks are skipped.

A source with `offsets` is read by ranges of them, each assigned once: partition by
partition, and by offset within a partition. Offsets without a row skip their number.
"""

from __future__ import annotations

import itertools
import json
import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.connectors.base import Malformed, Source
from anabranch.connectors.files.rows import BadRow, Position, Unreadable
from anabranch.connectors.reader import LiveReader, Reader, refusal_at
from anabranch.errors import EngineError, InputError
from anabranch.graph.graph import Op
from anabranch.operators.copied import copy_output
from anabranch.operators.sources import ReadSource
from anabranch.runtime.births import births_of
from anabranch.runtime.failures import Failure, OnError, name_error, user_line
from anabranch.runtime.verify.given import SourceWatch

_PARTITIONS_S = 10.0  # how often a source is asked for new partitions
_DECODED_ROWS = 1000  # at a time


@dataclass(frozen=True)
class Segment:
    """Rows of one block: `count` rows of a partition, starting at row `index`.

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
        """Yield the segments of the rows numbered `first` to `end`.

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
        """Return the first number of the turn after that of a row.

        >>> BlockOrder(partitions=2, block=3).end_of_turn(6)
        7
        """
        turn = self.partitions * self.block
        return (number - 1) // turn * turn + turn + 1


class Cursor:
    """A partition that is being read.

    `position` and `index` are those after the last row, `before` is the position before
    it; `ended` tells whether the partition has no more rows, for now or for good.
    """

    def __init__(
        self,
        op: Op,
        partition: str,
        position: Any = None,
        index: int = 0,
        before: Any = None,
    ) -> None:
        self._op = op
        self._source = source_of(op)
        self.partition = partition
        self.position = position
        self.index = index
        self.before = before
        self.ended = False
        self._start = position  # where `read` began
        self._watch = SourceWatch(op)
        self._made: Iterator[Any] | None = None  # by `read`
        self._rows: Iterator[Any] | None = None  # the same, watched

    def rows(self, count: int) -> Iterator[Any]:
        """Yield up to `count` rows: items, and malformed ones."""
        begins = self._rows is None
        if self._rows is None:
            self._made = rows = self._begin()
            self._rows = rows if self._op.copied else self._watch.iterate(rows)
        for _ in range(count):
            try:
                pair = next(self._rows)
            except StopIteration:
                self.ended = True
                if self.position == self._start:
                    self._refuse_shrunk()
                break
            except EngineError:  # a package is missing
                raise
            except Exception as error:
                self._rows = None  # a retry starts afresh
                raise self._describe_failure(error) from error
            if type(pair) is not tuple or len(pair) != 2:  # noqa: PLR2004 - a pair
                raise self._describe_no_pair(pair)
            position = pair[1]
            if begins or position is None:
                self._refuse_unsaved(position)
                begins = False
            if position in (self.position, self._start):
                self._refuse_repeated(position)
            self.before, self.position = self.position, position
            self.index += 1
            yield copy_output(pair[0]) if self._op.copied else pair[0]

    def read_on(self) -> None:
        """Read from the last position again: more rows may have arrived."""
        self.close()
        self.ended = False

    def close(self) -> None:
        """Make `read` release its resources now, not when it is collected."""
        if isinstance(self._made, Generator):
            self._made.close()
        self._made = self._rows = None

    def _begin(self) -> Iterator[Any]:
        self._start = self.position
        try:
            return iter(self._source.read(self.partition, self.position))
        except Exception as error:
            raise self._describe_failure(error) from error

    def _refuse_shrunk(self) -> None:
        """Refuse a bounded partition that ends before a row that was read earlier.

        Only a `read` without rows can mean that: then the last row is read again.
        """
        if self._source.live or not self.index:
            return
        try:
            again = iter(self._source.read(self.partition, self.before))
            found = next(again, None)
        except Exception as error:
            raise self._describe_failure(error) from error
        if isinstance(again, Generator):
            again.close()
        if found is None:
            raise _describe_shrunk(self._op, self.partition, self.position, "less")

    def _refuse_repeated(self, position: Any) -> None:
        """Refuse a position from which another row was, or would be, read."""
        where = f"{describe(self._op)} must yield another position after each row; "
        if position == self.position:
            msg = (
                f"{where}two rows of partition {self.partition!r} have {position!r}, so "
                f"a job could not go on between them; add the number of the row, as "
                f"in [page, row]"
            )
            raise InputError(msg)
        msg = (
            f"{where}read({self.partition!r}, {position!r}) came to its own start "
            f"again; give the rows behind the position, not those from the beginning"
        )
        raise InputError(msg)

    def _refuse_unsaved(self, position: Any) -> None:
        """Refuse a position that a checkpoint cannot save, or an invalid one."""
        if position is None:
            msg = (
                f"{describe(self._op)} must yield the position after each row; for "
                f"partition {self.partition!r} it yielded None, which means the "
                "start; yield an offset, or the number of rows so far"
            )
            raise InputError(msg)
        try:
            if json.loads(json.dumps(position)) == position:
                return
        except (TypeError, ValueError, RecursionError):
            pass
        msg = (
            f"{describe(self._op)} must yield positions that JSON preserves; for "
            f"partition {self.partition!r} it gave {position!r}; "
            f"make it of numbers, strings, lists and dicts with strings as keys"
        )
        raise InputError(msg)

    def _describe_no_pair(self, found: Any) -> InputError:
        return InputError(
            f"{describe(self._op)} must yield pairs of an item and the position "
            f"after it; read({self.partition!r}, ...) gave {found!r}; yield both"
        )

    def _describe_failure(self, error: Exception) -> InputError:
        if isinstance(error, InputError):  # of a connector whose message is complete
            return InputError(f"source {self._op.name!r} ({self._op.site}) {error}")
        return InputError(
            f"{describe(self._op)} must give rows to its end; partition "
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
        size = _DECODED_ROWS if has_decoder(source_of(self._op)) else 1
        for rows in _in_chunks(rows_of(cursor, segment), size):
            yield from decode_rows(self._op, rows, self._on_error)

    def where(self, number: int) -> str:
        return f"row {number} of {self._op.name}"


def rows_of(cursor: Cursor, segment: Segment) -> Iterator[tuple[Any, int]]:
    """Yield the rows of a segment with their numbers; an error has its location."""
    number = segment.first
    try:
        for row in cursor.rows(segment.count):
            yield row, number
            number += 1
    except InputError as error:
        error.place = (number,)
        raise


def _in_chunks(
    rows: Iterator[tuple[Any, int]], size: int
) -> Iterator[list[tuple[Any, int]]]:
    """Yield up to `size` rows at a time; an error comes after the rows before it."""
    chunk: list[tuple[Any, int]] = []
    try:
        for row in rows:
            chunk.append(row)
            if len(chunk) == size:
                yield chunk
                chunk = []
    except InputError:
        yield chunk
        raise
    yield chunk


def has_decoder(source: Source) -> bool:
    """Tell whether the rows of a source have to be decoded."""
    return type(source).decode is not Source.decode


def decode_rows(
    op: Op, rows: Sequence[tuple[Any, int]], on_error: OnError
) -> list[tuple[Any, int]]:
    """Return the items of numbered rows; malformed ones go to `on_error`."""
    return refuse_malformed(op, decode(op, rows), on_error)


def refuse_malformed(
    op: Op, rows: Iterable[tuple[Any, int]], on_error: OnError
) -> list[tuple[Any, int]]:
    """Return numbered rows without the malformed ones, which go to `on_error`."""
    found = []
    for row, number in rows:
        if isinstance(row, Malformed):
            on_error(refusal_of(op, row, number))
        else:
            found.append((row, number))
    return found


def decode(op: Op, rows: Sequence[tuple[Any, int]]) -> Sequence[tuple[Any, int]]:
    """Return numbered rows as items; some may be malformed."""
    source = source_of(op)
    if not has_decoder(source):
        return rows
    raw = [row for row, _ in rows if not isinstance(row, Malformed)]
    items: Any = call(op, "decode", lambda: source.decode(raw)) if raw else []
    if not isinstance(items, list | tuple) or len(items) != len(raw):
        msg = (
            f"{describe(op)} must return from decode a list with an item for each row; "
            f"for {len(raw)} rows it returned {items!r}; give ab.Malformed for a bad "
            "row"
        )
        raise InputError(msg)
    decoded = iter(items)
    return [
        (row if isinstance(row, Malformed) else next(decoded), number)
        for row, number in rows
    ]


def births_since_1970(op: Op, rows: Sequence[Any]) -> list[float | None] | None:
    """Return the births of rows in seconds since 1970, if their source knows them."""
    source = source_of(op)
    if type(source).born_s is Source.born_s:
        return None
    given: list[Any] = call(
        op,
        "born_s",
        lambda: [source.born_s(row) for row in rows if not isinstance(row, Malformed)],
    )
    strange = next((t for t in given if not isinstance(t, float | int | None)), None)
    if strange is not None:
        msg = (
            f"{describe(op)} must return from born_s seconds since 1970, or None; it "
            f"returned {strange!r}; return a number"
        )
        raise InputError(msg)
    return given


def births_on_this_clock(op: Op, rows: Sequence[Any]) -> list[float] | None:
    """Return the births of rows by `time.perf_counter`, if known."""
    given = births_since_1970(op, rows)
    if given is None:
        return None
    clock_s = time.perf_counter()
    ahead_s = clock_s - time.time()
    return [clock_s if one is None else min(clock_s, ahead_s + one) for one in given]


@dataclass(frozen=True)
class OffsetRange:
    """The rows of a partition from offset `start` to `end`."""

    partition: str
    start: int
    end: int

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start


def has_offsets(source: Source) -> bool:
    """Tell whether a source is read by ranges of offsets."""
    return type(source).offsets is not Source.offsets


def arrives(op: Op) -> bool:
    """Tell whether an `ab.Source` is polled: it is live, or has offsets."""
    source = source_of(op)
    return source.live or has_offsets(source)


class Ranges:
    """Assigns the offsets of a source, each once."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._source = source_of(op)
        self._partitions: list[str] = []
        self._asked_s = -math.inf
        self._ends: dict[str, int] = {}  # of a bounded source
        self._first: frozenset[str] | None = (
            None  # partitions that a new job begins with
        )
        self.next: dict[str, int] = {}  # partition -> offset
        self._whole: set[str] = set()  # partitions that reach as far as `next`
        self.left = 0  # backlog at the last call

    @property
    def ended(self) -> bool:
        """Whether all there will be has been taken."""
        ends = self._ends
        return (
            not self._source.live
            and self._asked_s > -math.inf
            and all(p in ends and self.next[p] >= ends[p] for p in self._partitions)
        )

    def take(self, most: int) -> list[OffsetRange]:
        """Take the records that have arrived, up to so many offsets."""
        now_s = time.monotonic()
        if now_s - self._asked_s > _PARTITIONS_S:
            self._partitions = partitions_of(self._op)
            self._asked_s = now_s
            if self._first is None:
                self._first = frozenset(() if self.next else self._partitions)
        available: dict[str, int] = {}
        for partition in self._partitions:
            end = self._find_end(partition)
            if end is not None and end > self.next[partition]:
                available[partition] = end - self.next[partition]
        fill = _fill_in_shares if self._source.live else _fill_in_turn
        counts = fill(available, most)
        ranges = []
        for partition in self._partitions:
            if count := counts.get(partition):
                start = self.next[partition]
                self.next[partition] = start + count
                ranges.append(OffsetRange(partition, start, start + count))
        self.left = sum(available.values()) - sum(one.size for one in ranges)
        return ranges

    def close(self) -> None:
        call(self._op, "close", self._source.close)

    def _find_end(self, partition: str) -> int | None:
        """Return the end offset to which a partition may be read; None if unknown
        yet.
        """
        if partition in self._ends:
            return self._ends[partition]
        found: Any = call(self._op, "offsets", lambda: self._source.offsets(partition))
        match found:
            case None:
                return None
            case (int(first), int(end)):
                if partition not in self.next:
                    start = self._find_start(partition, first)
                    if start is None:
                        return None
                    self.next[partition] = start
                elif partition not in self._whole and end < self.next[partition]:
                    raise _describe_shrunk(
                        self._op, partition, self.next[partition], f"{end} offsets"
                    )
                self._whole.add(partition)
                if not self._source.live:
                    self._ends[partition] = end
                return end
        msg = (
            f"{describe(self._op)} must return from offsets the first offset of "
            f"partition {partition!r} and its end offset, or None; it returned "
            f"{found!r}; return two whole numbers"
        )
        raise InputError(msg)

    def _find_start(self, partition: str, first: int) -> int | None:
        """Return the start offset of a partition; None if unknown yet."""
        if self._first is None or partition not in self._first:
            return first
        asked = lambda: self._source.first_offset(partition)  # noqa: E731
        found: int | None = call(self._op, "first_offset", asked)
        return found


def _fill_in_turn(available: Mapping[str, int], most: int) -> dict[str, int]:
    """Return how much to take of each: all of the first ones.

    >>> _fill_in_turn({"a": 5, "b": 5}, 7)
    {'a': 5, 'b': 2}
    """
    taken = {}
    for partition, count in available.items():
        if most > 0:
            taken[partition] = min(count, most)
            most -= taken[partition]
    return taken


def _fill_in_shares(available: Mapping[str, int], most: int) -> dict[str, int]:
    """Return how much to take of each: equal shares, as far as available.

    >>> _fill_in_shares({"a": 100, "b": 2, "c": 100}, 10)
    {'b': 2, 'a': 4, 'c': 4}
    """
    taken = {}
    left = len(available)
    for partition, count in sorted(available.items(), key=lambda pair: pair[1]):
        share = min(count, -(-most // left))
        if share:
            taken[partition] = share
        most -= share
        left -= 1
    return taken


def read_range(op: Op, wanted: OffsetRange, first: int) -> list[tuple[Any, int]]:
    """Return the rows of a range, numbered from `first` by offset."""
    cursor = Cursor(op, wanted.partition, wanted.start)
    found = []
    try:
        for row in cursor.rows(wanted.size):
            behind: Any = cursor.position
            if type(behind) is not int or behind <= wanted.start:
                msg = (
                    f"{describe(op)} must yield the offset after each row, since it "
                    f"has offsets; read({wanted.partition!r}, {wanted.start}) gave "
                    f"{behind!r}; yield (row, offset + 1)"
                )
                raise InputError(msg)
            if behind <= wanted.end:
                found.append((row, first + behind - 1 - wanted.start))
            if behind >= wanted.end:
                break
    finally:
        cursor.close()
    return found


AHEAD = 1000  # rows that are read ahead: requesting one by one is as slow
REFRESH_S = 0.1  # after which arrivals are checked again


class RangedReader(LiveReader):
    """The items of a source with offsets, read ahead."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        self._op = op
        self._on_error = on_error
        self._ranges = Ranges(op)
        self._next = 1
        self._ahead: deque[tuple[tuple[Any, int], float | None]] = deque()
        self._fetched_s = -math.inf
        # to be reported after what was read before
        self._failure: Exception | None = None

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        now_s = time.monotonic()
        if self._failure is None and (
            not self._ahead or now_s - self._fetched_s > REFRESH_S
        ):
            self._fetch(max(1, AHEAD - len(self._ahead)))
            self._fetched_s = now_s
        if self._failure is not None and not self._ahead:
            raise self._failure
        self.ended = self._ranges.ended and not self._ahead
        if not self._ahead and not self.ended:
            source_of(self._op).wait(wait_s)
        taken = [self._ahead.popleft() for _ in range(min(most, len(self._ahead)))]
        born_s = [one for _, one in taken if one is not None]
        self.births = births_of(born_s) if taken and len(born_s) == len(taken) else None
        self.ended = self._ranges.ended and not self._ahead
        return decode_rows(self._op, [row for row, _ in taken], self._on_error)

    def _fetch(self, most: int) -> None:
        try:
            for one in self._ranges.take(most):
                rows = read_range(self._op, one, self._next)
                self._next += one.size
                born_s = births_on_this_clock(self._op, [row for row, _ in rows])
                births = [None] * len(rows) if born_s is None else born_s
                self._ahead.extend(zip(rows, births, strict=True))
        except Exception as error:  # noqa: BLE001 - raised once it is its turn
            self._failure = error

    def count_arrivals(self) -> int:
        return self._next - 1 + self._ranges.left

    def where(self, number: int) -> str:
        return f"row {number} of {self._op.name}"

    def close(self) -> None:
        self.ended = True
        self._ranges.close()


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

        Each partition gets its share, so that none starves.
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
            self._failure = error  # raised after the rows before it
        if not rows:
            self.ended = bool(call(self._op, "has_ended", self._source.has_ended))
        return rows

    def count_waiting(self) -> int | None:
        """Return the backlog in rows, if known."""
        if type(self._source).count_waiting is Source.count_waiting:
            return None
        positions = self.positions
        found: Any = call(
            self._op, "count_waiting", lambda: self._source.count_waiting(positions)
        )
        if found is None or (isinstance(found, int) and found >= 0):
            return found
        msg = (
            f"{describe(self._op)} must return from count_waiting a number of rows, "
            f"or None; it returned {found!r}; return a whole number"
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
            source_of(self._op).wait(wait_s)
        numbered = list(zip(rows, itertools.count(self._next), strict=False))
        self._next += len(rows)
        born_s = births_on_this_clock(self._op, rows)
        self.births = None if born_s is None else births_of(born_s)
        return decode_rows(self._op, numbered, self._on_error)

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
    source = source_of(op)
    if has_offsets(source):
        return RangedReader(op, on_error)
    return (ArrivingReader if source.live else PartitionedReader)(op, on_error)


def source_of(op: Op) -> Source:
    """Return the source behind an operator."""
    assert isinstance(op.kind, ReadSource)  # noqa: S101
    source = op.kind.source
    assert isinstance(source, Source)  # noqa: S101
    return source


def partitions_of(op: Op) -> list[str]:
    """Return the partitions of a source; refuse an unusable list."""
    found: Any = call(op, "partitions", source_of(op).partitions)
    if (
        isinstance(found, list | tuple)
        and all(isinstance(one, str) for one in found)
        and len(set(found)) == len(found)
    ):
        return list(found)
    msg = (
        f"{describe(op)} must return its partitions as a list of different strings; "
        f"partitions() returned {found!r}; give each a text of its own, such as '0'"
    )
    raise InputError(msg)


def block_of(op: Op) -> int:
    """Return the block size of a bounded source."""
    block: Any = source_of(op).block
    if isinstance(block, int) and block > 0:
        return block
    msg = (
        f"{describe(op)} must have a block of at least one row; it is {block!r}; "
        f"set block to a whole number above 0"
    )
    raise InputError(msg)


def call(op: Op, method: str, act: Callable[[], Any]) -> Any:
    """Call a method of a source, naming it in errors."""
    try:
        return act()
    except EngineError:  # a package is missing
        raise
    except InputError as error:
        msg = f"source {op.name!r} ({op.site}) {error}"
        raise InputError(msg) from error
    except Exception as error:
        msg = (
            f"{describe(op)} must answer; {method} failed, {_line_of(error)}"
            f"{name_error(error)}; correct {method}"
        )
        raise InputError(msg) from error


def refusal_of(op: Op, row: Malformed, number: int) -> Failure:
    """Return the failure of a source on a malformed row."""
    error = Unreadable(row.reason) if isinstance(row.reason, str) else row.reason
    where = row.where or f"row {number} of {op.name}"
    bad = BadRow(Position(number, number), row.raw, error)
    return refusal_at(op, where, bad, row.advice)


def _describe_shrunk(op: Op, partition: str, position: Any, now: str) -> InputError:
    return InputError(
        f"{describe(op)} must give the same rows in every run of a job; partition "
        f"{partition!r} was read up to position {position!r}, and now has {now}; put "
        f"its rows back, or start with an empty checkpoint"
    )


def describe(op: Op) -> str:
    """Return the name of a source with its class and its line, for an error."""
    return f"source {op.name!r} ({type(source_of(op)).__name__}, {op.site})"


def _line_of(error: Exception) -> str:
    line = user_line(error)
    return "" if line is None else f"at {line}: "
