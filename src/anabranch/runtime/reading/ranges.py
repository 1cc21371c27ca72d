"""Reads a range of the bytes of a file, plain or compressed.

The middle of a compressed file can only be reached from its beginning. Such files are
therefore kept open: the next range that a process needs is usually further on.
"""

from __future__ import annotations

import gzip
import threading
from collections.abc import Collection
from pathlib import Path

from anabranch.runtime.reading.files import (
    ToTheDamage,
    input_errors,
    is_compressed,
    opened,
)

_KEPT = 4
_BLOCK = 1 << 20


def read_range(path: Path, start: int, size: int) -> bytes:
    """Return `size` bytes from `start` on, or what there is of them.

    Bytes of a compressed file are counted as they are when unpacked. Where it is
    damaged, those before the damage are returned first.
    """
    if not is_compressed(path):
        with opened(path) as file:
            file.seek(start)
            return file.read(size)
    with input_errors(path):
        unpacking = _taken(path, start)
        data = unpacking.read(start, size)
    _keep(unpacking)
    return data


def let_go(paths: Collection[Path]) -> None:
    """Close these files, if they were kept open."""
    with _lock:
        for unpacking in [one for one in _kept if one.path in paths]:
            _kept.remove(unpacking)
            unpacking.close()


class _Unpacking:
    """A compressed file that has been read up to `at`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.at = 0
        self._file = gzip.open(path)  # noqa: SIM115 - closed when it is let go
        self._content = ToTheDamage(self._file)

    def read(self, start: int, size: int) -> bytes:
        while self.at < start:
            if not self._read(min(_BLOCK, start - self.at)):
                return b""
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = self._content.read(size)
        self.at += len(data)
        return data

    def close(self) -> None:
        self._file.close()


_kept: list[_Unpacking] = []  # the one that was used last is last
_lock = threading.Lock()


def _taken(path: Path, start: int) -> _Unpacking:
    """Return the file, as near before `start` as somebody has read it."""
    with _lock:
        before = [one for one in _kept if one.path == path and one.at <= start]
        if before:
            nearest = max(before, key=lambda one: one.at)
            _kept.remove(nearest)
            return nearest
    return _Unpacking(path)


def _keep(unpacking: _Unpacking) -> None:
    with _lock:
        _kept.append(unpacking)
        while len(_kept) > _KEPT:
            _kept.pop(0).close()
