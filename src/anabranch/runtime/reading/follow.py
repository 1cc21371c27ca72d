"""Read a directory that keeps growing, file after file, for as long as the job runs.

A file that turns out to be damaged, or is gone, need not end a job that has no end: it
is told to `on_error`, and if that returns, the rows before the damage stay and the
next file follows.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.failures import Failure, OnError, failure_of
from anabranch.runtime.reading.live import LiveReader
from anabranch.runtime.reading.reader import FileReader
from anabranch.runtime.reading.watch import Watch


class FollowReader(LiveReader):
    """The rows of files as they become complete."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        self._op = op
        self._on_error = on_error
        self._files = FileReader(op, on_error)
        self._watch = Watch(op.kind.path)
        self._waiting: deque[Path] = deque()
        self._next = 1
        self._rows: Iterator[tuple[Any, int]] = iter(())

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        taken = list(itertools.islice(self._rows, most))
        if not taken and not self._waiting:
            self._waiting.extend(self._watch.new_files())
        if not taken and self._waiting:
            self._rows = self._read(self._waiting.popleft())
            taken = list(itertools.islice(self._rows, most))
        elif not taken:
            time.sleep(wait_s)
        return taken

    def where(self, number: int) -> str:
        return self._files.where(number)

    def close(self) -> None:
        self.ended = True

    def _read(self, path: Path) -> Iterator[tuple[Any, int]]:
        for item, number in read_to_damage(self._files, path, self._next, self._op):
            if isinstance(item, Failure):
                self._on_error(item)
            else:
                yield item, number
            self._next = number + 1


def read_to_damage(
    files: FileReader, path: Path, first: int, op: Op
) -> Iterator[tuple[Any, int]]:
    """Give the items of a file; where it cannot be read on, a `Failure` is the last."""
    number = first - 1
    try:
        for item, number in files.read_file(path, first):
            yield item, number
    except InputError as error:
        yield damage_of(op, path, error), number


def damage_of(op: Op, path: Path, error: InputError) -> Failure:
    """Return the failure of a source on a file as a whole."""
    return failure_of(op, str(path), str(path), error)
