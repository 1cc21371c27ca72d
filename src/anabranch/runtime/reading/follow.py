"""Read a directory that keeps growing, file after file, for as long as the job runs."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

from anabranch.graph.graph import Op
from anabranch.graph.sources import ReadFiles
from anabranch.runtime.failures import OnError
from anabranch.runtime.reading.live import LiveReader
from anabranch.runtime.reading.reader import FileReader
from anabranch.runtime.reading.watch import Watch


class FollowReader(LiveReader):
    """The rows of files as they become complete."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        self._files = FileReader(op, on_error)
        self._watch = Watch(op.kind.path)
        self._waiting: deque[Path] = deque()
        self._next = 1
        self._rows: Iterator[tuple[Any, int]] = iter(())
        self._pause = Event()  # never set: a sleep that `close` could end

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        taken = list(itertools.islice(self._rows, most))
        if not taken and not self._waiting:
            self._waiting.extend(self._watch.new_files())
        if not taken and self._waiting:
            self._rows = self._numbered(self._waiting.popleft())
            taken = list(itertools.islice(self._rows, most))
        elif not taken:
            self._pause.wait(wait_s)
        return taken

    def where(self, number: int) -> str:
        return self._files.where(number)

    def close(self) -> None:
        self.ended = True
        self._pause.set()

    def _numbered(self, path: Path) -> Iterator[tuple[Any, int]]:
        self._next = yield from self._files.read_file(path, self._next)
