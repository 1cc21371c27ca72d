"""Outputs that grow part by part while a job runs: each part appears complete.

A part ends when it is old enough, or has enough items or bytes. Then it is renamed to
its place, under the next number, and the next item begins another one. `_SUCCESS` is
written when the job has succeeded.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from anabranch.connectors.files.writer import (
    SUCCESS,
    OutputPlace,
    Writer,
    next_number,
    output_errors,
    part_name,
    refuse_occupied,
    remove,
    writer_at,
)
from anabranch.connectors.storage import Location
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteFiles


class RollingDirectory:
    """The directory of a growing output: where its next part goes."""

    def __init__(self, kind: WriteFiles) -> None:
        """Make the directory; existing content is removed, kept, or refused."""
        self.kind = kind
        self.path = Path(kind.path)
        refuse_occupied(kind)
        with output_errors(self.path):
            if kind.mode == "overwrite":
                remove(self.path)
            elif self.path.is_file():  # an empty one
                self.path.unlink()
            self.path.mkdir(parents=True, exist_ok=True)
            (self.path / SUCCESS).unlink(missing_ok=True)
        self._next = next_number(self.path)

    def next_part(self) -> Path:
        """Return the path of the next part."""
        self._next += 1
        return self.path / part_name(self._next - 1, self.kind.format)

    def complete(self) -> None:
        """Mark the output as complete."""
        with output_errors(self.path):
            (self.path / SUCCESS).touch()


class RollingWriter:
    """Takes items one by one, as a `Writer` does, and writes them to parts."""

    def __init__(self, op: Op, item_type: Any) -> None:
        assert isinstance(op.kind, WriteFiles)  # noqa: S101
        self._kind = op.kind
        self._type = item_type
        self._directory = RollingDirectory(op.kind)
        self._lock = threading.RLock()
        self._part: Writer | None = None
        self._before: Writer | None = None  # of the part before
        self._items = 0
        self._failed: OutputError | None = None
        self._timer: threading.Timer | None = None
        self._parts = 0

    def write(self, item: Any) -> None:
        """Append an item."""
        with self._lock:
            self._open().write(item)
            self._took(1)

    def write_all(self, items: Sequence[Any]) -> bool:
        """Append items at once; False: one does not fit, none was added."""
        with self._lock:
            most = self._kind.roll_items
            beyond = most is not None and self._items + len(items) > most
            if beyond or self._kind.roll_bytes is not None:
                return False  # one by one, parts end where they should
            taken = self._open().write_all(items)
            if taken:
                self._took(len(items))
            return taken

    def commit(self) -> None:
        """End the last part, and the output."""
        with self._lock:
            if self._part is None and not self._parts and self._type is not None:
                self._open()  # an empty output has its columns
            self._roll()
            self._directory.complete()

    def abort(self) -> None:
        """Discard the current part; published ones stay."""
        with self._lock:
            self._stop_timer()
            if self._part is not None:
                self._part.abort()
                self._part = None

    def _open(self) -> Writer:
        if self._failed is not None:
            raise self._failed
        if self._part is None:
            kind = WriteFiles(str(self._directory.next_part()), self._kind.format)
            self._part = writer_at(OutputPlace(kind), self._type)
            if self._before is not None:
                self._part.follow(self._before)
            self._items = 0
            self._parts += 1
            if self._kind.roll_s is not None:
                self._timer = start_timer(self._kind.roll_s, self._roll_when_old)
        return self._part

    def _took(self, count: int) -> None:
        self._items += count
        most, size = self._kind.roll_items, self._kind.roll_bytes
        full = most is not None and self._items >= most
        if full or (size is not None and self._open().measure() >= size):
            self._roll()

    def _roll_when_old(self) -> None:
        with self._lock:
            try:
                self._roll()
            except OutputError as error:
                self._failed = error  # told where items come in

    def _roll(self) -> None:
        self._stop_timer()
        part, self._part = self._part, None
        if part is not None:
            part.commit()
            self._before = part

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Pending:
    """The content of the next part: its age, items and bytes."""

    def __init__(self, kind: WriteFiles) -> None:
        self._kind = kind
        self.paths: list[Location] = []
        self.items = 0
        self._since_s = 0.0

    def add(self, paths: Sequence[Location]) -> None:
        """Add the files of an epoch."""
        if paths and not self.paths:
            self._since_s = time.monotonic()
        self.paths += paths

    @property
    def is_due(self) -> bool:
        """Whether it is old or large enough."""
        kind = self._kind
        if not self.paths:
            return False
        if kind.roll_s is not None and time.monotonic() - self._since_s >= kind.roll_s:
            return True
        if kind.roll_items is not None and self.items >= kind.roll_items:
            return True
        size = sum(path.stat().st_size for path in self.paths)
        return kind.roll_bytes is not None and size >= kind.roll_bytes

    def clear(self) -> None:
        """Reset."""
        self.paths, self.items = [], 0


def start_timer(seconds: float, act: Callable[[], None]) -> threading.Timer:
    """Return a started timer that keeps no process alive."""
    timer = threading.Timer(seconds, act)
    timer.daemon = True
    timer.start()
    return timer
