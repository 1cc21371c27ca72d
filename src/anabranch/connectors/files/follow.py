"""Reads a growing directory, file by file, for as long as the job runs.

A file is complete when its size and modification time have not changed for `SETTLE_S`.
A slower writer uses a name that begins with `.` or `_` and renames the file at the end.
Files found complete together are read in the order of their names. A file that changes
after it was read would lose rows silently, so that is an error.

A damaged or missing file need not end a job that runs forever: it goes to `on_error`,
and if that returns, the rows before the damage stay and the next file follows.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from anabranch.connectors.files.input_files import (
    HIDDEN,
    input_errors,
    matching_files,
    why_no_file,
)
from anabranch.connectors.reader import FileReader, LiveReader, damage_of
from anabranch.connectors.storage import Location, is_pattern, locate
from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.operators.sources import ReadFiles
from anabranch.runtime.births import Births, on_this_clock
from anabranch.runtime.failures import Failure, OnError

SETTLE_S = 1.0


class Look(NamedTuple):
    """The state of a file: a change shows in one of these."""

    size: int
    modified_ns: int


NO_FILE = Look(-1, 0)  # a broken link, or a pipe: reading it reports that


def _look_at(path: Location) -> Look | None:
    """Return the state of a file; None for a directory, and if it is gone."""
    with input_errors(path):
        if why_no_file(path) is not None:
            return None if path.is_dir() else NO_FILE
        try:
            status = path.stat()
        except FileNotFoundError:
            return None
    return Look(status.st_size, status.st_mtime_ns)


class FileWatch:
    """The files of a directory or pattern as they appear.

    `now_s` measures how long a file has not changed. `wall_s` gives seconds since 1970,
    as modification times are: the age of a file when it is first seen. If that clock
    was set meanwhile, modification times are not believed.
    """

    def __init__(
        self,
        path: str,
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
        taken: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Begin with nothing taken, or with an earlier value of `taken`."""
        self._path = path
        self._now_s = now_s
        self._wall_s = wall_s
        self._ahead_s = wall_s() - now_s()
        self._seen: dict[str, tuple[Look, float]] = {}  # and since when
        self.taken = {name: Look(*look) for name, look in (taken or {}).items()}
        place = locate(path)
        with input_errors(place):
            growing = place.is_dir() or (is_pattern(path) and not place.is_file())
        if not growing:
            msg = (
                f"a source with follow=True must watch a directory or a pattern; "
                f"{path!r} is neither; give the directory that the files appear in"
            )
            raise InputError(msg)

    def new_files(self) -> list[Location]:
        """Return the files that have become complete since the last call."""
        now_s, wall_s = self._now_s(), self._wall_s()
        was_set = abs(wall_s - now_s - self._ahead_s) > SETTLE_S / 2
        self._ahead_s = wall_s - now_s
        complete = []
        there = set()
        for path, look in self._looks():
            name = str(path)
            there.add(name)
            if self.taken.get(name) == NO_FILE != look:
                del self.taken[name]  # a link that now leads somewhere
            if name in self.taken:
                if look != NO_FILE:  # a file that was read may be removed
                    self._refuse_change(name, look)
                continue
            before, since_s = self._seen.get(name, (None, 0.0))
            if before != look:
                # A file from before we started was already complete.
                known = before is None and look != NO_FILE and not was_set
                age_s = wall_s - look.modified_ns / 1e9 if known else 0.0
                since_s = now_s - max(0.0, age_s)
                self._seen[name] = look, since_s
            if now_s - since_s >= SETTLE_S:
                complete.append((path, look))
        for path, look in complete:
            self.taken[str(path)] = look
        for name in [n for n in self._seen if n not in there or n in self.taken]:
            del self._seen[name]
        for name in [n for n in self.taken if n not in there]:
            del self.taken[name]  # a new file may appear under its name
        return sorted((path for path, _ in complete), key=lambda path: path.parts)

    def look(self, path: Location) -> Look:
        """Return the state of a file when it was taken."""
        return self.taken.get(str(path), NO_FILE)

    def _looks(self) -> Iterator[tuple[Location, Look]]:
        place = locate(self._path)
        with input_errors(place):
            if is_pattern(self._path) and not place.is_dir():
                paths = matching_files(self._path)
            else:
                paths = list(place.iterdir())
        for path in paths:
            look = None if path.name.startswith(HIDDEN) else _look_at(path)
            if look is not None:
                yield path, look

    def _refuse_change(self, name: str, look: Look) -> None:
        if self.taken[name].size == look.size:
            return
        msg = (
            f"a file that was read must not change; {name} had "
            f"{self.taken[name].size} bytes and has {look.size} now; write new rows "
            f"to a new file, under a name that begins with . until it is complete"
        )
        raise InputError(msg)


class RowScale:
    """Estimates the backlog in rows from bytes and the bytes per row so far.

    >>> scale = RowScale()
    >>> scale.begin(1000)
    >>> scale.pass_rows(10)
    >>> scale.begin(1000)  # so the first file had 10 rows
    >>> scale.pass_rows(4)
    >>> scale.estimate_left(2000)
    26
    """

    def __init__(self) -> None:
        self.rows = 0
        self._known = (0, 0)  # bytes and rows of the files read
        self._file_bytes = 0

    def begin(self, size: int) -> None:
        """Record the size of the next file."""
        known_bytes, _ = self._known
        self._known = known_bytes + self._file_bytes, self.rows
        self._file_bytes = max(0, size)

    def pass_rows(self, rows: int) -> None:
        """Record that rows of it were read."""
        self.rows += rows

    def estimate_left(self, waiting_bytes: int) -> int:
        """Return the approximate rows left in the file, and in waiting files."""
        known_bytes, known_rows = self._known
        if not known_rows:
            return 0
        rate = known_rows / max(1, known_bytes)
        here = max(0.0, self._file_bytes * rate - (self.rows - known_rows))
        return round(here + waiting_bytes * rate)


class FollowReader(LiveReader):
    """The rows of files as they become complete."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, ReadFiles)  # noqa: S101
        self._op = op
        self._on_error = on_error
        self._files = FileReader(op, on_error)
        self._watch = FileWatch(op.kind.path)
        self._waiting: deque[Location] = deque()
        self._next = 1
        self._rows: Iterator[tuple[Any, int]] = iter(())
        self._scale = RowScale()
        self._path: Location | None = None  # of the current file

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        taken = list(itertools.islice(self._rows, most))
        if not taken and not self._waiting:
            self._waiting.extend(self._watch.new_files())
        if not taken and self._waiting:
            self._path = self._waiting.popleft()
            self._scale.begin(self._watch.look(self._path).size)
            self._rows = self._read(self._path)
            taken = list(itertools.islice(self._rows, most))
        elif not taken:
            time.sleep(wait_s)
        self._scale.pass_rows(len(taken))
        self.births = self._births() if taken else None
        return taken

    def count_arrivals(self) -> int:
        waiting = [self._watch.look(path).size for path in tuple(self._waiting)]
        return self._scale.rows + self._scale.estimate_left(sum(waiting))

    def _births(self) -> Births | None:
        """Return the file's modification time, as the birth of its last row."""
        look = NO_FILE if self._path is None else self._watch.look(self._path)
        at_s = look.modified_ns / 1e9
        return on_this_clock(Births(at_s, at_s)) if at_s else None

    def where(self, number: int) -> str:
        return self._files.where(number)

    def close(self) -> None:
        self.ended = True

    def _read(self, path: Location) -> Iterator[tuple[Any, int]]:
        for item, number in read_to_damage(self._files, path, self._next, self._op):
            if isinstance(item, Failure):
                self._on_error(item)
            else:
                yield item, number
            self._next = number + 1


def read_to_damage(
    files: FileReader, path: Location, first: int, op: Op
) -> Iterator[tuple[Any, int]]:
    """Yield the items of a file; where it cannot be read on, a `Failure` comes last."""
    number = first - 1
    try:
        if (why := why_no_file(path)) is not None:
            raise why
        for item, number in files.read_file(path, first):
            yield item, number
    except InputError as error:
        yield damage_of(op, path, error), number
