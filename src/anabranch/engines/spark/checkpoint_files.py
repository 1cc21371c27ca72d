"""The durable copy of states: change logs and snapshots, as Arrow files.

A file holds the states of some buckets, each as record batches of its own with the
columns `key` and `state`, in the order of the keys. A bucket is read without its
neighbours.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from anabranch.engines.spark.durable import durably
from anabranch.errors import CheckpointError

Entry: TypeAlias = tuple[bytes, bytes]  # key, state

_BATCH_ROWS = 1 << 16
_FIELDS = [("key", pa.large_binary()), ("state", pa.large_binary())]
_BUCKETS = b"buckets"  # of each record batch
_QUICK = pa.ipc.IpcWriteOptions(compression="lz4")


def write_log(path: Path, changes: Mapping[int, Mapping[bytes, bytes]]) -> None:
    """Write what an epoch has changed in some buckets."""
    _write(path, [(n, sorted(changed.items())) for n, changed in changes.items()])


def write_snapshot(path: Path, bucket: int, states: Iterable[Entry]) -> tuple[int, int]:
    """Write all states of a bucket, which come in the order of their keys.

    Return how many they are, and their bytes.
    """
    held = iter(states)
    parts = []
    while part := list(itertools.islice(held, _BATCH_ROWS)):
        parts.append((bucket, part))
    _write(path, parts)
    entries = itertools.chain.from_iterable(part for _, part in parts)
    return sum(len(part) for _, part in parts), size_of(entries)


def size_of(entries: Iterable[Entry]) -> int:
    """Return the bytes of keys and states.

    >>> size_of([(b"a", b"xyz")])
    4
    """
    return sum(len(key) + len(state) for key, state in entries)


def _write(path: Path, parts: Iterable[tuple[int, list[Entry]]]) -> None:
    parts = [(bucket, entries) for bucket, entries in parts if entries]
    buckets = json.dumps([bucket for bucket, _ in parts])
    schema = pa.schema(_FIELDS, metadata={_BUCKETS: buckets})
    with durably(path) as file, pa.ipc.new_file(file, schema, options=_QUICK) as writer:
        for _, entries in parts:
            columns = [
                pa.array(column, type=pa.large_binary())
                for column in zip(*entries, strict=True)
            ]
            writer.write_batch(pa.record_batch(columns, schema=schema))


def read_bucket(path: Path, bucket: int) -> Iterator[Entry]:
    """Return the states of a bucket that a file holds, in the order of the keys."""
    try:
        with pa.memory_map(str(path)) as source:
            reader = pa.ipc.open_file(source)
            for number, found in enumerate(
                json.loads(reader.schema.metadata[_BUCKETS])
            ):
                if found == bucket:
                    batch = reader.get_batch(number)
                    keys, states = (column.to_pylist() for column in batch.columns)
                    yield from zip(keys, states, strict=True)
    except (OSError, pa.ArrowInvalid) as error:
        msg = (
            f"a checkpoint must be whole; {path} cannot be read: {error}; "
            f"start anew with an empty directory, or put the file back"
        )
        raise CheckpointError(msg) from error
