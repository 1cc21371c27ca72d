"""Buckets come back from a checkpoint, from wherever they stand."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from anabranch.epochs.checkpoint.files import read_states, write_log, write_states
from anabranch.epochs.checkpoint.record import (
    Log,
    Record,
    Snapshot,
    read_record,
    record_path,
    to_json,
)
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.state.buckets import EMPTY, Stamp, prefix_of_bucket
from anabranch.epochs.state.restore import (
    DurableCopy,
    HostCopy,
    begin_at,
    store_path,
    write_from,
)
from anabranch.epochs.state.store import close_buckets
from anabranch.errors import CheckpointError, EngineError
from tests.epochs.state.one_bucket import Bucket, in_bucket

LAST = Stamp(4, 4, 40)
EXPECTED = {b"a": b"2", b"b": b"4", b"c": b"3"}


@pytest.fixture
def copy(tmp_path):
    """A snapshot after epoch 2, and the changes of epochs 3 and 4."""
    directory = tmp_path / "checkpoint"
    folder = directory / "state" / "u0"
    folder.mkdir(parents=True)
    (directory / "commits").mkdir()
    held = [(b"a", b"2"), (b"b", b"2")]
    write_states(folder / "s2", lambda: in_bucket(5, held), NO_KEY)
    other = in_bucket(4, [(b"other", b"3")])
    write_log(folder / "l3", other + in_bucket(5, [(b"c", b"3")]), NO_KEY)
    write_log(folder / "l4", in_bucket(5, [(b"b", b"4")]), NO_KEY)
    record = Record(
        epoch=4,
        turn=4,
        logs=(
            Log("u0", "l3", 3, ((4, 6),), 8, turn=3, attempt=30),
            Log("u0", "l4", 4, ((5, 6),), 2, turn=4, attempt=40),
        ),
        snapshots=(Snapshot("u0", "s2", 2, ((5, 6),), 2, 4, version=Stamp(2, 2, 20)),),
    )
    record_path(directory, 4).write_bytes(NO_KEY.attach(to_json(record)))
    return DurableCopy(directory, "u0", Stamp(4, 4), NO_KEY, 16, bucket_of=None)


@pytest.fixture
def bucket(tmp_path):
    yield Bucket(tmp_path / "local")
    close_buckets()


STANDING = {
    "a host without states": (EMPTY, {}),
    "a bucket that was elsewhere for an epoch": (
        Stamp(3, 3, 30),
        {b"a": b"2", b"b": b"2", b"c": b"3"},
    ),
    "a bucket as it was in the snapshot": (
        Stamp(2, 2, 20),
        {b"a": b"2", b"b": b"2"},
    ),
    "a bucket from before the snapshot": (Stamp(1, 1, 10), {b"a": b"x", b"z": b"x"}),
    "a version that was never committed": (Stamp(3, 2, 30), {b"a": b"x", b"z": b"x"}),
    "the last epoch, but by a try that was given up": (Stamp(4, 3, 40), {b"z": b"x"}),
    "the last try, but by the attempt that lost": (Stamp(4, 4, 41), {b"z": b"x"}),
}


@pytest.mark.parametrize(("stamp", "held"), STANDING.values(), ids=STANDING)
def test_restored_from(copy, bucket, stamp, held):
    bucket.load(stamp, 4, [sorted(held.items())])

    begin_at(bucket.store, {bucket.number: LAST}, 10, copy)

    assert EXPECTED == dict(bucket.states())


def test_what_a_task_of_an_earlier_try_restores_meanwhile_does_no_harm(copy, bucket):
    """
    It belongs to epoch 4, which another attempt has made by now.
    """
    begin_at(bucket.store, {bucket.number: LAST}, 10, copy)
    bucket.end()
    older = [(b"a", b"2"), (b"b", b"2"), (b"c", b"3")]
    Bucket(bucket.path).load(Stamp(3, 3, 30), 10, [older])

    new = in_bucket(5, [(b"new", b"5")])
    write_from(bucket.store, {5: LAST}, Stamp(5, 11, 50), new, copy)

    assert bucket.begin(Stamp(5, 11, 50), 11)
    assert {**EXPECTED, b"new": b"5"} == dict(bucket.states())


def test_a_task_of_an_earlier_try_does_not_restore_what_a_later_one_has_left(
    copy, bucket
):
    begin_at(bucket.store, {bucket.number: LAST}, 10, copy)
    bucket.write(LAST, Stamp(5, 10, 50), {b"new": b"5"})
    bucket.end()

    with pytest.raises(EngineError, match="a later try"):
        begin_at(bucket.store, {bucket.number: Stamp(3, 3, 30)}, 9, copy)
    assert (LAST, Stamp(5, 10, 50)) == bucket.versions


def test_without_a_checkpoint_a_bucket_that_has_moved_is_lost(bucket, tmp_path):
    copy = HostCopy(tmp_path / "u0", 16, bucket_of=None)

    with pytest.raises(EngineError, match="needs a checkpoint"):
        begin_at(bucket.store, {bucket.number: LAST}, 10, copy)


def test_a_file_that_is_missing_is_told_by_its_name(copy, bucket):
    (copy.directory / "state" / "u0" / "l4").unlink()

    with pytest.raises(CheckpointError, match="l4 cannot be read"):
        begin_at(bucket.store, {bucket.number: LAST}, 10, copy)


MEBIBYTE = 1 << 20


def test_a_bucket_is_written_and_read_in_bounded_memory(tmp_path):
    """96 MiB of states, of which no more than a few batches are ever in memory."""
    path = tmp_path / "snapshot"

    prefix = prefix_of_bucket(5)

    def states():
        return ((prefix + b"%04d" % n, bytes([n]) * MEBIBYTE) for n in range(96))

    tracemalloc.start()
    keys, size, digest = write_states(path, states, NO_KEY)
    found = [(key, len(state)) for key, state in read_states(path, [5], NO_KEY, digest)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert [(prefix + b"%04d" % n, MEBIBYTE) for n in range(96)] == found
    assert (96, 96 * (MEBIBYTE + 6)) == (keys, size)
    assert digest == NO_KEY.digest_file(path)
    assert peak < 64 * MEBIBYTE
    assert [] == list(read_states(path, [4], NO_KEY, digest))


def test_a_snapshot_that_has_changed_is_refused_before_a_state_is_read(tmp_path):
    path = tmp_path / "snapshot"
    held = in_bucket(5, [(b"a", b"1" * 99)])
    _, _, digest = write_states(path, lambda: held, NO_KEY)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    with pytest.raises(CheckpointError, match="not what was written"):
        next(read_states(path, [5], NO_KEY, digest))


def halve(entry):
    """Return the half that a key of a bucket has gone to: 5, or the second one."""
    return SECOND if entry[0][2:] in (b"a", b"c") else 5


SECOND = 5 + 32


def test_a_part_of_a_bucket_gets_its_own_keys_from_the_checkpoint(copy, tmp_path):
    part = replace(copy, buckets=64, bucket_of=halve)
    bucket = Bucket(tmp_path / "local", SECOND)
    path = record_path(copy.directory, 4)
    path.write_bytes(
        NO_KEY.attach(
            to_json(replace(read_record(copy.directory, 4, NO_KEY), buckets=64))
        )
    )

    begin_at(bucket.store, {SECOND: LAST}, 10, part)

    assert {b"a": b"2", b"c": b"3"} == bucket.states()


def test_a_part_of_a_bucket_gets_its_own_keys_from_the_host(tmp_path):
    """Also where the bucket was divided twice, and nobody has opened what lies between."""
    whole = Bucket(store_path(tmp_path, 5, 16))
    whole.load(Stamp(3, 3, 30), 3, [[(b"a", b"1"), (b"b", b"2")]])
    whole.write(Stamp(3, 3, 30), LAST, {b"c": b"3"})
    Bucket(store_path(tmp_path, 5, 32))
    bucket = Bucket(tmp_path / "local", SECOND)

    begin_at(bucket.store, {SECOND: LAST}, 10, HostCopy(tmp_path, 64, halve))

    assert {b"a": b"1", b"c": b"3"} == bucket.states()
    assert (LAST,) == bucket.versions


def test_one_bucket_of_many_in_a_file_is_read_alone(tmp_path):
    path = tmp_path / "log"
    held = [one for n in range(40) for one in in_bucket(n, [(b"k", b"%d" % n)])]
    digest = write_log(path, held, NO_KEY)

    assert held[7:9] + held[30:31] == list(
        read_states(path, [30, 8, 7, 40], NO_KEY, digest)
    )


def test_buckets_that_a_host_has_in_different_versions_are_all_restored(copy, tmp_path):
    """Bucket 4 has never changed here, 5 was elsewhere since its snapshot."""
    bucket = Bucket(tmp_path / "local")
    bucket.load(Stamp(2, 2, 20), 4, [[(b"a", b"2"), (b"b", b"2")]])
    wanted = {4: Stamp(3, 3, 30), 5: LAST, 6: EMPTY}

    assert 2 == begin_at(bucket.store, wanted, 10, copy)

    other = in_bucket(4, [(b"other", b"3")])
    assert other + in_bucket(5, EXPECTED.items()) == list(bucket.store.states())
