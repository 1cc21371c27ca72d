"""Records: which version of a bucket they name, also those of the first release."""

from __future__ import annotations

import json

import pytest

from anabranch.epochs.checkpoint.record import Log, Record, Snapshot, from_json, to_json
from anabranch.epochs.state.store import EMPTY, Stamp

RECORD = Record(
    epoch=5,
    turn=50,
    logs=(
        Log("u0", "l2", 2, {0: 1, 1: 1}, turn=20, attempt=200),
        Log("u0", "l4", 4, {0: 1}, turn=40, attempt=400),
    ),
    snapshots=(Snapshot("u0", "s3", 3, 1, 1, 1, version=Stamp(2, 20, 200)),),
)

VERSIONS = {
    "a bucket that has changed": (("u0", 0), Stamp(4, 40, 400)),
    "a bucket as in its snapshot": (("u0", 1), Stamp(2, 20, 200)),
    "a bucket that has never changed": (("u0", 2), EMPTY),
    "a unit without states": (("u7", 0), EMPTY),
}


@pytest.mark.parametrize(("place", "version"), VERSIONS.values(), ids=VERSIONS)
def test_a_bucket_has_the_version_of_its_last_change(place, version):
    assert version == RECORD.version_of(*place)


LEADING = {
    "nothing, when all logs are kept": (0, EMPTY, True),
    "a change that is logged": (0, Stamp(2, 20, 200), True),
    "the same epoch by another attempt": (0, Stamp(2, 20, 201), False),
    "the same epoch by another try": (0, Stamp(2, 19, 200), False),
    "the content of the snapshot": (1, Stamp(2, 20, 200), True),
    "nothing, when a snapshot has replaced logs": (1, EMPTY, False),
}


@pytest.mark.parametrize(
    ("bucket", "version", "leads"), LEADING.values(), ids=LEADING.keys()
)
def test_logs_lead_from(bucket, version, leads):
    assert leads == RECORD.leads_from("u0", bucket, version)


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
    assert Stamp(3, 0) == record.version_of("u0", 0)
    assert Stamp(2, 0) == record.version_of("u0", 1)
