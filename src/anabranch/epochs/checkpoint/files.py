"""The files of a checkpoint: change logs and snapshots of states, written atomically.

A file exists completely or not at all, even after a power failure. It holds the states
of some buckets, each in record batches of its own with the columns `key` and `state`,
sorted by key. A bucket can be read without the others.

A bucket may be larger than memory: it is written and read batch by batch.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, TypeAlias, cast

import pyarrow as pa

from anabranch.connectors.storage import Location, StorePath
from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.state.store import Stamp
from anabranch.errors import CheckpointError


@contextmanager
def durably(path: Location, *, new: bool = False) -> Iterator[BinaryIO]:
    """Write a file that appears complete, once it is on disk or in its store.

    With `new` the file must not exist yet: of two writers, one gets a
    `FileExistsError`. What they write must differ.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "record"
    >>> with durably(path) as file:
    ...     _ = file.write(b"whole")
    ...     path.exists()
    False
    >>> path.read_bytes()
    b'whole'
    """
    if isinstance(path, StorePath):
        if new:
            held = io.BytesIO()
            yield held
            path.create_bytes(held.getvalue())
            return
        with path.open("wb") as file:
            yield file
        return
    hidden = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with hidden.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if new:
            os.link(hidden, path)
        else:
            hidden.replace(path)
        sync(path.parent)
    finally:
        hidden.unlink(missing_ok=True)


def sync(path: Location) -> None:
    """Flush a file's content, or a directory's names, to disk.

    In a store, what was written is durable.
    """
    if isinstance(path, StorePath):
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def checkpoint_errors(path: Location) -> Iterator[None]:
    """Turn errors of the file system or the store into a `CheckpointError`."""
    try:
        yield
    except OSError as error:
        if isinstance(path, StorePath):
            msg = (
                f"a checkpoint must be in a store that can be written; {path}: "
                f"{error.strerror or error}; check the bucket, the credentials and the "
                f"network (every worker needs them)"
            )
            raise CheckpointError(msg) from error
        msg = (
            f"a checkpoint must be a directory that can be written; {path}: "
            f"{error.strerror or error}; check the path, its permissions and the space "
            f"on the disk (on a cluster every worker must see it there)"
        )
        raise CheckpointError(msg) from error


Entry: TypeAlias = tuple[bytes, bytes]  # key, state

_BATCH_ROWS = 1 << 16  # of a record batch, at most
_BATCH_BYTES = 1 << 24  # the same, unless a single state is larger
_IN_MEMORY = 1 << 24  # bytes; larger files are copied to disk
_BLOCK_BYTES = 1 << 20
_FIELDS = [("key", pa.large_binary()), ("state", pa.large_binary())]
_BUCKETS = b"buckets"  # of each record batch
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")


def state_file(kind: str, stamp: Stamp, number: int) -> str:
    """Return the name of a log of a replica, or of a snapshot of a bucket.

    >>> state_file("log", Stamp(3, 7, 42), 1)
    'log-000000003-7-42-0001.arrow'
    """
    return f"{kind}-{stamp.epoch:09}-{stamp.turn}-{stamp.attempt}-{number:04}.arrow"


def epoch_of_file(name: str) -> int | None:
    """Return the epoch that a state file was written for, if its name tells.

    >>> epoch_of_file("snapshot-000000003-7-42-0015.arrow"), epoch_of_file("other")
    (3, None)
    """
    epoch = name.partition("-")[2].partition("-")[0]
    return int(epoch) if epoch.isdigit() else None


def write_log(
    path: Location, changes: Mapping[int, Mapping[bytes, bytes]], seal: Seal
) -> str:
    """Write the changes of an epoch in some buckets; return the file's digest."""
    parts = [(n, sorted(changed.items())) for n, changed in changes.items() if changed]
    return _write(path, [bucket for bucket, _ in parts], (e for _, e in parts), seal)


def write_snapshot(
    path: Location, bucket: int, states: Callable[[], Iterable[Entry]], seal: Seal
) -> tuple[int, int, str]:
    """Write all states of a bucket, sorted by key.

    They are read twice, since the file's header has the number of batches. Return the
    number of states, their bytes, and the file's digest.
    """
    sizes = list(size_batches(len(key) + len(state) for key, state in states()))
    held = iter(states())
    batches = (list(itertools.islice(held, rows)) for rows, _ in sizes)
    digest = _write(path, [bucket] * len(sizes), batches, seal)
    return sum(rows for rows, _ in sizes), sum(size for _, size in sizes), digest


def size_batches(
    lengths: Iterable[int], rows: int = _BATCH_ROWS, most: int = _BATCH_BYTES
) -> Iterator[tuple[int, int]]:
    """Yield the entries and bytes of each record batch, given those of the entries.

    >>> list(size_batches([4, 4, 9, 1, 1, 1, 1], rows=3, most=8))
    [(2, 8), (1, 9), (3, 3), (1, 1)]
    """
    count = held = 0
    for length in lengths:
        if count and (count == rows or held + length > most):
            yield count, held
            count = held = 0
        count, held = count + 1, held + length
    if count:
        yield count, held


def size_of(entries: Iterable[Entry]) -> int:
    """Return the bytes of keys and states.

    >>> size_of([(b"a", b"xyz")])
    4
    """
    return sum(len(key) + len(state) for key, state in entries)


def _write(
    path: Location, buckets: list[int], batches: Iterable[list[Entry]], seal: Seal
) -> str:
    """Write a batch for each of `buckets`; return the file's digest."""
    metadata = {_BUCKETS: json.dumps(buckets)}
    schema = pa.schema(_FIELDS, metadata=metadata)
    with checkpoint_errors(path), durably(path) as file:
        digested = _Digested(file, seal)
        with pa.ipc.new_file(digested, schema, options=_QUICK) as writer:
            for entries in batches:
                columns = [
                    pa.array(column, type=pa.large_binary())
                    for column in zip(*entries, strict=True)
                ]
                writer.write_batch(pa.record_batch(columns, schema=schema))
    return digested.digest


class _Digested(io.RawIOBase):
    """A sequentially written file, with its digest."""

    def __init__(self, file: BinaryIO, seal: Seal) -> None:
        self._file = file
        self._digesting = seal.begin()
        self._written = 0

    @property
    def digest(self) -> str:
        return self._digesting.digest

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, data: Any) -> int:
        self._digesting.update(data)
        self._written += memoryview(data).nbytes
        return self._file.write(data)


def read_bucket(
    path: Location, bucket: int, seal: Seal, digest: str | None
) -> Iterator[Entry]:
    """Yield the states of a bucket in a file, sorted by key.

    The whole file is verified first, and a private copy is read, so that what was
    verified is what is used.
    """
    try:
        with _copy_checked(path, seal, digest) as content:
            reader = pa.ipc.open_file(content)
            buckets = json.loads(reader.schema.metadata[_BUCKETS])
            for number, found in enumerate(buckets):
                if found == bucket:
                    batch = reader.get_batch(number)
                    keys, states = (column.to_pylist() for column in batch.columns)
                    yield from zip(keys, states, strict=True)
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise describe_damage(path, error) from error


@contextmanager
def _copy_checked(
    path: Location, seal: Seal, expected: str | None
) -> Iterator[BinaryIO]:
    """Return a verified copy of a file, in memory or on disk."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        digesting = seal.begin()
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digesting.update(block)
                copy.write(block)
        seal.check_digest(path, digesting.digest, expected)
        copy.seek(0)
        yield cast("BinaryIO", copy)
