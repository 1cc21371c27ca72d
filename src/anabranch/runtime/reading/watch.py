"""Watch a directory that keeps growing: which files are new, and which are complete.

A file is complete when it has not changed, in size and time of modification, for
`SETTLE_S`. Whoever writes more slowly than that writes under a name that begins with
`.` or `_` and renames the file in the end. Files that are complete at the same look
are taken in the order of their names. A file that changes after it was taken would
lose rows in silence: it is an error.
"""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from anabranch.errors import InputError
from anabranch.runtime.reading.files import HIDDEN

SETTLE_S = 1.0


class Look(NamedTuple):
    """A file as it was seen: a change shows in one of these."""

    size: int
    modified_ns: int


class Watch:
    """The files of a directory or pattern as they appear.

    `now_s` is the clock: seconds since the epoch, as modification times are.
    """

    def __init__(
        self,
        path: str,
        now_s: Callable[[], float] = time.time,
        taken: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Begin with nothing taken, or with what `taken` was at an earlier time."""
        self._path = path
        self._now_s = now_s
        self._seen: dict[str, tuple[Look, float]] = {}  # and since when it is so
        self.taken = {name: Look(*look) for name, look in (taken or {}).items()}
        if Path(path).is_file() or not (glob.has_magic(path) or Path(path).is_dir()):
            msg = (
                f"a source with follow=True must watch a directory or a pattern; "
                f"{path!r} is neither; give the directory that the files appear in"
            )
            raise InputError(msg)

    def new_files(self) -> list[Path]:
        """Return the files that have become complete since the last call."""
        now_s = self._now_s()
        complete = []
        there = set()
        for path, look in self._looks():
            name = str(path)
            there.add(name)
            if name in self.taken:
                self._refuse_change(name, look)
                continue
            before, since_s = self._seen.get(name, (None, 0.0))
            if before != look:
                # A file from before we looked was complete then already.
                since_s = now_s if before else min(now_s, look.modified_ns / 1e9)
                self._seen[name] = look, since_s
            if now_s - since_s >= SETTLE_S:
                complete.append((path, look))
        for path, look in complete:
            self.taken[str(path)] = look
        for name in [n for n in self._seen if n not in there or n in self.taken]:
            del self._seen[name]
        for name in [n for n in self.taken if n not in there]:
            del self.taken[name]  # a new file may come under its name
        return sorted((path for path, _ in complete), key=lambda path: path.parts)

    def _looks(self) -> Iterator[tuple[Path, Look]]:
        if glob.has_magic(self._path):
            found = glob.glob(self._path, recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
            paths = [Path(name) for name in found]
        else:
            paths = [Path(entry.path) for entry in os.scandir(self._path)]
        for path in paths:
            if path.name.startswith(HIDDEN):
                continue
            try:
                status = path.stat()
            except FileNotFoundError:  # gone in between
                continue
            if path.is_file():
                yield path, Look(status.st_size, status.st_mtime_ns)

    def _refuse_change(self, name: str, look: Look) -> None:
        if self.taken[name].size == look.size:
            return
        msg = (
            f"a file that was read must not change; {name} had "
            f"{self.taken[name].size} bytes and has {look.size} now; write new rows "
            f"to a new file, under a name that begins with . until it is complete"
        )
        raise InputError(msg)
