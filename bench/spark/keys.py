"""Very many keys on this machine: memory while states grow, snapshots and recovery.

    anabranch bench spark/keys [--keys 100000000] [--epoch-items 1000000]

A keyed count with a checkpoint takes in every key once. The memory of the driver and of its
Python workers is read after every epoch: what is theirs alone, since the pages of the
states belong to the system, which takes them back when it needs them. Then the host's own
copy of the states is removed, and the job goes on: its first epoch restores all keys. The
claims compare the last quarter of the keys with the second one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from anabranch.engines.spark.session import open_session
from anabranch.epochs.state.restore import local_directory, name_states
from bench.checkpoint.kill import find_processes
from bench.harness.timing import Claim, report, sized

AFTER = 3  # epochs behind the last key
AT_MOST = 1.25  # times the memory of the second quarter


class Touch(NamedTuple):
    key: int


class Held(NamedTuple):
    """MiB of the driver and of its workers together."""

    driver: int
    workers: int


def count(state: int, touch: Touch) -> tuple[int, Touch]:
    return state + 1, touch


def private_mib(process: int) -> int:
    """Return the memory of a process that is not that of a file."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return 0
    (line,) = (one for one in status.splitlines() if one.startswith("RssAnon"))
    return int(line.split()[1]) // 1024


def look() -> Held:
    return Held(
        private_mib(os.getpid()), sum(map(private_mib, find_processes("worker")))
    )


def run(
    items: range, checkpoint: Path, rows: int, epochs: int
) -> tuple[list[float], list[Held]]:
    """Run so many epochs and stop; return the seconds and the memory of each."""
    touches = ab.from_iterable(items, int).map(Touch).key_by("key")
    sink = touches.scan(count, 0).filter(lambda _: False).to_list()
    job = ab.start(sink, checkpoint=checkpoint, epoch_items=rows, degree=2, ui=False)
    held: list[Held] = []
    while (ran := job.metrics().epochs) < epochs and not job.wait(0.02):
        if ran > len(held):
            held.append(look())
        time.sleep(0.02)
    job.stop()
    return list(job.metrics().epoch_s[:epochs]), held


def compare(what: str, held: Sequence[int]) -> Claim:
    """Return the claim that memory does not grow with the keys."""
    quarter = max(1, len(held) // 4)
    second, last = held[quarter : 2 * quarter] or held, held[-quarter:]
    over = statistics.median(last) / max(1, statistics.median(second))
    return Claim(what, round(over, 2), unit="times", at_most=AT_MOST)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--keys", type=int, default=sized(100_000_000, 100_000))
    parser.add_argument("--epoch-items", type=int, default=sized(1_000_000, 10_000))
    parser.add_argument("--json", help="write the results to this file")
    given = parser.parse_args()
    open_session("local[2]")
    rows = given.epoch_items
    epochs = -(-given.keys // rows)
    items = range((epochs + AFTER) * rows)
    with tempfile.TemporaryDirectory(prefix="anabranch-keys-") as name:
        checkpoint = Path(name) / "checkpoint"
        took_s, held = run(items, checkpoint, rows, epochs)
        files = [path for path in checkpoint.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        identity = json.loads((checkpoint / "program.json").read_text())["identity"]
        states = local_directory(name_states(identity, checkpoint.resolve()))
        shutil.rmtree(states, ignore_errors=True)
        again_s, _ = run(items, checkpoint, rows, AFTER - 1)
        shutil.rmtree(states, ignore_errors=True)
    results = {
        "keys": rows * epochs,
        "s to write them": round(sum(took_s), 1),
        "s of the first epoch that has them again": round(again_s[0], 1),
        "s of the next": round(again_s[1], 1),
        "files of the checkpoint": len(files),
        "MiB of the checkpoint": size >> 20,
        "MiB of the driver, by epoch": [one.driver for one in held],
        "MiB of the workers, by epoch": [one.workers for one in held],
    }
    claims = [
        compare(f"{rows * epochs:,} keys: memory of {who}", [one[n] for one in held])
        for n, who in enumerate(("the driver", "the workers"))
    ]
    report("keys", results, given.json, claims=claims)


if __name__ == "__main__":
    main()
