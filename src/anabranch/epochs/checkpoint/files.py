"""The files of a checkpoint: change logs and snapshots of states, whole or not at all.

A file is there whole or not at all, also after a power failure. It holds the states of
some buckets, each as record batches of its own with the columns `key` and `state`, in the
order of the keys. A bucket is read without its neighbours.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import BinaryIO, TypeAlias

import pyarrow as pa

from anabranch.connectors.storage import Location, StorePath
from anabranch.epochs.checkpoint.seal import Seal, describe_damage
from anabranch.epochs.state.store import Stamp
from anabranch.errors import CheckpointError


@contextmanager
def durably(path: Location, *, new: bool = False) -> Iterator[BinaryIO]:
    """Write a file that appears whole, when it is on the disk or in its store.

    With `new` there must be no such file yet: of two that try, one gets a
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
        held = io.BytesIO()
        yield held
        put = path.create_bytes if new else path.write_bytes
        put(held.getvalue())
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
    """Have the content of a file, or the names in a directory, on the disk.

    A store has whatever it has taken.
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
    """Turn a refusal of the file system or the store into a `CheckpointError`."""
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

_BATCH_ROWS = 1 << 16
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
    """Return the epoch that a file of state was written for, if its name tells.

    >>> epoch_of_file("snapshot-000000003-7-42-0015.arrow"), epoch_of_file("other")
    (3, None)
    """
    epoch = name.partition("-")[2].partition("-")[0]
    return int(epoch) if epoch.isdigit() else None


def write_log(
    path: Location, changes: Mapping[int, Mapping[bytes, bytes]], seal: Seal
) -> str:
    """Write what an epoch has changed in some buckets; return the digest of the file."""
    parts = [(n, sorted(changed.items())) for n, changed in changes.items()]
    return _write(path, parts, seal)


def write_snapshot(
    path: Location, bucket: int, states: Iterable[Entry], seal: Seal
) -> tuple[int, int, str]:
    """Write all states of a bucket, which come in the order of their keys.

    Return how many they are, their bytes, and the digest of the file.
    """
    held = iter(states)
    parts = []
    while part := list(itertools.islice(held, _BATCH_ROWS)):
        parts.append((bucket, part))
    digest = _write(path, parts, seal)
    entries = itertools.chain.from_iterable(part for _, part in parts)
    return sum(len(part) for _, part in parts), size_of(entries), digest


def size_of(entries: Iterable[Entry]) -> int:
    """Return the bytes of keys and states.

    >>> size_of([(b"a", b"xyz")])
    4
    """
    return sum(len(key) + len(state) for key, state in entries)


def _write(path: Location, parts: Iterable[tuple[int, list[Entry]]], seal: Seal) -> str:
    parts = [(bucket, entries) for bucket, entries in parts if entries]
    buckets = json.dumps([bucket for bucket, _ in parts])
    schema = pa.schema(_FIELDS, metadata={_BUCKETS: buckets})
    buffer = pa.BufferOutputStream()
    with pa.ipc.new_file(buffer, schema, options=_QUICK) as writer:
        for _, entries in parts:
            columns = [
                pa.array(column, type=pa.large_binary())
                for column in zip(*entries, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))
    content = buffer.getvalue()
    with checkpoint_errors(path), durably(path) as file:
        file.write(content)
    return seal.digest(memoryview(content))


def read_bucket(
    path: Location, bucket: int, seal: Seal, digest: str | None
) -> Iterator[Entry]:
    """Return the states of a bucket that a file holds, in the order of the keys.

    The whole file is checked first, and what was checked is what is read.
    """
    try:
        content = path.read_bytes()
        seal.check(path, content, digest)
        reader = pa.ipc.open_file(pa.BufferReader(content))
        for number, found in enumerate(json.loads(reader.schema.metadata[_BUCKETS])):
            if found == bucket:
                batch = reader.get_batch(number)
                keys, states = (column.to_pylist() for column in batch.columns)
                yield from zip(keys, states, strict=True)
    except (OSError, pa.ArrowException, TypeError, KeyError, ValueError) as error:
        raise describe_damage(path, error) from error
