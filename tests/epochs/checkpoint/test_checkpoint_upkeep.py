"""Snapshots are spread over the epochs, and the checkpoint stays bounded."""

from __future__ import annotations

import pytest

from anabranch.epochs.checkpoint.directory import OLDEST, Upkeep
from anabranch.epochs.checkpoint.record import Log, Record, Snapshot, tidy

BUCKETS = 16


def simulated(epochs, state_bytes, epoch_bytes):
    """Yield the records of a job, and how many bytes of snapshots each wrote."""
    upkeep, record = Upkeep(), Record()
    due = frozenset()
    for epoch in range(1, epochs + 1):
        log = Log("u0", f"l{epoch}", epoch, ((0, BUCKETS),), epoch_bytes)
        size = min(state_bytes, epoch * epoch_bytes) // BUCKETS
        new = [
            Snapshot("u0", f"s{epoch}-{b}", epoch, ((b, b + 1),), 1, size)
            for _, b in due
        ]
        record = tidy(
            Record(
                epoch,
                epoch,
                logs=(*record.logs, log),
                snapshots=record.snapshots,
            ),
            new,
        )
        yield record, size * len(new)
        due = upkeep.due(record, [log], new)


@pytest.mark.parametrize(
    ("state_bytes", "epoch_bytes"),
    [(100_000_000, 5_000_000), (100_000_000, 100_000_000), (1_000, 1_000)],
    ids=["few keys of an epoch", "all keys of an epoch", "a small state"],
)
def test_logs_are_kept_for_a_bounded_number_of_epochs(state_bytes, epoch_bytes):
    for record, _ in simulated(300, state_bytes, epoch_bytes):
        assert len(record.logs) <= OLDEST + 2 * BUCKETS


def test_kept_logs_are_about_as_large_as_the_state():
    records = list(simulated(300, 100_000_000, 5_000_000))

    kept = [sum(log.size for log in r.logs) for r, _ in records]

    assert max(kept) <= 2.5 * 100_000_000


def test_no_epoch_writes_much_more_than_it_has_changed():
    for _, written in simulated(300, 100_000_000, 5_000_000):
        assert written <= 2 * (5_000_000 + 100_000_000 // BUCKETS)
