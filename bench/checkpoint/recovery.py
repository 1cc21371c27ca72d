"""How long it takes to get states back: against the time it took to write them.

Writes N keys as an epoch does (local database, change log), with a snapshot of every
bucket as it becomes due, then restores all buckets on a host that has none of them.
Target: at most 3 times. Five runs, each of which writes and restores in turn; two minutes.
`anabranch bench checkpoint/recovery [--keys 300000] [--runs 5] [-o FILE]`.
"""

from __future__ import annotations

import argparse
import itertools
import pickle
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from anabranch.epochs.checkpoint.files import write_log, write_states
from anabranch.epochs.checkpoint.record import (
    Log,
    Record,
    Snapshot,
    record_path,
    to_json,
)
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.state.buckets import (
    EMPTY,
    Stamp,
    bucket_of_entry,
    count_in_store,
    prefix_of_bucket,
)
from anabranch.epochs.state.restore import DurableCopy, begin_at
from anabranch.epochs.state.states import BUCKETS, bucket_of
from anabranch.epochs.state.store import BucketStore, Entry, close_buckets
from anabranch.runtime.keys import key_bytes
from bench.harness.timing import claim, ratio, report

UNIT = "u0"
ALL = ((0, BUCKETS),)


def changes_of(keys: range) -> list[Entry]:
    """Return states as a running total has them, sorted."""
    changes = []
    for key in keys:
        bucket = prefix_of_bucket(bucket_of(f"user-{key}", BUCKETS))
        raw = bucket + b"0000/" + key_bytes(f"user-{key}")
        changes.append((raw, pickle.dumps((key, [key / 7, key]))))
    return sorted(changes)


def divide(entries: list[Entry]) -> dict[int, list[Entry]]:
    """Return entries by their stores."""
    each = count_in_store(BUCKETS)
    stores = itertools.groupby(entries, lambda one: bucket_of_entry(one[0]) // each)
    return {number: list(some) for number, some in stores}


def buckets_in(store: int) -> range:
    each = count_in_store(BUCKETS)
    return range(store * each, (store + 1) * each)


def written(folder: Path, changes: list[Entry], epochs: int) -> float:
    """Write states over some epochs, and return how long that took, in seconds."""
    state = folder / "checkpoint" / "state" / UNIT
    state.mkdir(parents=True)
    (folder / "checkpoint" / "commits").mkdir()
    logs = []
    base = EMPTY
    began_s = time.perf_counter()
    for epoch in range(1, epochs + 1):
        chosen = changes[epoch - 1 :: epochs]
        write_log(state / f"log{epoch}", chosen, NO_KEY)
        stamp = Stamp(epoch, epoch)
        for number, some in divide(chosen).items():
            bases = dict.fromkeys(buckets_in(number), base)
            BucketStore(folder / "first" / f"{number}").write(bases, stamp, some)
        size = sum(len(key) + len(state) for key, state in chosen)
        logs.append(Log(UNIT, f"log{epoch}", epoch, ALL, size, epoch, buckets=BUCKETS))
        base = stamp
    took_s = time.perf_counter() - began_s
    commit(folder, Record(epochs, epochs, logs=tuple(logs), buckets=BUCKETS))
    return took_s


def commit(folder: Path, record: Record) -> None:
    path = record_path(folder / "checkpoint", record.epoch)
    path.write_bytes(NO_KEY.attach(to_json(record)))


def snapshots(folder: Path, epochs: int) -> float:
    """Replace the logs by snapshots, and return how long writing them took."""
    state = folder / "checkpoint" / "state" / UNIT
    made = []
    began_s = time.perf_counter()
    version = Stamp(epochs, epochs)
    for number in range(BUCKETS // count_in_store(BUCKETS)):
        store, own = BucketStore(folder / "first" / f"{number}"), buckets_in(number)
        store.begin(dict.fromkeys(own, version), epochs)
        keys, size, _ = write_states(state / f"s{number}", store.states, NO_KEY)
        store.end()
        held = ((own.start, own.stop),)
        made.append(
            Snapshot(
                *(UNIT, f"s{number}", epochs, held, keys, size, version),
                buckets=BUCKETS,
            )
        )
    took_s = time.perf_counter() - began_s
    commit(folder, Record(epochs, epochs, snapshots=tuple(made), buckets=BUCKETS))
    return took_s


def recovered(folder: Path, host: str, epochs: int) -> tuple[float, int]:
    """Restore all buckets where there is nothing; return seconds and keys."""
    began_s = time.perf_counter()
    opened = []
    last = Stamp(epochs, epochs)
    for number in range(BUCKETS // count_in_store(BUCKETS)):
        store = BucketStore(folder / host / f"{number}")
        copy = DurableCopy(
            folder / "checkpoint", UNIT, last, NO_KEY, BUCKETS, lambda _: -1
        )
        begin_at(store, dict.fromkeys(buckets_in(number), last), epochs + 1, copy)
        opened.append(store)
    took_s = time.perf_counter() - began_s
    return took_s, sum(1 for store in opened for _ in store.states())


class Took(NamedTuple):
    """Seconds of one run."""

    write: float
    from_logs: float
    snapshots: float
    from_snapshots: float


def run_once(changes: list[Entry], epochs: int) -> Took:
    """Write all states, and restore them from logs and from snapshots."""
    with tempfile.TemporaryDirectory(prefix="anabranch-recovery-") as name:
        folder = Path(name)
        write_s = written(folder, changes, epochs)
        from_logs_s, keys = recovered(folder, "second", epochs)
        snapshot_s = snapshots(folder, epochs)
        from_snapshots_s, again = recovered(folder, "third", epochs)
        close_buckets()
    assert keys == again == len(changes)
    return Took(write_s, from_logs_s, snapshot_s, from_snapshots_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=300_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("-o", "--output")
    given = parser.parse_args()
    changes = changes_of(range(given.keys))
    runs = [run_once(changes, given.epochs) for _ in range(given.runs)]
    write_s = [one.write for one in runs]
    ways = {
        "logs": [one.from_logs for one in runs],
        "snapshots": [one.from_snapshots for one in runs],
    }
    claims = [
        claim(
            f"{given.keys:,} keys: recover from {what} over write",
            ratio(back_s, write_s),
            at_most=3.0,
        )
        for what, back_s in ways.items()
    ]
    results = {"keys": given.keys, "runs": [one._asdict() for one in runs]}
    report("recovery", results, given.output, claims=claims)


if __name__ == "__main__":
    main()
