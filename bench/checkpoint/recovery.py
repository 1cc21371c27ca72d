"""How long it takes to get states back: against the time it took to write them.

Writes N keys as an epoch does (local database, change log), with a snapshot of every
bucket as it becomes due, then restores all buckets on a host that has none of them.
Target: at most 3 times. `anabranch bench checkpoint/recovery [--keys 1000000] [-o FILE]`.
"""

from __future__ import annotations

import argparse
import json
import pickle
import tempfile
import time
from pathlib import Path

from anabranch.epochs.checkpoint.files import size_of, write_log, write_snapshot
from anabranch.epochs.checkpoint.record import (
    FEWEST_BUCKETS,
    Log,
    Record,
    Snapshot,
    record_path,
    to_json,
)
from anabranch.epochs.checkpoint.seal import NO_KEY
from anabranch.epochs.state.restore import DurableCopy, begin_at
from anabranch.epochs.state.states import bucket_of
from anabranch.epochs.state.store import EMPTY, Bucket, Stamp, close_buckets
from anabranch.runtime.keys import key_bytes
from bench.harness.timing import Claim, record

UNIT = "u0"


def changes_of(keys: range) -> dict[int, dict[bytes, bytes]]:
    """Return states as a running total has them, by bucket."""
    changes: dict[int, dict[bytes, bytes]] = {
        number: {} for number in range(FEWEST_BUCKETS)
    }
    for key in keys:
        raw = b"0000/" + key_bytes(f"user-{key}")
        changes[bucket_of(f"user-{key}", FEWEST_BUCKETS)][raw] = pickle.dumps(
            (key, [key / 7, key])
        )
    return changes


def written(folder: Path, changes: dict[int, dict[bytes, bytes]], epochs: int) -> float:
    """Write states over some epochs, and return how long that took, in seconds."""
    state = folder / "checkpoint" / "state" / UNIT
    state.mkdir(parents=True)
    (folder / "checkpoint" / "commits").mkdir()
    parts = {n: list(changed.items()) for n, changed in changes.items()}
    logs = []
    base = EMPTY
    began_s = time.perf_counter()
    for epoch in range(1, epochs + 1):
        chosen = {n: dict(part[epoch - 1 :: epochs]) for n, part in parts.items()}
        write_log(state / f"log{epoch}", chosen, NO_KEY)
        stamp = Stamp(epoch, epoch)
        for number, changed in chosen.items():
            Bucket(folder / "first" / f"{number}").write(base, stamp, changed)
        sizes = {n: size_of(changed.items()) for n, changed in chosen.items()}
        logs.append(Log(UNIT, f"log{epoch}", epoch, sizes, turn=epoch))
        base = stamp
    took_s = time.perf_counter() - began_s
    record = Record(epoch=epochs, turn=epochs, logs=tuple(logs))
    record_path(folder / "checkpoint", epochs).write_bytes(
        NO_KEY.attach(to_json(record))
    )
    return took_s


def snapshots(folder: Path, epochs: int) -> float:
    """Replace the logs by snapshots, and return how long writing them took."""
    state = folder / "checkpoint" / "state" / UNIT
    made = []
    began_s = time.perf_counter()
    for number in range(FEWEST_BUCKETS):
        bucket = Bucket(folder / "first" / f"{number}")
        keys, size, _ = write_snapshot(
            state / f"s{number}", number, bucket.states, NO_KEY
        )
        version = Stamp(epochs, epochs)
        made.append(Snapshot(UNIT, f"s{number}", epochs, number, keys, size, version))
    took_s = time.perf_counter() - began_s
    record = Record(epochs, epochs, snapshots=tuple(made))
    record_path(folder / "checkpoint", epochs).write_bytes(
        NO_KEY.attach(to_json(record))
    )
    return took_s


def recovered(folder: Path, host: str, epochs: int) -> tuple[float, int]:
    """Restore all buckets where there is nothing; return seconds and keys."""
    began_s = time.perf_counter()
    opened = []
    for number in range(FEWEST_BUCKETS):
        bucket = Bucket(folder / host / f"{number}")
        last = Stamp(epochs, epochs)
        copy = DurableCopy(folder / "checkpoint", UNIT, number, committed=last)
        begin_at(bucket, last, epochs + 1, copy)
        opened.append(bucket)
    took_s = time.perf_counter() - began_s
    return took_s, sum(1 for bucket in opened for _ in bucket.states())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    changes = changes_of(range(given.keys))
    with tempfile.TemporaryDirectory(prefix="anabranch-recovery-") as name:
        folder = Path(name)
        write_s = written(folder, changes, given.epochs)
        from_logs_s, keys = recovered(folder, "second", given.epochs)
        snapshot_s = snapshots(folder, given.epochs)
        from_snapshots_s, again = recovered(folder, "third", given.epochs)
        close_buckets()
    assert keys == again == given.keys
    results = {
        "keys": keys,
        "write, s": round(write_s, 2),
        "recover from logs, s": round(from_logs_s, 2),
        "recover from snapshots, s": round(from_snapshots_s, 2),
        "write snapshots, s": round(snapshot_s, 2),
        "ratio, logs": round(from_logs_s / write_s, 2),
        "ratio, snapshots": round(from_snapshots_s / write_s, 2),
    }
    print(json.dumps(results, indent=2))
    claims = [
        Claim(
            f"{keys:,} keys: recover from {what} over write",
            float(results[f"ratio, {what}"]),
            at_most=3.0,
            remark="one run",
        )
        for what in ("logs", "snapshots")
    ]
    record("recovery", claims)
    if given.output is not None:
        given.output.write_text(json.dumps(results, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
