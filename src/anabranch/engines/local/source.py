"""The thread of a source: reads, and drives what follows by direct calls.

Collections and files never keep anybody waiting: as many items are taken as should go
together. Other items are gathered while they come quickly; none waits for the next
one. An iterator does not tell that it is about to block: what was gathered is then sent
on by the flusher.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator, Sequence
from time import perf_counter
from typing import Any, Protocol

from anabranch.engines.local.flusher import HELD_S, Flusher
from anabranch.engines.local.gate import Gate
from anabranch.engines.local.turns import Turns
from anabranch.graph.graph import Op
from anabranch.graph.sources import FromIterable
from anabranch.runtime.batch import Batch, Origin
from anabranch.runtime.failures import OnError
from anabranch.runtime.ports import AbortedError
from anabranch.runtime.reading.chunks import Chunk, sliced
from anabranch.runtime.reading.live import POLL_S, LiveReader
from anabranch.runtime.reading.open import open_reader

SLOW_S = 100e-6  # an item that takes longer to read is sent on at once


class Into(Protocol):
    """Where a source sends what it reads."""

    def feed(self, source: str, batch: Batch) -> None:
        """Send a batch in; it is passing the source's gate."""

    def await_room(self, source: str) -> None:
        """Wait until there is room for the next batch; the gate must be free."""

    def limit(self, source: str) -> int:
        """Return how many items should come at a time."""

    def end(self, source: SourceThread) -> None:
        """Take note that a source has been read to its end."""

    def fail(self, error: BaseException) -> None:
        """Take note that a source cannot go on."""


class SourceThread:
    """Reads a source to its end.

    Every batch goes through its gate; when all gates are closed, the flow is suspended.
    """

    def __init__(
        self,
        op: Op,
        *,
        index: int,
        turns: Turns,
        gate: Gate,
        on_error: OnError,
        into: Into,
        flusher: Flusher,
    ) -> None:
        self.op = op
        self.gate = gate
        self.read = 0
        self.stopping = False
        self.over = False  # its stream has been closed
        self._index = index
        self._turns = turns
        self._on_error = on_error
        self._into = into
        self._flusher = flusher
        self._held: list[tuple[Any, int]] = []  # gathered, with their numbers
        self._held_since_s = 0.0
        self._live: LiveReader | None = None
        self.thread = threading.Thread(
            target=self._guarded, name=f"source {op.name}", daemon=True
        )

    def start(self) -> None:
        self.thread.start()

    def where(self, number: int) -> str:
        """Return where an item stood, in words."""
        return f"item {number} of {self.op.name}"

    @property
    def arrived(self) -> int:
        """How many items have arrived, as far as is known: at least what was read."""
        known = None if self._live is None else self._live.arrived()
        return max(self.read, known or 0)

    @property
    def is_live(self) -> bool:
        """Whether items arrive by themselves."""
        return self._live is not None

    @property
    def holds(self) -> bool:
        """Whether it has gathered items that are not sent on yet."""
        return bool(self._held)

    def flush_if_late(self, now_s: float) -> bool:
        """Send on what has waited for too long; tell whether there was something."""
        late = bool(self._held) and now_s - self._held_since_s >= HELD_S
        if late:
            with self.gate:
                self._flush()
        return late

    def _guarded(self) -> None:
        try:
            self._drive()
            self._into.end(self)
        except AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._into.fail(error)

    def _drive(self) -> None:
        kind = self.op.kind
        if isinstance(kind, FromIterable) and isinstance(
            kind.items, list | tuple | range
        ):
            self._drive_chunks(sliced(iter(kind.items), 1, self._limit))
            return
        reader = open_reader(self.op, self._on_error)
        if isinstance(reader, LiveReader):
            self._drive_live(reader)
        elif (chunks := reader.chunks(self._limit)) is not None:
            self._drive_chunks(chunks)
        else:
            self._drive_reader(reader.numbered())

    def _limit(self) -> int:
        return self._into.limit(self.op.name)

    def _drive_chunks(self, chunks: Generator[Chunk, None, Any]) -> None:
        """Send on what is there without a wait, so that nothing has to be held back."""
        with contextlib.closing(chunks):
            for items, numbers in chunks:
                if self.stopping:
                    return
                with self.gate:
                    self._send(items, numbers, perf_counter())
                self._into.await_room(self.op.name)

    def _drive_live(self, reader: LiveReader) -> None:
        """Send on what has arrived, whenever something has."""
        self._live = reader
        try:
            while not (self.stopping or reader.ended):
                most = self._into.limit(self.op.name)
                arrived = reader.poll(most, POLL_S)
                if arrived:
                    items, numbers = zip(*arrived, strict=True)
                    born_s = reader.oldest_s or perf_counter()
                    with self.gate:
                        self._send(list(items), numbers, born_s)
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
                limit = self._into.limit(self.op.name)
                now_s = perf_counter()
            elif len(held) == 1:
                self._flusher.look_after(self)
            before_s = now_s
            if self.stopping:
                return
        with self.gate:
            self._flush()

    def _flush(self) -> None:
        pairs = self._held[:]
        if not pairs or self.stopping:
            return
        del self._held[: len(pairs)]
        items, numbers = zip(*pairs, strict=True)
        self._send(list(items), numbers, self._held_since_s)

    def _send(self, items: list[Any], numbers: Sequence[int], born_s: float) -> None:
        if self.stopping:
            return
        columns, mark = self._turns.take(self._index, numbers)
        origin = Origin(born_s, self, numbers[0], numbers[-1])
        self._into.feed(self.op.name, Batch(items, columns, mark, origin))
        self.read += len(items)
