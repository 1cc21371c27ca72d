"""The files of a checkpoint: change logs and snapshots of states, written atomically.

A file exists completely or not at all, even after a power failure. It holds the states
of some buckets in record batches with the columns `key` and `state`, sorted by key. A key
begins with its bucket, and the file tells the first and last bucket of each batch: so
one bucket can be read without the others. (In formats up to 6 each batch had one bucket,
whose keys did not begin with it.)

The states may be larger than memory: they are written and read batch by batch.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import tempfile
import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, BinaryIO, cast

import pyarrow as pa

from anabranch.connectors.storage import Location, StorePath
from anabranch.epochs.checkpoint.region_kind import describe_unreachable
from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.state.buckets import (
    Stamp,
    bucket_of_entry,
    prefix_of_bucket,
    to_ranges,
)
from anabranch.epochs.state.store import Entry
from anabranch.errors import CheckpointError, advise


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
            raise describe_unreachable(path, error) from error
        advice = advise(
            error,
            "check the path, its permissions and the space on the disk (on a cluster "
            "every worker must see it there)",
        )
        msg = (
            f"a checkpoint must be a directory that can be written; {path}: "
            f"{error.strerror or error}; {advice}; then run the job again: it resumes"
        )
        raise CheckpointError(msg) from error


_BATCH_ROWS = 1 << 16  # of a record batch, at most
_BATCH_BYTES = 1 << 24  # the same, unless a single state is larger
_IN_MEMORY = 1 << 24  # bytes; larger files are copied to disk
_BLOCK_BYTES = 1 << 20
_FIELDS = [("key", pa.large_binary()), ("state", pa.large_binary())]
_BUCKETS = b"buckets"  # of each record batch, in formats up to 6
_SPANS = b"spans"  # first and last bucket of each record batch
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")


def state_file(kind: str, stamp: Stamp, number: int) -> str:
    """Return the name of a log or a snapshot of a replica.

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


def write_log(path: Location, changes: Sequence[Entry], seal: Seal) -> str:
    """Write the changes of an epoch, sorted by key; return the file's digest."""
    _, _, digest = write_states(path, lambda: changes, seal)
    return digest


def write_states(
    path: Location, states: Callable[[], Iterable[Entry]], seal: Seal
) -> tuple[int, int, str]:
    """Write states, sorted by key.

    They are read twice, since the file's header has the buckets of each batch. Return
    the number of states, their bytes, and the file's digest.
    """
    rows, size, spans = [], 0, []
    for count, length, first, last in size_batches(
        (len(key) + len(state), key) for key, state in states()
    ):
        rows.append(count)
        size += length
        spans.append((bucket_of_entry(first), bucket_of_entry(last)))
    held = iter(states())
    batches = (list(itertools.islice(held, count)) for count in rows)
    return sum(rows), size, _write(path, spans, batches, seal)


def size_batches(
    entries: Iterable[tuple[int, bytes]],
    rows: int = _BATCH_ROWS,
    most: int = _BATCH_BYTES,
) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Yield the number of entries, the bytes, the first and the last key of each batch.

    >>> list(size_batches([(4, b"a"), (4, b"b"), (9, b"c"), (1, b"d")], rows=3, most=8))
    [(2, 8, b'a', b'b'), (1, 9, b'c', b'c'), (1, 1, b'd', b'd')]
    """
    count = held = 0
    first = last = b""
    for length, key in entries:
        if count and (count == rows or held + length > most):
            yield count, held, first, last
            count = held = 0
        if not count:
            first = key
        count, held, last = count + 1, held + length, key
    if count:
        yield count, held, first, last


def _write(
    path: Location,
    spans: list[tuple[int, int]],
    batches: Iterable[list[Entry]],
    seal: Seal,
) -> str:
    """Write batches with the buckets of each; return the file's digest."""
    metadata = {_SPANS: json.dumps(spans)}
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


def read_states(
    path: Location, buckets: Sequence[int], seal: Seal, digest: str | None
) -> Iterator[Entry]:
    """Yield the states of some buckets in a file, all sorted.

    The whole file is verified first, and a private copy is read, so that what was
    verified is what is used.
    """
    wanted = sorted(buckets)
    try:
        with _copy_checked(path, seal, digest) as content:
            reader = pa.ipc.open_file(content)
            metadata = reader.schema.metadata
            if _SPANS in metadata:
                for number, (first, last) in enumerate(json.loads(metadata[_SPANS])):
                    some = wanted[
                        bisect_left(wanted, first) : bisect_right(wanted, last)
                    ]
                    if some:
                        yield from _choose(reader.get_batch(number), some)
            else:
                yield from _read_single(reader, json.loads(metadata[_BUCKETS]), wanted)
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise describe_damage(path, error) from error


def _choose(batch: pa.RecordBatch, buckets: Sequence[int]) -> Iterator[Entry]:
    """Yield the states of some buckets in a batch."""
    keys = batch.column(0).to_pylist()
    states = batch.column(1)
    for first, end in to_ranges(buckets):
        begin = bisect_left(keys, prefix_of_bucket(first))
        stop = bisect_left(keys, prefix_of_bucket(end))
        own = states.slice(begin, stop - begin).to_pylist()
        yield from zip(keys[begin:stop], own, strict=True)


def _read_single(
    reader: Any, buckets: Sequence[int], wanted: Sequence[int]
) -> Iterator[Entry]:
    """Yield the states of some buckets, where each batch has those of one."""
    for number, bucket in sorted(enumerate(buckets), key=itemgetter(1)):
        if bucket in wanted:
            prefix = prefix_of_bucket(bucket)
            keys, states = (c.to_pylist() for c in reader.get_batch(number).columns)
            for key, state in zip(keys, states, strict=True):
                yield prefix + key, state


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
