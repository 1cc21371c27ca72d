"""Files in stores: object stores, HDFS, and whatever fsspec supports, by URL.

A `StorePath` has the methods of a `pathlib.Path` that connectors use, so that the same
code reads and writes local files and objects. Stores differ from disks:

- A directory exists as long as something is in it; making one does nothing.
- A file appears complete when it is closed. `replace` copies and deletes, and is not
  atomic: only moves that can be repeated may rely on it.
- Of several that create one file, one succeeds: `create_bytes` lets the store decide.

Arrow's file systems do the work if there is one (S3, GCS, Azure, HDFS), with their
usual environment variables; fsspec does the rest. Neither can let a store decide, so
that is left to obstore. Keys are taken literally: `%20` in a URL is three characters.

What a store costs is requests. Arrow asks for the size of a file whenever it is opened,
and after each deletion makes an empty object for the directory. So obstore, where it is
installed, also reads ranges, copies and deletes: one request each, or one for many.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import fnmatch
import glob
import importlib.util
import io
import json
import os
import posixpath
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast
from urllib.parse import parse_qsl

import pyarrow as pa
import pyarrow.fs as arrow_fs

from anabranch.connectors.base import require
from anabranch.errors import EngineError, InputError
from anabranch.graph.paths import (
    OPTIONS,
    find_unknown_option,
    split_options,
    split_url,
)

_ENDPOINT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGION = ("AWS_REGION", "AWS_DEFAULT_REGION")
_AZURE_KEY = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY")
_LIMIT_S = 30  # in which a request is tried again
_PATIENCE = {"retry_config": {"retry_timeout": dt.timedelta(seconds=_LIMIT_S)}}
_COPY_BYTES = 1 << 20
_COPIES = 16  # requests at a time
_AHEAD_BYTES = (1 << 17, 1 << 23)  # fetched at least: at first, and in the end
_HELD_RANGES = 16  # of a file that is read here and there
_IN_MEMORY = 1 << 26  # bytes of a file being written; more go to the local disk


@dataclass(frozen=True)
class Status:
    """The size and modification time of an object, named as in `os.stat`."""

    st_size: int
    st_mtime_ns: int


@dataclass(frozen=True)
class StorePath:
    """A file or directory of a store, by its URL, without a trailing slash.

    >>> path = StorePath("s3://trades/2026/day.csv")
    >>> path.name, path.suffix, str(path.parent / "other")
    ('day.csv', '.csv', 's3://trades/2026/other')
    """

    url: str
    options: str = ""  # of the store, from the URL's query string
    listed: bool = field(default=False, compare=False, repr=False)  # as a file

    def __str__(self) -> str:
        return f"{self.url}?{self.options}" if self.options else self.url

    def __truediv__(self, name: str) -> StorePath:
        return StorePath(f"{self.url}/{name}", self.options)

    def __lt__(self, other: StorePath) -> bool:
        return self.parts < other.parts

    @property
    def parts(self) -> tuple[str, ...]:
        """The store, and the steps below it."""
        scheme, rest = self.url.split("://", 1)
        host, *steps = rest.split("/")
        return (f"{scheme}://{host}", *steps)

    @property
    def name(self) -> str:
        return self.parts[-1] if len(self.parts) > 1 else ""

    @property
    def suffix(self) -> str:
        return posixpath.splitext(self.name)[1]

    @property
    def stem(self) -> str:
        return posixpath.splitext(self.name)[0]

    @property
    def parent(self) -> StorePath:
        return StorePath(self.url.rpartition("/")[0], self.options)

    def with_name(self, name: str) -> StorePath:
        return self.parent / name

    def with_suffix(self, suffix: str) -> StorePath:
        return self.parent / (self.stem + suffix)

    @cached_property
    def _place(self) -> tuple[Any, str]:
        return _find_place(self.url, self.options)

    @property
    def _info(self) -> Any:
        store, path = self._place
        try:
            return store.get_file_info(path)
        except pa.ArrowException as error:  # of a store that rejects its user
            if isinstance(error, OSError):
                raise
            raise OSError(str(error).partition("\n")[0]) from error

    @property
    def _client(self) -> _Client | None:
        """What makes single requests, if there is one for this store."""
        return _find_client(self.url, self.options)

    def look(self) -> str | Status | None:
        """Return what is here, by one request or two: `dir`, a file, or nothing."""
        info = self._info
        if info.type == arrow_fs.FileType.File:
            return Status(info.size, info.mtime_ns or 0)
        return None if info.type == arrow_fs.FileType.NotFound else "dir"

    def is_file(self) -> bool:
        return bool(self._info.type == arrow_fs.FileType.File)

    def is_dir(self) -> bool:
        if self.listed:
            return False
        return bool(self._info.type == arrow_fs.FileType.Directory)

    def is_symlink(self) -> bool:
        return False

    def exists(self) -> bool:
        return bool(self._info.type != arrow_fs.FileType.NotFound)

    def stat(self) -> Status:
        """Return size and time; a directory has none."""
        if self._client is not None:
            return self._client.stat()
        info = self._info
        if info.type != arrow_fs.FileType.File:
            raise FileNotFoundError(2, os.strerror(2), str(self))
        return Status(info.size, info.mtime_ns or 0)

    def iterdir(self) -> Iterator[StorePath]:
        return (path for path, _ in self.list())

    def list(
        self, *, deep: bool = False, missing_ok: bool = False
    ) -> list[tuple[StorePath, bool]]:
        """List a directory, unordered, with whether each entry is a file."""
        store, path = self._place
        flat = self.url.startswith(_UNLISTED)
        found = store.get_file_info(
            arrow_fs.FileSelector(path, missing_ok, recursive=deep or flat)
        )
        start = path.rstrip("/") + "/" if path else ""
        names: Iterable[tuple[str, bool]] = (
            (info.path.removeprefix(start), bool(info.type == arrow_fs.FileType.File))
            for info in found
            if info.path.rstrip("/") != path.rstrip("/")
        )
        if flat:
            names = _find_entries(names, deep=deep)
        return [
            (StorePath(f"{self.url}/{name}", self.options, listed), listed)
            for name, listed in names
        ]

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """List the matches of a pattern of names, and of names in directories."""
        return _match([self], pattern.split("/"))

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open the file for reading, or with "wb" for writing: it appears when
        closed.
        """
        if mode == "wb":
            return cast("BinaryIO", _Upload(self))
        if self._client is not None:
            return cast("BinaryIO", StoreFile(self._client))
        store, path = self._place
        return cast("BinaryIO", store.open_input_file(path))

    def open_known(self, known: Status) -> BinaryIO:
        """Open a file of known size and time for reading; another one is refused."""
        if self._client is None:
            return self.open()
        return cast("BinaryIO", StoreFile(self._client, known, _HELD_RANGES))

    def read_bytes(self) -> bytes:
        if self._client is not None:
            return self._client.read_all()
        with self.open() as file:
            return file.read()

    def write_bytes(self, data: bytes) -> None:
        """Write a file atomically, replacing an existing one."""
        if self._client is not None and len(data) < _IN_MEMORY:
            self._client.write(data)
            return
        with self._open_new() as file:
            file.write(data)

    def create_bytes(self, data: bytes) -> None:
        """Write a file atomically, if there is none; else raise a `FileExistsError`.

        A request whose answer was lost is repeated. So a file with the same content
        counts as this one: concurrent writers must write different content.
        """
        obstore = require("obstore", _OBSTORE)
        store = _find_deciding(self.parts[0], self.options, os.getpid())
        try:
            obstore.put(store, _key_of(self.url), data, mode="create")
        except obstore.exceptions.AlreadyExistsError:
            if self.read_bytes() != data:
                raise FileExistsError(17, os.strerror(17), str(self)) from None
        except obstore.exceptions.BaseError as error:
            raise OSError(5, str(error).partition("\n")[0], str(self)) from error

    def upload(self, source: BinaryIO) -> None:
        """Write a file atomically, with the rest of what `source` contains."""
        first = source.read(_IN_MEMORY)
        if self._client is not None and len(first) < _IN_MEMORY:
            self._client.write(first)
            return
        # Arrow completes an abandoned upload, so only the store may fail once it has
        # begun.
        with self._open_new() as file:
            file.write(first)
            shutil.copyfileobj(source, file, _COPY_BYTES)

    def _open_new(self) -> Any:
        store, path = self._place
        try:
            return store.open_output_stream(path, compression=None)
        except FileNotFoundError:  # a store with directories
            self.parent.mkdir()
            return store.open_output_stream(path, compression=None)

    def touch(self) -> None:
        self.write_bytes(b"")

    def mkdir(self, *_: Any, **__: Any) -> None:
        """Do nothing, unless the store has real directories."""
        if self.url.startswith(_FLAT):
            return
        store, path = self._place
        store.create_dir(path, recursive=True)

    def rmdir(self) -> None:
        """Do nothing: empty directories do not exist."""

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Delete the file; S3 does not tell whether there was one."""
        if self._client is not None:
            self._client.delete(missing_ok=missing_ok)
            return
        store, path = self._place
        try:
            store.delete_file(path)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def replace(self, target: StorePath) -> None:
        """Copy the file to another place of the same store, and delete it here."""
        self.copy(target)
        self.unlink(missing_ok=True)

    def copy(self, target: StorePath) -> None:
        """Copy the file to another place of the same store, within it."""
        if self._client is not None:
            self._client.copy(target)
            return
        store, path = self._place
        target.parent.mkdir()
        try:  # asking first whether it is there would be another request for each part
            store.copy_file(path, target._place[1])
        except OSError as error:
            if self.is_file():
                raise
            raise FileNotFoundError(2, os.strerror(2), str(self)) from error

    def remove_tree(self) -> None:
        """Delete everything in a directory; what is already gone is ignored."""
        if self._client is not None:
            self._client.delete_tree()
        elif self.is_dir():
            store, path = self._place
            store.delete_dir(path)


def _find_entries(
    names: Iterable[tuple[str, bool]], *, deep: bool
) -> list[tuple[str, bool]]:
    """Return the entries of a directory, from the names of all files below it.

    >>> _find_entries([("a", True), ("x/y/b", True), ("x/c", True)], deep=False)
    [('a', True), ('x', False)]
    >>> _find_entries([("x/y/b", True)], deep=True)
    [('x', False), ('x/y', False), ('x/y/b', True)]
    """
    found: dict[tuple[str, bool], None] = {}  # in order
    for name, is_file in names:
        steps = name.strip("/").split("/")
        for depth in range(1, len(steps)):
            found["/".join(steps[:depth]), False] = None
        found["/".join(steps), is_file] = None
    return [entry for entry in found if deep or "/" not in entry[0]]


def remove_tree(path: Location) -> None:
    """Delete a directory with its contents, as far as possible."""
    if isinstance(path, StorePath):
        with contextlib.suppress(OSError):
            path.remove_tree()
    else:
        shutil.rmtree(path, ignore_errors=True)


def copy_all(pairs: Iterable[tuple[StorePath, StorePath]]) -> None:
    """Copy files within their store, several at a time."""
    with ThreadPoolExecutor(_COPIES) as pool:
        for _ in pool.map(lambda pair: pair[0].copy(pair[1]), pairs):
            pass


Location: TypeAlias = Path | StorePath


class _Client:
    """Requests for one object, by obstore; failures are those of a file system."""

    def __init__(self, store: Any, key: str, name: str) -> None:
        self._obstore = require("obstore", _OBSTORE)
        self._store, self._key, self.name = store, key, name

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(2, os.strerror(2), self.name) from error
        except self._obstore.exceptions.BaseError as error:
            raise OSError(5, str(error).partition("\n")[0], self.name) from error

    def stat(self) -> Status:
        with self._errors():
            return _status_of(self._obstore.head(self._store, self._key))

    def read_all(self) -> bytes:
        with self._errors():
            return bytes(self._obstore.get(self._store, self._key).bytes())

    def read(self, start: int, end: int) -> tuple[memoryview, Status]:
        """Return the bytes between two offsets, as far as there are any, with the size
        and time of the file. That is one request, or two beyond the end of the file.
        """
        with self._errors():
            try:
                found = self._obstore.get(
                    self._store, self._key, options={"range": (start, end)}
                )
                return memoryview(found.bytes()), _status_of(found.meta)
            except self._obstore.exceptions.BaseError:
                status = self.stat()
                if start < status.st_size:
                    raise
                return memoryview(b""), status

    def write(self, data: bytes) -> None:
        with self._errors():
            self._obstore.put(self._store, self._key, data, use_multipart=False)

    def copy(self, target: StorePath) -> None:
        with self._errors():
            self._obstore.copy(self._store, self._key, _key_of(target.url))

    def delete(self, *, missing_ok: bool) -> None:
        try:
            with self._errors():
                self._obstore.delete(self._store, self._key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def delete_tree(self) -> None:
        """Delete what is below; a request for each thousand on S3."""
        with self._errors():
            for found in self._obstore.list(self._store, prefix=self._key):
                self._obstore.delete(self._store, [one["path"] for one in found])


def describe_failure(path: Location, error: OSError) -> str:
    """Return what the system or the store says about a failure.

    >>> describe_failure(Path("in.csv"), OSError(13, ""))
    'Permission denied'
    """
    if error.errno is None:
        return str(error)
    told = isinstance(path, StorePath) and error.strerror
    return told or os.strerror(error.errno)


def advise_on_place(path: Location, otherwise: str) -> str:
    """Return what to do about a failure there; for a local path, `otherwise`."""
    if isinstance(path, StorePath):
        return "check the bucket, the credentials and the network (every worker needs them)"
    return otherwise


def _status_of(meta: Mapping[str, Any]) -> Status:
    """Return the size and time that a store tells of an object."""
    since = meta["last_modified"] - _EPOCH
    return Status(meta["size"], since // dt.timedelta(microseconds=1) * 1000)


class StoreFile(io.RawIOBase):
    """A file of a store while it is read: one request for each range, none to open it.

    Reads in a row fetch more and more ahead. The ranges `held` are those fetched last. If
    size and time are `known`, a file that has others is refused.
    """

    def __init__(
        self, client: _Client, known: Status | None = None, held: int = 1
    ) -> None:
        self._client = client
        self._known = known
        self._size = None if known is None else known.st_size
        self._at = 0
        self._held: deque[tuple[int, memoryview]] = deque(maxlen=held)
        self._ahead = _AHEAD_BYTES[0]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._at
        elif whence == os.SEEK_END:
            if self._size is None:
                self._size = self._client.stat().st_size
            offset += self._size
        self._at = offset
        return offset

    def readall(self) -> bytes:
        return b"".join(iter(lambda: self.read(_AHEAD_BYTES[1]), b""))

    def read(self, size: int | None = -1) -> bytes:
        """Return so many bytes, or as many as there are."""
        if size is None or size < 0:
            return self.readall()
        found = bytes(self._find_held(self._at, size))
        if len(found) < size:
            self._fetch(self._at + len(found), size - len(found))
            more = self._find_held(self._at + len(found), size - len(found))
            found = found + more if found else bytes(more)
        self._at += len(found)
        return found

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _find_held(self, at: int, size: int) -> memoryview:
        for start, data in reversed(self._held):
            if start <= at < start + len(data):
                return data[at - start : at - start + size]
        return memoryview(b"")

    def _fetch(self, start: int, size: int) -> None:
        begun, data = self._held[-1] if self._held else (0, b"")
        least, most = _AHEAD_BYTES
        follows = bool(data) and start == begun + len(data)
        self._ahead = min(2 * self._ahead, most) if follows else least
        end = start + max(size, self._ahead)
        if self._size is not None:
            end = min(end, self._size)
        if end <= start:
            return
        found, status = self._client.read(start, end)
        if self._known not in (None, status):
            msg = (
                f"{self._client.name} must not change while it is read; it was written "
                f"again; put it back and run the job again"
            )
            raise InputError(msg)
        self._size = status.st_size
        self._held.append((start, found))


_FLAT = ("s3://", "gs://", "abfs://", "abfss://")  # stores without directories


class _Upload(io.RawIOBase):
    """A file buffered locally while it is written, then uploaded at once."""

    def __init__(self, path: StorePath) -> None:
        self._path = path
        self._held = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed by `close`

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._held.write(data)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def discard(self) -> None:
        """Discard the file; nothing will appear."""
        self._held.close()

    def close(self) -> None:
        if not self.closed and not self._held.closed:
            self._held.seek(0)
            with self._held:
                self._path.upload(cast("BinaryIO", self._held))
        super().close()


def locate(path: str) -> Location:
    """Return the location that a path or a URL names.

    >>> locate("in/day.csv"), locate("s3a://trades/day.csv/")
    (PosixPath('in/day.csv'), StorePath(url='s3://trades/day.csv', options=''))
    >>> locate("s3://trades/?.csv?region=eu-west-1").options
    'region=eu-west-1'
    """
    found = split_url(path)
    if found is None:
        return Path(path)
    scheme, rest, options = _ALIASES.get(found[0], found[0]), found[1], ""
    if scheme in _ARROW:
        url, options = split_options(path)
        rest = rest.removesuffix(path[len(url) :])
    return StorePath(f"{scheme}://{rest.rstrip('/')}", options)


def is_pattern(path: str) -> bool:
    """Tell whether a path stands for several files.

    >>> is_pattern("in/*.csv"), is_pattern("s3://b/x?region=eu-west-1")
    (True, False)
    """
    place = locate(path)
    return glob.has_magic(place.url if isinstance(place, StorePath) else path)


def find_matching(pattern: str) -> list[StorePath]:
    """Return the matches of a pattern in a store, by the rules of `glob`."""
    path = locate(pattern)
    assert isinstance(path, StorePath)  # noqa: S101
    root, *steps = path.parts
    fixed = next((n for n, s in enumerate(steps) if glob.has_magic(s)), len(steps))
    start = StorePath("/".join((root, *steps[:fixed])), path.options)
    return list(_match([start], steps[fixed:]))


def _match(places: list[StorePath], steps: list[str]) -> Iterator[StorePath]:
    """Yield the places reached from others by some steps."""
    if not steps:
        return (place for place in places if place.exists())
    step, *rest = steps
    if not glob.has_magic(step):
        return _match([place / step for place in places], rest)
    found: dict[StorePath, bool] = {}
    for place in places:
        found.update(_find_step(place, step))
    if not rest:
        return iter(found)
    return _match([path for path, is_file in found.items() if not is_file], rest)


def _find_step(place: StorePath, step: str) -> dict[StorePath, bool]:
    """Return the matches of one step of a pattern, and whether each is a file."""
    if step != "**":
        try:
            found = place.list(missing_ok=True)
        except NotADirectoryError:
            return {}
        shown = [
            (path, is_file)
            for path, is_file in found
            if step.startswith(".") or not path.name.startswith(".")
        ]
        return {p: known for p, known in shown if fnmatch.fnmatchcase(p.name, step)}
    if not place.is_dir():
        return {}
    depth = len(place.parts)
    inside = {
        path: is_file
        for path, is_file in place.list(deep=True)
        if not any(name.startswith(".") for name in path.parts[depth:])
    }
    return {place: False, **inside}


def why_no_store(path: str) -> str | None:
    """Return why a path names neither a local file nor one of a known store, or None.

    >>> why_no_store("s3://trades/day.csv") is None
    True
    >>> why_no_store("s3:trades")
    "'s3:trades' is no URL of the scheme s3: there must be two slashes, as in s3://bucket/path"
    """
    found = split_url(path)
    if found is None:
        return None
    scheme, rest = found
    why = None
    if not path.strip().lower().startswith(f"{scheme}://"):
        why = (
            f"{path!r} is no URL of the scheme {scheme}: there must be two slashes, as "
            f"in {scheme}://bucket/path"
        )
    elif path != path.strip():
        why = f"{path!r} begins or ends with a space"
    elif not rest.strip("/"):
        why = f"{path!r} names no file or directory"
    elif _ALIASES.get(scheme, scheme) not in _ARROW:
        why = _why_unknown(path, scheme)
    elif "//" in split_options(path)[0].strip("/").split("://", 1)[1]:
        why = f"{path!r} has an empty step between two slashes"
    elif (option := find_unknown_option(path)) is not None:
        why = (
            f"{path!r} has the option {option!r}, which no store takes (known are "
            f"{', '.join(OPTIONS)})"
        )
    elif scheme.startswith("abfs") and not _name_account(rest.partition("/")[0]):
        why = (
            f"{path!r} names no account, as in "
            f"{scheme}://container@account.dfs.core.windows.net/path"
        )
    return why


def why_not_deciding(path: str) -> str | None:
    """Return why a store cannot create a file exclusively, or None.

    >>> why_not_deciding("s3://jobs/vwap") is None
    True
    >>> why_not_deciding("hdfs://name:8020/jobs")
    "'hdfs://name:8020/jobs' is in a store that cannot decide which of two jobs continues (abfs, abfss, gs, local, s3 can)"
    """
    scheme = locate(path).parts[0].partition(":")[0]
    if scheme in _DECIDING:
        return None
    known = ", ".join(sorted(_DECIDING))
    return (
        f"{path!r} is in a store that cannot decide which of two jobs continues "
        f"({known} can)"
    )


def _why_unknown(path: str, scheme: str) -> str | None:
    """Return why fsspec does not know a scheme, or None."""
    try:
        require("fsspec", "fsspec").get_filesystem_class(scheme)
    except ValueError:
        return (
            f"{path!r} is a URL with the scheme {scheme}, which is not known "
            f"(known are {', '.join(sorted(_ARROW))}, file and those of fsspec)"
        )
    except (ImportError, EngineError) as error:
        return f"{path!r} is a URL with the scheme {scheme}: {error}"
    return None


@lru_cache(maxsize=256)
def _find_store(root: str, options: str, _process: int) -> Any:
    """Return the file system of a store; a forked process makes its own."""
    scheme, host = root.split("://", 1)
    try:
        return _ARROW[scheme](host, dict(parse_qsl(options)))
    except (OSError, pa.ArrowException) as error:
        msg = str(error).partition("\n")[0]
        if scheme in _HADOOP:
            msg = (
                f"{msg}; HDFS needs JAVA_HOME, HADOOP_HOME and CLASSPATH (hadoop "
                f"classpath --glob)"
            )
        raise OSError(msg) from error


@lru_cache(maxsize=256)
def _find_deciding(root: str, options: str, _process: int) -> Any:
    """Return the client that creates files of a store exclusively."""
    scheme, host = root.split("://", 1)
    stores = require("obstore.store", _OBSTORE)
    return _DECIDING[scheme](stores, host, dict(parse_qsl(options)))


def _key_of(url: str) -> str:
    """Return the key of a URL.

    >>> _key_of("s3://trades/2026/day.csv")
    '2026/day.csv'
    """
    return url.split("://", 1)[1].partition("/")[2]


def _find_client(url: str, options: str) -> _Client | None:
    """Return what makes single requests for an object; None if Arrow has to do it.

    That is so without obstore, and with options that only Arrow understands.
    """
    scheme, rest = url.split("://", 1)
    host, _, key = rest.partition("/")
    given = {name for name, _ in parse_qsl(options)}
    if not key or scheme not in _UNDERSTOOD or not given <= _UNDERSTOOD[scheme]:
        return None
    by_file = scheme == "s3" and (_has_profile() or _has_config())
    if not _is_installed("obstore") or (by_file and not _is_installed("boto3")):
        return None
    store = _find_deciding(f"{scheme}://{host}", options, os.getpid())
    name = f"{url}?{options}" if options else url
    return _Client(store, key, name)


@cache
def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _find_place(url: str, options: str) -> tuple[Any, str]:
    """Return a file system, and the path of a URL in it."""
    scheme, rest = url.split("://", 1)
    if scheme not in _ARROW:
        store, path = require("fsspec.core", "fsspec").url_to_fs(url)
        return arrow_fs.PyFileSystem(arrow_fs.FSSpecHandler(store)), path
    host, _, key = rest.partition("/")
    store = _find_store(f"{scheme}://{host}", options, os.getpid())
    match scheme:
        case _ if scheme in _HADOOP:
            return store, f"/{key}"
        case "abfs" | "abfss":
            return store, f"{host.partition('@')[0]}/{key}".rstrip("/")
    return store, f"{host}/{key}".rstrip("/")


def _first_set(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _open_s3(bucket: str, options: Mapping[str, str]) -> Any:
    given: dict[str, Any] = dict(options)
    endpoint = given.pop("endpoint_override", None) or _first_set(_ENDPOINT)
    region = given.pop("region", None) or _first_set(_REGION)
    if "anonymous" in given:
        given["anonymous"] = given["anonymous"].lower() == "true"
    if region is None and endpoint is None:
        try:
            region = arrow_fs.resolve_s3_region(bucket)
        except (OSError, pa.ArrowException):  # the store says later what is wrong
            region = None
    return arrow_fs.S3FileSystem(
        endpoint_override=endpoint,
        region=region,
        background_writes=False,
        allow_delayed_open=True,  # one request for a small file
        **given,
    )


def _decide_in_s3(stores: Any, bucket: str, options: Mapping[str, str]) -> Any:
    endpoint = options.get("endpoint_override") or _first_set(_ENDPOINT)
    region = options.get("region") or _first_set(_REGION)
    given: dict[str, Any] = {}
    if endpoint is not None:
        given = _say_endpoint("endpoint", endpoint, options)
    elif region is None:
        region = arrow_fs.resolve_s3_region(bucket)
    if options.get("anonymous", "").lower() == "true":
        given["skip_signature"] = True
    elif _has_profile() or (_has_config() and _is_installed("boto3")):
        login = require("obstore.auth.boto3", _OBSTORE)
        given["credential_provider"] = login.Boto3CredentialProvider()
    return stores.S3Store(bucket, region=region or "us-east-1", **_PATIENCE, **given)


def _has_profile() -> bool:
    """Tell whether the S3 keys are in a file of the AWS tools, not in the
    environment.
    """
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return False
    named = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    return "AWS_PROFILE" in os.environ or Path(named).expanduser().exists()


def _has_config() -> bool:
    """Tell whether a file of the AWS tools may say how to get the S3 keys."""
    if os.environ.get("AWS_ACCESS_KEY_ID"):
        return False
    named = os.environ.get("AWS_CONFIG_FILE", "~/.aws/config")
    return Path(named).expanduser().exists()


def _decide_in_gs(stores: Any, bucket: str, options: Mapping[str, str]) -> Any:
    given: dict[str, Any] = {}
    if "endpoint_override" in options:
        given = _say_endpoint("base_url", options["endpoint_override"], options)
    if options.get("anonymous", "").lower() == "true":  # else obstore asks for a token
        nobody = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        base_url = {"gcs_base_url": given.pop("base_url")} if given else {}
        login = {**nobody, **base_url, "disable_oauth": True}
        given["service_account_key"] = json.dumps(login)
    return stores.GCSStore(bucket, **_PATIENCE, **given)


def _decide_in_azure(stores: Any, host: str, options: Mapping[str, str]) -> Any:
    name = _name_account(host)
    given: dict[str, Any] = {}
    if "endpoint_override" in options:  # of an emulator, where the account is a step
        given = _say_endpoint(
            "endpoint", f"{options['endpoint_override']}/{name}", options
        )
    if (key := _first_set(_AZURE_KEY)) is not None:
        given["account_key"] = key
    container = host.partition("@")[0]
    return stores.AzureStore(container, account_name=name, **_PATIENCE, **given)


def _say_endpoint(
    name: str, endpoint: str, options: Mapping[str, str]
) -> dict[str, Any]:
    """Return obstore's settings for another server than that of the cloud."""
    if "://" not in endpoint:
        endpoint = f"{options.get('scheme', 'https')}://{endpoint}"
    allowed = {"allow_http": endpoint.startswith("http://")}
    return {name: endpoint, "client_options": allowed}


def _open_hdfs(host: str, options: Mapping[str, str]) -> Any:
    return arrow_fs.HadoopFileSystem.from_uri(
        f"hdfs://{host or 'default'}/?{'&'.join(f'{k}={v}' for k, v in options.items())}"
    )


def _open_gs(bucket: str, options: Mapping[str, str]) -> Any:
    # Arrow's own limit is 15 minutes, even for a host without any network.
    given = {"retry_limit_seconds": str(_LIMIT_S), **options}
    anonymous = given.pop("anonymous", "").lower() == "true"
    return _open_by_url("gs")(f"anonymous@{bucket}" if anonymous else bucket, given)


def _open_azure(scheme: str) -> Callable[[str, Mapping[str, str]], Any]:
    """Return what opens a container; Arrow's URL takes no key, and no emulator."""

    def open_store(host: str, options: Mapping[str, str]) -> Any:
        key = _first_set(_AZURE_KEY)
        store = open_with(key, host, options)
        if key is None:
            # If there is no login at all, Arrow ends the process when it opens a file
            # or asks for a container, but not when it looks for what may be in one.
            store.get_file_info(f"{host.partition('@')[0]}/_")
        return store

    def open_with(key: str | None, host: str, options: Mapping[str, str]) -> Any:
        endpoint = options.get("endpoint_override")
        if key is None and endpoint is None and "." in host:
            return _open_by_url(scheme)(host, options)
        given: dict[str, Any] = {}
        if endpoint is not None:
            for service in ("blob", "dfs"):
                given[f"{service}_storage_authority"] = endpoint
                given[f"{service}_storage_scheme"] = options.get("scheme", "https")
        return arrow_fs.AzureFileSystem(_name_account(host), account_key=key, **given)

    return open_store


def _name_account(host: str) -> str:
    """Return the account of a container's URL.

    >>> _name_account("trades@desk.dfs.core.windows.net")
    'desk'
    """
    return host.partition("@")[2].partition(".")[0]


def _open_by_url(scheme: str) -> Callable[[str, Mapping[str, str]], Any]:
    def open_store(host: str, options: Mapping[str, str]) -> Any:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        url = f"{scheme}://{host}/" + (f"?{query}" if query else "")
        return arrow_fs.FileSystem.from_uri(url)[0]

    return open_store


_HADOOP = ("hdfs", "viewfs")
# Stores whose directories Arrow does not list, unless an object stands for them.
_UNLISTED = ("gs://",)
_ALIASES = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_ARROW: Mapping[str, Callable[[str, Mapping[str, str]], Any]] = {
    "s3": _open_s3,
    "gs": _open_gs,
    "abfs": _open_azure("abfs"),
    "abfss": _open_azure("abfss"),
    "hdfs": _open_hdfs,
    "viewfs": _open_by_url("viewfs"),
}
# obstore's classes that create a file exclusively, also in a local directory that
# stands for a store.
_DECIDING: Mapping[str, Callable[[Any, str, Mapping[str, str]], Any]] = {
    "s3": _decide_in_s3,
    "gs": _decide_in_gs,
    "abfs": _decide_in_azure,
    "abfss": _decide_in_azure,
    "local": lambda stores, *_: stores.LocalStore("/"),
}
# What a URL may say so that obstore serves it as Arrow would.
_UNDERSTOOD: Mapping[str, frozenset[str]] = {
    "s3": frozenset({"region", "endpoint_override", "scheme", "anonymous"})
}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_OBSTORE = "stores"  # the extra that installs it
