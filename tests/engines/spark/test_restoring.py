"""Buckets come back from a checkpoint, from wherever they stand."""

from __future__ import annotations

import pytest

from anabranch.engines.spark.checkpoint_files import write_log, write_snapshot
from anabranch.engines.spark.checkpoint_record import (
    Log,
    Record,
    Snapshot,
    record_path,
    to_json,
)
from anabranch.engines.spark.restoring import DurableCopy, begin_at
from anabranch.engines.spark.store import EMPTY, Bucket, Stamp, close_buckets
from anabranch.errors import CheckpointError, EngineError

LAST = Stamp(4, 4)
EXPECTED = {b"a": b"2", b"b": b"4", b"c": b"3"}


@pytest.fixture
def copy(tmp_path):
    """A snapshot after epoch 2, and the changes of epochs 3 and 4."""
    directory = tmp_path / "checkpoint"
    folder = directory / "state" / "u0"
    folder.mkdir(parents=True)
    (directory / "commits").mkdir()
    write_snapshot(folder / "s2", 5, [(b"a", b"2"), (b"b", b"2")])
    write_log(folder / "l3", {4: {b"other": b"3"}, 5: {b"c": b"3"}})
    write_log(folder / "l4", {5: {b"b": b"4"}})
    record = Record(
        epoch=4,
        turn=4,
        turns={2: 2, 3: 3, 4: 4},
        logs=(Log("u0", "l3", 3, {4: 6, 5: 2}), Log("u0", "l4", 4, {5: 2})),
        snapshots=(Snapshot("u0", "s2", 2, 5, 2, 4),),
    )
    record_path(directory, 4).write_bytes(to_json(record))
    return DurableCopy(directory, "u0", 5)


@pytest.fixture
def bucket(tmp_path):
    yield Bucket(tmp_path / "local")
    close_buckets()


STANDING = {
    "a host without states": (EMPTY, {}),
    "a bucket that was elsewhere for an epoch": (
        Stamp(3, 3),
        {b"a": b"2", b"b": b"2", b"c": b"3"},
    ),
    "a bucket from before the snapshot": (Stamp(1, 1), {b"a": b"x", b"z": b"x"}),
    "a version that was never committed": (Stamp(3, 9), {b"a": b"x", b"z": b"x"}),
    "the last epoch, but by a try that was given up": (Stamp(4, 9), {b"z": b"x"}),
}


@pytest.mark.parametrize(("stamp", "held"), STANDING.values(), ids=STANDING)
def test_restored_from(copy, bucket, stamp, held):
    bucket.load(stamp, [sorted(held.items())], anew=True)

    begin_at(bucket, LAST, 10, copy)

    assert EXPECTED == dict(bucket.states())


def test_without_a_checkpoint_a_bucket_that_has_moved_is_lost(bucket):
    with pytest.raises(EngineError, match="needs a checkpoint"):
        begin_at(bucket, LAST, 10, None)


def test_a_file_that_is_missing_is_told_by_its_name(copy, bucket):
    (copy.directory / "state" / "u0" / "l4").unlink()

    with pytest.raises(CheckpointError, match="l4 cannot be read"):
        begin_at(bucket, LAST, 10, copy)
