"""The files of a path: how to open them, read a range of bytes, and detect changes.

The middle of a compressed file can only be reached from its beginning. So such a file
is kept open: the next range that a process needs is usually further on.

A job that continues from a checkpoint resumes at a position. That is only right if the
input before that position has not been rewritten. So a position has, for the current
file, its size, its modification time and a hash of the part that was read; and for all
files before it one digest of sizes and times, and one of contents. If size and time are
unchanged, only the two ends of the part are compared. Otherwise all of it is read
again: a file that has only grown, or was copied, is still the same.

Content is hashed in blocks, so that hashing can continue from a position.
"""

from __future__ import annotations

import errno
import glob
import gzip
import itertools
import os
import threading
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import xxhash

from anabranch.connectors.files.splits import RowFormat, pieces
from anabranch.connectors.storage import (
    Location,
    StorePath,
    advise_on_place,
    describe_failure,
    find_matching,
    is_pattern,
    locate,
)
from anabranch.errors import CheckpointError, InputError, advise

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
    why = describe_failure(path, error)
    local = (
        "check the path and its permissions (on a cluster every worker must see the "
        "file there)"
    )
    advice = advise(why, advise_on_place(path, local))
    return InputError(f"{path} must be readable; {why}; {advice}")


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


BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class FileLook:
    """The size and modification time of a file."""

    size: int
    time_ns: int

    @classmethod
    def at(cls, path: Location) -> FileLook:
        """Return the current size and time of a file."""
        with input_errors(path):
            found = path.stat()
        return cls(found.st_size, found.st_mtime_ns)


class InputDigest:
    """The part of a file that was read; a compressed file counts uncompressed bytes."""

    def __init__(self, path: Location) -> None:
        self.path = path
        self.look = FileLook.at(path)
        self._blocks = 0
        self._head = self._chain = ""
        self._rest = b""

    def look_again(self) -> None:
        """Record size and time before reading more: a later change will be noticed."""
        self.look = FileLook.at(self.path)

    def feed(self, data: bytes) -> None:
        """Add data that was read."""
        missing = BLOCK_BYTES - len(self._rest)
        if len(data) < missing:
            self._rest += data
            return
        self._link(xxhash.xxh3_128_digest(self._rest + data[:missing]))
        view, at = memoryview(data), missing
        while len(data) - at >= BLOCK_BYTES:
            self._link(xxhash.xxh3_128_digest(view[at : at + BLOCK_BYTES]))
            at += BLOCK_BYTES
        self._rest = data[at:]

    def skip(self, until: int, digests: Mapping[int, bytes]) -> None:
        """Note the bytes up to an offset, by the digests of their blocks.

        What is left of a block, and a block without a digest, is read.
        """
        while self._blocks < until // BLOCK_BYTES:
            known = digests.get(self._blocks)
            if known is None:
                self._read((self._blocks + 1) * BLOCK_BYTES)
            else:
                self._link(known)
                self._rest = b""
        self._read(until)

    def _read(self, until: int) -> None:
        at = self._blocks * BLOCK_BYTES + len(self._rest)
        data = read_range(self.path, at, until - at)
        if len(data) < until - at:
            raise describe_cut_off(self.path, until, at + len(data))
        self.feed(data)

    def _link(self, digest: bytes) -> None:
        self._chain = _link_digest(self._chain, digest)
        self._head = self._head or self._chain
        self._blocks += 1

    @property
    def content(self) -> str:
        """A digest of everything read."""
        return _link(self._chain, self._rest)

    def position(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            **vars(self.look),
            "blocks": self._blocks,
            "head": self._head,
            "chain": self._chain,
            "content": self.content,
        }

    @classmethod
    def resume(
        cls, path: Location, offset: int, position: dict[str, Any]
    ) -> InputDigest:
        """Continue from a position; refuse a file that was rewritten before
        `offset`.
        """
        made = cls(path)
        blocks = position["blocks"]
        start = blocks * BLOCK_BYTES
        rest = read_range(path, start, offset - start)
        same = _link(position["chain"], rest) == position["content"]
        if same and blocks:
            same = _link("", read_range(path, 0, BLOCK_BYTES)) == position["head"]
        if same and vars(made.look) != {k: position[k] for k in vars(made.look)}:
            same = _chain_of(path, blocks) == position["chain"]
        if not same:
            raise _describe_rewritten(path, f"before byte {offset}")
        made._blocks, made._rest = blocks, rest
        made._head, made._chain = position["head"], position["chain"]
        return made


@dataclass(frozen=True)
class PassedFiles:
    """Digests of the files that were read to their end."""

    looks: str = ""
    contents: str = ""

    def with_file(self, path: Location, look: FileLook, content: str) -> PassedFiles:
        """Return them with one more file."""
        name = os.fsencode(str(path))  # a name need not be UTF-8
        return PassedFiles(
            _link(self.looks, name + f" {look.size} {look.time_ns}".encode()),
            _link(self.contents, name + f" {content}".encode()),
        )

    def check(self, files: Sequence[Location], *, by_content: bool) -> None:
        """Refuse files changed since; `by_content`, a new time alone is accepted."""
        found = PassedFiles()
        for path in files:
            found = found.with_file(path, FileLook.at(path), "")
        if found.looks == self.looks:
            return
        if by_content:
            found = PassedFiles()
            for path in files:
                found = found.with_file(path, FileLook.at(path), content_of(path))
            if found.contents == self.contents:
                return
        newest = max(files, key=lambda path: FileLook.at(path).time_ns, default=None)
        what = f"one of the {len(files)} files that were read to their end"
        where = f"since (the one that was changed last is {newest})"
        raise _describe_rewritten(what, where)


def content_of(path: Location) -> str:
    """Return the digest of a file's whole content, as `InputDigest.content`."""
    made = InputDigest(path)
    at = 0
    while block := read_range(path, at, BLOCK_BYTES):
        made.feed(block)
        at += len(block)
    return made.content


def check_look(path: Location, position: dict[str, Any]) -> None:
    """Refuse a file whose size or modification time has changed."""
    now, before = FileLook.at(path), FileLook(**position)
    if now != before:
        raise _describe_rewritten(
            path,
            f"since it was read: it had {before.size} bytes and the time "
            f"{before.time_ns / 1e9:.6f}, and has {now.size} and {now.time_ns / 1e9:.6f}",
        )


def _chain_of(path: Location, blocks: int) -> str:
    chain = ""
    for number in range(blocks):
        chain = _link(chain, read_range(path, number * BLOCK_BYTES, BLOCK_BYTES))
    return chain


def _link(chain: str, block: bytes) -> str:
    return _link_digest(chain, xxhash.xxh3_128_digest(block))


def _link_digest(chain: str, digest: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(chain.encode() + digest)


def describe_cut_off(path: Location | str, wanted: int, found: int) -> InputError:
    """Return the user's error for a file that was longer before."""
    return InputError(
        f"{path} must not change while it is read; it had at least {wanted} bytes and "
        f"has {found} now; put it back and run the job again"
    )


def _describe_rewritten(what: Location | str, where: str) -> CheckpointError:
    return CheckpointError(
        f"a source must still have what was read from it; {what} was changed {where}; "
        f"put it back as it was, with its time of change, or start with an empty "
        f"checkpoint and another output"
    )
