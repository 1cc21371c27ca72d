"""Records: which version of a bucket they name, also those of the first release."""

from __future__ import annotations

import json

import pytest

from anabranch.epochs.checkpoint.record import Log, Record, Snapshot, from_json, to_json
from anabranch.epochs.layout import Unit
from anabranch.epochs.state.buckets import EMPTY, Stamp
from anabranch.epochs.task import EpochAttempt

RECORD = Record(
    epoch=5,
    turn=50,
    logs=(
        Log("u0", "l2", 2, ((0, 2),), 2, turn=20, attempt=200),
        Log("u0", "l4", 4, ((0, 1),), 1, turn=40, attempt=400),
    ),
    snapshots=(Snapshot("u0", "s3", 3, ((1, 2),), 1, 1, version=Stamp(2, 20, 200)),),
)


def version_of(record, unit, bucket):
    """Return the version of a bucket, as a task gets it."""
    attempt = EpochAttempt(versions=record.versions)
    return attempt.versions_of(Unit(unit, 0, 0, (), ()), [bucket])[bucket]


VERSIONS = {
    "a bucket that has changed": (("u0", 0), Stamp(4, 40, 400)),
    "a bucket as in its snapshot": (("u0", 1), Stamp(2, 20, 200)),
    "a bucket that has never changed": (("u0", 2), EMPTY),
    "a unit without states": (("u7", 0), EMPTY),
}


@pytest.mark.parametrize(("place", "version"), VERSIONS.values(), ids=VERSIONS)
def test_a_bucket_has_the_version_of_its_last_change(place, version):
    assert version == version_of(RECORD, *place)


def test_a_record_is_read_as_it_was_written():
    assert RECORD == from_json(to_json(RECORD))


def test_a_record_of_the_first_release_is_read():
    """
    Its logs and snapshots do not tell who has written them; its epochs are known.
    """
    log = {"unit": "u0", "file": "l3", "epoch": 3, "sizes": {"0": 5}}
    snapshot = {"unit": "u0", "file": "s2", "epoch": 2, "bucket": 1}
    old = {
        "epoch": 3,
        "turn": 1_000_007,
        "turns": {"2": 1_000_006, "3": 1_000_007},
        "finished": [],
        "parts": {"out": ["part-000000003-0000.csv"]},
        "logs": [log],
        "snapshots": [{**snapshot, "keys": 1, "size": 9}],
    }

    record = from_json(json.dumps(old).encode())

    assert Stamp(3, 1_000_007) == record.stamp
    assert Stamp(3, 0) == version_of(record, "u0", 0)
    assert Stamp(2, 0) == version_of(record, "u0", 1)


def test_a_record_of_format_6_is_read():
    """
    A log lists the bytes of each bucket from the first to the last, -1 if it has none.
    """
    log = ["u0", "l3", 3, {}, 7, 70, "xxh3:0", 64, 2, 5, -1, 6]
    snapshot = ["u0", "s2", 2, 1, 4, 9, [1, 5, 50], "xxh3:1", 64]
    old = {
        "epoch": 3,
        "turn": 7,
        "finished": [],
        "parts": {},
        "buckets": 64,
        "logs": [log],
        "snapshots": [snapshot],
    }

    record = from_json(json.dumps(old).encode())

    held = ((2, 3), (4, 5))
    assert (Log("u0", "l3", 3, held, 11, 7, 70, "xxh3:0", 64),) == record.logs
    version = Stamp(1, 5, 50)
    whole = Snapshot("u0", "s2", 2, ((1, 2),), 4, 9, version, "xxh3:1", 64)
    assert (whole,) == record.snapshots
