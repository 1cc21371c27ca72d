"""Buckets that are divided keep what they had, and records with many files stay small."""

from __future__ import annotations

import os

import pytest

from anabranch.epochs.checkpoint import directory
from anabranch.epochs.checkpoint.directory import Checkpoint, Upkeep
from anabranch.epochs.checkpoint.record import (
    Log,
    Record,
    Snapshot,
    count_as_one,
    from_json,
    read_record,
    record_path,
    tidy,
    to_json,
)
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.state.buckets import EMPTY, Stamp, to_ranges

PROGRAM = {"operators": {}, "states": {}, "types": []}


def snapshot(epoch, bucket, buckets):
    name = f"s{epoch}-{bucket}-of-{buckets}.arrow"
    version = Stamp(epoch, epoch, 7)
    held = ((bucket, bucket + 1),)
    return Snapshot("u0", name, epoch, held, 1, 800, version, buckets=buckets)


def log(epoch, *numbers, buckets=16, unit="u0"):
    name, size = f"l{epoch}-{numbers[0]}.arrow", 100 * len(numbers)
    held = to_ranges(numbers)
    return Log(unit, name, epoch, held, size, epoch, 7, buckets=buckets)


DIVIDED = Record(
    epoch=4,
    turn=4,
    logs=(log(2, 3, 4), log(3, 3, 19, buckets=32), log(4, 19, buckets=32)),
    snapshots=(snapshot(1, 3, 16),),
    buckets=32,
)


def files(record, bucket):
    return [
        held.file.removesuffix(".arrow")
        for held in record.files_of("u0", [bucket])[bucket]
    ]


def test_a_part_is_made_of_the_files_of_the_whole_and_of_its_own():
    assert ["s1-3-of-16", "l2-3", "l3-3"] == files(DIVIDED, 3)
    assert ["s1-3-of-16", "l2-3", "l3-3", "l4-19"] == files(DIVIDED, 19)
    assert ["l2-3"] == files(DIVIDED, 4) == files(DIVIDED, 20)


def test_a_part_has_the_version_of_the_last_change_of_either():
    versions = DIVIDED.versions["u0"]

    expected = {n: Stamp(e, e, 7) for n, e in ((3, 3), (19, 4), (4, 2), (20, 2))}
    assert {**expected, 5: EMPTY} == versions.of([3, 19, 4, 20, 5])
    parts = versions.divide(64)  # from now on
    assert {3: Stamp(3, 3, 7), 3 + 32: Stamp(3, 3, 7)} == parts.of([3, 3 + 32])


def test_a_file_of_the_whole_stays_until_all_parts_have_their_own():
    first = tidy(DIVIDED, [snapshot(5, 19, 32)])
    both = tidy(first, [snapshot(6, 3, 32)])

    assert ["s1-3-of-16", "l2-3", "l3-3"] == files(first, 3)
    assert ["s5-19-of-32"] == files(first, 19) == files(both, 19)
    assert ["s6-3-of-32"] == files(both, 3)
    assert {"l2-3.arrow", "s5-19-of-32.arrow", "s6-3-of-32.arrow"} == {
        file for _, file in both.files
    }


def test_nothing_of_a_divided_record_is_lost_on_its_way():
    assert DIVIDED == from_json(to_json(DIVIDED))


def test_a_state_without_a_key_is_not_divided():
    old = Record(1, 1, logs=(log(1, 0, unit="u1"), log(1, 0)), buckets=64)

    record = count_as_one(old, {"u1"})

    assert {0: Stamp(1, 1, 7)} == record.versions["u1"].of([0])
    changed = [n for n, v in record.versions["u0"].of(range(64)).items() if v != EMPTY]
    assert [0, 16, 32, 48] == changed


def test_the_parts_that_changed_get_snapshots():
    upkeep = Upkeep()
    before = Record(1, logs=(log(1, 3),), snapshots=())
    upkeep.due(before, before.logs)
    large = Log("u0", "l2", 2, ((3, 4), (19, 20)), 600_000, buckets=32)
    after = Record(2, logs=(*before.logs, large), buckets=32)

    assert {("u0", 1), ("u0", 9)} == upkeep.due(after, [large])  # their stores


@pytest.fixture
def checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(directory, "_LISTED_STATES", 64)
    monkeypatch.setattr(directory, "_MANIFESTS", 4)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the machine does not fail
    made = Checkpoint(str(tmp_path / "checkpoint"), PROGRAM)
    yield made
    made.close()


def commit_epochs(checkpoint, first, last, channels=40):
    """Commit epochs, each with a log of every channel; a bucket gets a snapshot in turn."""
    record = checkpoint.last or Record()
    folder = checkpoint.directory / "state" / "u0"
    folder.mkdir(exist_ok=True)
    for epoch in range(first, last + 1):
        logs = tuple(log(epoch, n, buckets=1024) for n in range(channels))
        whole = [snapshot(epoch, epoch % channels, 1024)]
        for held in (*logs, *whole):
            (folder / held.file).touch()
        record = Record(
            epoch,
            epoch,
            logs=(*record.logs, *logs),
            snapshots=record.snapshots,
            buckets=1024,
        )
        record = tidy(record, whole)
        checkpoint.commit(record, None)
    return record


def read(checkpoint, epoch):
    return read_record(checkpoint.directory, epoch, NO_KEY)


def contents(record):
    return record.logs, sorted(record.snapshots, key=lambda one: one.file)


def test_a_record_stays_small_and_says_the_same(checkpoint):
    sizes = []
    for epoch in range(1, 31):
        record = commit_epochs(checkpoint, epoch, epoch)
        sizes.append(record_path(checkpoint.directory, epoch).stat().st_size)
        assert contents(record) == contents(read(checkpoint, epoch))

    assert len(record.held) > 500
    assert max(sizes) < 100 * 150  # so many bytes of a file of state
    assert len(list((checkpoint.directory / "manifests").iterdir())) <= 2 * 4


def test_files_that_are_tidied_up_later_are_all_that_is_different(checkpoint):
    """Where there are many, a record names some for longer than they are needed."""
    folder = checkpoint.directory / "state" / "u0"
    folder.mkdir()
    records = [Record(), Record()]
    for epoch in range(1, 31):
        due = epoch % 8
        logs = tuple(log(epoch, n, buckets=1024) for n in range(40) if n != due)
        whole = snapshot(epoch, due, 1024)
        for held in (*logs, whole):
            (folder / held.file).touch()
        record = Record(
            epoch,
            epoch,
            logs=(*records[-1].logs, *logs),
            snapshots=(*records[-1].snapshots, whole),
            buckets=1024,
        )
        records.append(record if epoch % 5 else tidy(record))
        checkpoint.commit(records[-1], None)
        assert contents(tidy(record)) == contents(tidy(read(checkpoint, epoch)))

    before, last = records[-2:]
    needed = {file for record in (before, last) for _, file in record.files}
    assert needed == {path.name for path in folder.iterdir()}
    named = {one.file for n in (29, 30) for one in read(checkpoint, n).manifests}
    found = {path.name for path in (checkpoint.directory / "manifests").iterdir()}
    assert named == found


def test_a_next_run_goes_on_and_leaves_nothing_behind(checkpoint):
    record = commit_epochs(checkpoint, 1, 9)
    checkpoint.close()

    again = Checkpoint(str(checkpoint.directory), PROGRAM)
    assert contents(record) == contents(again.last)
    record = commit_epochs(again, 10, 12)
    again.close()

    assert contents(record) == contents(read(again, 12))
    named = {one.file for n in (11, 12) for one in read(again, n).manifests}
    assert named == {path.name for path in (again.directory / "manifests").iterdir()}


def test_a_manifest_that_is_damaged_is_told_with_its_name(checkpoint):
    commit_epochs(checkpoint, 1, 9)
    checkpoint.close()
    (first, *_) = read(checkpoint, 9).manifests
    path = checkpoint.directory / "manifests" / first.file
    path.write_bytes(path.read_bytes().replace(b"u0", b"u1", 1))

    with pytest.raises(Exception, match=f"{first.file} cannot be read: its content"):
        Checkpoint(str(checkpoint.directory), PROGRAM)
