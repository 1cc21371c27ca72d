"""The files of a path, how to open them, and how to read a range of their bytes.

The middle of a compressed file can only be reached from its beginning. So such a file
is kept open: the next range that a process needs is usually further on.
"""

from __future__ import annotations

import errno
import glob
import gzip
import itertools
import os
import threading
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from anabranch.connectors.files.splits import RowFormat, pieces
from anabranch.connectors.storage import (
    Location,
    StorePath,
    find_matching,
    is_pattern,
    locate,
)
from anabranch.errors import InputError

HIDDEN = ("_", ".")  # markers and unfinished files, as in Hadoop and Spark


def input_files(path: str, *, partitioned: bool = False) -> list[Location]:
    """Return the files of a path in reading order.

    A path is a file, a directory or a pattern, on this machine or in a store. The files
    of a directory or pattern are read in the order of their names, without those that
    begin with `_` or `.`; subdirectories are not read, except those named
    `column=value` if the input is `partitioned`. Broken links and pipes are included:
    `why_no_file` says what is wrong with them.
    """
    whole = locate(path)
    with input_errors(whole):
        if whole.is_file():
            return [whole]
        found: Sequence[Location]
        if whole.is_dir():
            found = list(_inside(whole, partitioned=partitioned))
        elif _is_there(whole) and (why := why_no_file(whole)) is not None:
            raise why
        elif is_pattern(path):
            found = matching_files(path)
        else:
            msg = (
                f"a source must read a file, a directory or a pattern; {path!r} does "
                f"not exist; check the path{_say_from_where(whole)}"
            )
            raise InputError(msg)
        files = [f for f in found if not f.name.startswith(HIDDEN) and not f.is_dir()]
    if not files:
        msg = (
            f"a source must find a file to read; {path!r} has none; "
            f"directories and names that begin with _ or . do not count"
        )
        raise InputError(msg)
    return sorted(files, key=lambda file: file.parts)


def _inside(directory: Location, *, partitioned: bool) -> Iterator[Location]:
    """Yield the files of a directory and of its partitions."""
    for path in directory.iterdir():
        named = "=" in path.name and not path.name.startswith(HIDDEN)
        if partitioned and named and path.is_dir():
            yield from _inside(path, partitioned=True)
        else:
            yield path


def _is_there(path: Location) -> bool:
    return path.exists() if isinstance(path, StorePath) else os.path.lexists(path)


def _say_from_where(path: Location) -> str:
    local = isinstance(path, Path) and not path.is_absolute()
    return f" (it is looked up from {Path.cwd()})" if local else ""


def why_no_file(path: Location) -> InputError | None:
    """Return why an input name is not a readable file, or None.

    It may be a broken link, or a pipe. Whether the file can be opened is found when it
    is opened.
    """
    with input_errors(path):
        if isinstance(path, StorePath) or path.is_file() or not os.path.lexists(path):
            return None
        what = "a pipe, a socket or a device"
        if path.is_symlink() and not path.exists():
            what = f"a link to {path.readlink()}, which leads nowhere"
    return InputError(
        f"{path} must be a file; it is {what}; remove it, fix it, or give it a name "
        f"that begins with _ or ."
    )


def matching_files(pattern: str) -> Sequence[Location]:
    """Return the matches of a pattern, unordered; each file must be found once."""
    if isinstance(locate(pattern), StorePath):
        return find_matching(pattern)
    found = _glob(pattern)
    _refuse_closed(pattern)
    if "**" in pattern:
        for directory in sorted({file.parent for file in found}):
            _refuse_circle(directory, pattern)
    return found


def _glob(pattern: str) -> list[Path]:
    return [Path(name) for name in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - Path.glob takes no absolute pattern


def _refuse_closed(pattern: str) -> None:
    """Refuse a directory without permission to list it: a pattern would skip it."""
    parts = Path(pattern).parts
    first = next(n for n, part in enumerate(parts) if glob.has_magic(part))
    for index in range(first, len(parts)):
        lists = os.R_OK if glob.has_magic(parts[index]) else 0
        for directory in _glob(str(Path(*parts[:index]))):
            if directory.is_dir() and not os.access(directory, lists | os.X_OK):
                raise input_error(directory, OSError(errno.EACCES, ""))


def _refuse_circle(directory: Path, pattern: str) -> None:
    """Refuse a directory that was reached through a link to one above it.

    `**` follows such links, so the same files would be read again and again.
    """
    fixed = itertools.takewhile(lambda p: not glob.has_magic(p), Path(pattern).parts)
    depth = len(list(fixed))
    inside: set[str] = set()
    for above in (directory, *directory.parents):
        if len(above.parts) < depth:
            return
        real = os.path.realpath(above)
        if real in inside:
            msg = (
                f"the files of a pattern must be found once each; {pattern!r} finds "
                f"files in {directory}, where a link leads back to {real}; remove the "
                f"link, or give a pattern without **"
            )
            raise InputError(msg)
        inside.add(real)


def is_compressed(path: Location) -> bool:
    """Tell whether a file must be read from its beginning.

    >>> is_compressed(Path("events.jsonl.gz"))
    True
    """
    return path.suffix == ".gz"


def read_pieces(
    path: Location, layout: RowFormat, size: int = 1 << 20, most: int = 0
) -> Iterator[bytes]:
    """Read a file in pieces of whole rows, without a byte order mark.

    They begin with about `size` bytes and grow up to `most`.
    """
    with open_file(path) as file:
        yield from pieces(file, layout, size, most)


@contextmanager
def open_file(path: Location) -> Iterator[BinaryIO]:
    """Open a file for reading; its failures become an `InputError`."""
    with input_errors(path):
        if is_compressed(path):
            with _open_gzip(path) as file:
                yield cast("BinaryIO", ToTheDamage(file))
        else:
            with path.open("rb") as plain:
                yield plain


@contextmanager
def input_errors(path: Location) -> Iterator[None]:
    """Turn failures of a file into an `InputError`."""
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        msg = (
            f"{path} must be a whole gzip file; it is damaged or cut off ({error}); "
            f"fetch or compress it again"
        )
        raise InputError(msg) from error
    except OSError as error:
        raise input_error(path, error) from error


def input_error(path: Location, error: OSError) -> InputError:
    """Return the user's error for a failure of the file system.

    >>> str(input_error(Path("in.csv"), OSError(13, ""))).partition("; check")[0]
    'in.csv must be readable; Permission denied'
    """
    why = str(error) if error.errno is None else os.strerror(error.errno)
    return InputError(
        f"{path} must be readable; {why}; check the path and its permissions (on a "
        f"cluster every worker must see the file there)"
    )


def _open_gzip(path: Location) -> gzip.GzipFile:
    return gzip.open(path if isinstance(path, Path) else path.open("rb"))


class ToTheDamage:
    """Reads a compressed file up to the place where it is damaged or truncated.

    `GzipFile.read` would withhold the data before the damage.
    """

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file
        self._damage: Exception | None = None

    def read(self, size: int) -> bytes:
        """Return `size` bytes, or what there is before the end or the damage."""
        blocks = []
        while size > 0 and self._damage is None:
            try:
                block = self._file.read1(size)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                self._damage = error
                break
            if not block:
                break
            blocks.append(block)
            size -= len(block)
        if self._damage is not None and not blocks:
            raise self._damage
        return b"".join(blocks)


_KEPT = 4
_BLOCK = 1 << 20


def read_range(path: Location, start: int, size: int) -> bytes:
    """Return `size` bytes from `start`, or as many as there are.

    For a compressed file these are offsets of the uncompressed data. If it is damaged,
    the bytes before the damage are returned first.
    """
    if not is_compressed(path):
        with open_file(path) as file:
            file.seek(start)
            return file.read(size)
    with input_errors(path):
        unpacking = _take_nearest(path, start)
        data = unpacking.read(start, size)
    _keep(unpacking)
    return data


def let_go(paths: Collection[Location]) -> None:
    """Close these files, if they are open."""
    with _lock:
        for unpacking in [one for one in _kept if one.path in paths]:
            _kept.remove(unpacking)
            unpacking.close()


class _Unpacking:
    """A compressed file that has been read up to `at`."""

    def __init__(self, path: Location) -> None:
        self.path = path
        self.at = 0
        self._file = _open_gzip(path)
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


_kept: list[_Unpacking] = []  # least recently used first
_lock = threading.Lock()


def _take_nearest(path: Location, start: int) -> _Unpacking:
    """Return the open file that is nearest before `start`."""
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
