"""The thread of a source: it reads, drives the operators behind it, and sends batches.

Collections and files never block: a full batch is taken at once. Other items are
gathered while they come quickly; none waits for the next one. An iterator does not
announce that it will block: then the flusher sends what was gathered.

A fast source sends its batches by itself, hundreds of times a second. Waking the
flusher each time would cost too much, since a waking thread wants the interpreter lock.
So the flusher checks such a source from time to time, more rarely the longer it has
found nothing to do, and sleeps when nothing moves.

Several sources that can be read at any time take turns: the first item of each, the
second of each, and so on. If one of them is live, nothing waits for it: items are taken
in order of arrival. Positions encode either order.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from time import perf_counter
from typing import Any, Protocol

from anabranch.connectors.files.chunks import Chunk, slice_items
from anabranch.connectors.open import open_reader
from anabranch.connectors.partitions import arrives
from anabranch.connectors.reader import POLL_S, LiveReader, births_of_items
from anabranch.graph.graph import Graph, Op
from anabranch.operators.sources import (
    FromIterable,
    ReadFiles,
    ReadSource,
)
from anabranch.runtime.ambient import Ambient
from anabranch.runtime.batch import Batch, Column, Ledger, Mark, Origin, mark_at
from anabranch.runtime.births import Births
from anabranch.runtime.failures import OnError
from anabranch.runtime.memory_reserve import explain_lack
from anabranch.runtime.ports import AbortedError


class Gate:
    """A gate that lets one batch at a time through, unless it is closed.

    A plain lock would not do: the source reacquires it as soon as it releases it, and a
    thread that wants to close it might starve.

    >>> gate = Gate()
    >>> with gate:
    ...     pass  # send a batch in
    >>> gate.close()  # returns when no batch is on its way in
    >>> gate.open()
    """

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._closed = False
        self._passing = False
        self._waiting = 0
        self._due = False  # a batch waited while it was closed, and goes first

    def __enter__(self) -> None:
        with self._changed:
            self._waiting += 1
            while self._closed or self._passing:
                self._changed.wait()
            self._waiting -= 1
            self._passing = True
            self._due = False

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._passing = False
            self._changed.notify_all()

    def close(self) -> None:
        """Let nothing more through; wait until the current batch has passed.

        A batch that waited for the gate to open goes first: the flow makes progress
        between any two changes, however close.
        """
        with self._changed:
            while self._due:
                self._changed.wait()
            self._closed = True
            while self._passing:
                self._changed.wait()

    def open(self) -> None:
        """Let batches through again."""
        with self._changed:
            self._closed = False
            self._due = self._waiting > 0
            self._changed.notify_all()


class SourceTurns(Protocol):
    """Assigns positions to the items of sources."""

    by_arrival: bool

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        """Return the positions of a source's items, and its mark after them."""


class Alone:
    """The only source."""

    by_arrival = False

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        return [numbers], mark_at(numbers[-1])


class InTurn:
    """Round robin: the first item of each source, the second of each, and so on.

    >>> InTurn().take(1, [7, 8])
    ([[7, 8], [1, 1]], (8, 1, inf))
    """

    by_arrival = False

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        return [numbers, [source] * len(numbers)], mark_at(numbers[-1], source)


class ByArrival:
    """First come, first served; all sources must pass the same gate.

    >>> turns = ByArrival()
    >>> turns.take(1, [1, 2]), turns.take(0, [1])
    (([range(1, 3), [1, 1]], (2, inf)), ([range(3, 4), [0]], (3, inf)))
    """

    by_arrival = True

    def __init__(self) -> None:
        self._next = 1

    def take(self, source: int, numbers: Sequence[int]) -> tuple[list[Column], Mark]:
        first, self._next = self._next, self._next + len(numbers)
        places = range(first, self._next)
        return [places, [source] * len(numbers)], mark_at(places[-1])


def turns_of(graph: Graph) -> SourceTurns:
    """Return the order in which the sources of a program are taken."""
    if len(graph.sources) == 1:
        return Alone()
    return ByArrival() if any(map(_arrives, graph.sources)) else InTurn()


def _arrives(op: Op) -> bool:
    match op.kind:
        case ReadSource():
            return arrives(op)
        case ReadFiles():
            return op.kind.live
    return False


HELD_S = 0.002  # how long an item may wait for the next one
SELDOM = 4  # times that long between two checks of a source that was never late


class Gathering(Protocol):
    """A source that gathers items into batches."""

    read: int

    @property
    def holds(self) -> bool:
        """Whether it holds gathered items."""

    def flush_if_late(self, now_s: float) -> bool:
        """Send items that have waited too long; tell whether there were any."""


class Flusher:
    """The thread that flushes late items; one for all sources of a program."""

    def __init__(self, fail: Callable[[BaseException], None], ambient: Ambient) -> None:
        self._fail = fail
        self._moving: dict[Gathering, int] = {}  # with the items read at the last check
        self._changed = threading.Condition()
        self._pause_s = HELD_S
        self._over = False
        run = ambient.bind(self._run)  # which go through the operators of a source
        self.thread = threading.Thread(target=run, name="flusher", daemon=True)

    def start(self) -> None:
        """Start it."""
        self.thread.start()

    def stop(self) -> None:
        """Stop it."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def look_after(self, source: Gathering) -> None:
        """Record that a source holds items."""
        with self._changed:
            if source in self._moving:
                return
            if not self._moving or self._pause_s > HELD_S:
                self._changed.notify()
            self._moving[source] = source.read

    def _run(self) -> None:
        try:
            while (sources := self._wait()) is not None:
                late = [source.flush_if_late(perf_counter()) for source in sources]
                longer_s = min(2 * self._pause_s, SELDOM * HELD_S)
                self._pause_s = HELD_S if any(late) else longer_s
        except AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            self._fail(explain_lack(error))

    def _wait(self) -> list[Gathering] | None:
        """Wait until something may be late; None when it is over."""
        with self._changed:
            self._moving = {
                source: source.read
                for source, before in self._moving.items()
                if source.holds or source.read != before
            }
            while not self._over:
                if not self._changed.wait(self._pause_s if self._moving else None):
                    return list(self._moving)
                self._pause_s = HELD_S  # a source is new
            return None


SLOW_S = 100e-6  # an item that takes longer to read is sent at once


class Into(Protocol):
    """The destination of a source's items."""

    def feed(self, source: str, batch: Batch) -> None:
        """Send in a batch, which is passing the source's gate."""

    def await_room(self, source: str) -> None:
        """Wait until there is room for the next batch; the gate must be free."""

    def limit(self, source: str) -> int:
        """Return the batch size."""

    def takes_tables(self, source: str) -> bool:
        """Tell whether the next items may come as a table."""

    def end(self, source: SourceThread) -> None:
        """Record that a source has ended."""

    def has_passed(self, source: SourceThread) -> bool:
        """Tell whether a source need not be read any further, because of a failure."""

    def break_off(self, source: SourceThread, error: BaseException) -> None:
        """Record that a source cannot be read any further."""


class SourceThread:
    """Reads a source to its end.

    Every batch passes its gate; when all gates are closed, the flow is paused.
    """

    def __init__(
        self,
        op: Op,
        *,
        index: int,
        turns: SourceTurns,
        gate: Gate,
        on_error: OnError,
        into: Into,
        flusher: Flusher,
        ambient: Ambient,
        ledger: Ledger | None = None,
    ) -> None:
        self.op = op
        self.gate = gate
        self.read = 0
        self.sent = 0  # the number of the last item
        self.stopping = False
        self.over = False  # its stream has been closed
        self.index = index
        self._ledger = ledger
        self._turns = turns
        self._on_error = on_error
        self._into = into
        self._flusher = flusher
        self._held: list[tuple[Any, int]] = []  # gathered, with their numbers
        self._held_since_s = 0.0
        self._live: LiveReader | None = None
        self.thread = threading.Thread(
            target=ambient.bind(self._run_guarded),
            name=f"source {op.name}",
            daemon=True,
        )

    def start(self) -> None:
        self.thread.start()

    def where(self, number: int) -> str:
        """Return the location of an item in words."""
        return f"item {number} of {self.op.name}"

    @property
    def arrivals(self) -> int:
        """The number of arrived items, as far as known: at least those read."""
        known = None if self._live is None else self._live.count_arrivals()
        return max(self.read, known or 0)

    @property
    def is_live(self) -> bool:
        """Whether items arrive by themselves."""
        return self._live is not None

    @property
    def holds(self) -> bool:
        """Whether it holds gathered items."""
        return bool(self._held)

    def flush_if_late(self, now_s: float) -> bool:
        """Send items that have waited too long; tell whether there were any."""
        late = bool(self._held) and now_s - self._held_since_s >= HELD_S
        if late:
            with self.gate:
                self._flush()
        return late

    def _run_guarded(self) -> None:
        try:
            try:
                self._drive()
            finally:
                with self.gate:
                    self._flush()
            self._into.end(self)
        except AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
            self._into.break_off(self, explain_lack(error))

    def _drive(self) -> None:
        kind = self.op.kind
        if isinstance(kind, FromIterable) and isinstance(
            kind.items, list | tuple | range
        ):
            self._drive_chunks(slice_items(iter(kind.items), 1, self._limit))
            return
        reader = open_reader(self.op, self._on_error)
        if isinstance(reader, LiveReader):
            self._drive_live(reader)
        elif (chunks := reader.chunks(self._limit, self._takes_tables)) is not None:
            self._drive_chunks(chunks)
        else:
            self._drive_reader(reader.read_numbered())

    def _limit(self) -> int:
        return self._into.limit(self.op.name)

    def _takes_tables(self) -> bool:
        return self._into.takes_tables(self.op.name)

    def _drive_chunks(self, chunks: Generator[Chunk, None, Any]) -> None:
        """Send what can be read without waiting, so that nothing is held back."""
        with contextlib.closing(chunks):
            for items, numbers in chunks:
                if self._is_over():
                    return
                with self.gate:
                    self._send(items, numbers, None, perf_counter())
                self._into.await_room(self.op.name)

    def _drive_live(self, reader: LiveReader) -> None:
        """Send what has arrived, whenever something has."""
        self._live = reader
        try:
            while not (self._is_over() or reader.ended):
                most = self._into.limit(self.op.name)
                arrived = reader.poll(most, POLL_S)
                if arrived:
                    items, numbers = zip(*arrived, strict=True)
                    read_s = perf_counter()
                    with self.gate:
                        self._send(list(items), numbers, reader.births, read_s)
                    self._into.await_room(self.op.name)
        finally:
            reader.close()

    def _drive_reader(self, stream: Iterator[tuple[Any, int]]) -> None:
        held, limit = self._held, self._into.limit(self.op.name)
        before_s = perf_counter()
        for pair in stream:
            now_s = perf_counter()
            if not held:
                self._held_since_s = now_s
            held.append(pair)
            if len(held) >= limit or now_s - before_s > SLOW_S:
                with self.gate:
                    self._flush()
                self._into.await_room(self.op.name)
                if self._into.has_passed(self):
                    return
                limit = self._into.limit(self.op.name)
                now_s = perf_counter()
            elif len(held) == 1:
                self._flusher.look_after(self)
            before_s = now_s
            if self.stopping:
                return

    def _is_over(self) -> bool:
        return self.stopping or self._into.has_passed(self)

    def next_batch(self) -> Batch:
        """Return a batch at the location of the next item."""
        columns, mark = self._turns.take(self.index, [self.sent + 1])
        origin = Origin(perf_counter(), self, self.sent + 1, self.sent + 1)
        return Batch([None], columns, mark, origin, ledger=self._ledger)

    def _flush(self) -> None:
        pairs = self._held[:]
        if not pairs or self.stopping:
            return
        del self._held[: len(pairs)]
        items, numbers = zip(*pairs, strict=True)
        births = births_of_items(self.op, items)
        self._send(list(items), numbers, births, self._held_since_s)

    def _send(
        self,
        items: list[Any],
        numbers: Sequence[int],
        births: Births | None,
        read_s: float,
    ) -> None:
        if self.stopping:
            return
        columns, mark = self._turns.take(self.index, numbers)
        oldest_s, youngest_s = births or (read_s, read_s)
        origin = Origin(
            oldest_s,
            self,
            numbers[0],
            numbers[-1],
            youngest_s - oldest_s,
            max(0.0, read_s - oldest_s),
        )
        batch = Batch(items, columns, mark, origin, ledger=self._ledger)
        self.sent = numbers[-1]
        self._into.feed(self.op.name, batch)
        self.read += len(items)
