"""States stay where they are: several hosts, one of which comes back without its disk.

    anabranch bench spark/homes [--hosts 4] [--epochs 40] [--jobs]

A keyed count with a checkpoint runs on a standalone cluster whose workers are apart: each
has a directory for states of its own. Half way one executor is killed and its states are
removed, as if it came up on another host. Counted are the buckets that epochs open, and
those that had to be restored from the checkpoint first: in steady state, and by the loss.
At the end nothing may be left on the hosts. With `--jobs` no tasks stay: each epoch is a
Spark job.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import anabranch as ab
from anabranch.engines.spark import residence
from anabranch.epochs.state.states import BUCKETS
from bench.checkpoint.kill import find_processes
from bench.harness.timing import Claim, report, sized
from bench.spark.cluster import cluster

ITEMS = 1_000  # of an epoch
KEYS = 997
SETTLED = 3  # epochs until states have their homes
AT_LEAST = 0.9


class Touch(NamedTuple):
    number: int
    key: int


def count(state: int, touch: Touch) -> tuple[int, tuple[int, int]]:
    return state + 1, (touch.key, state + 1)


class Counted(NamedTuple):
    """What a job has counted up to now."""

    epochs: int
    opened: int
    restored: int


def look(job: ab.Job) -> Counted:
    found = job.metrics()
    return Counted(found.epochs, found.buckets_opened, found.buckets_restored)


def wait_for(job: ab.Job, epochs: int) -> Counted:
    """Wait until a job has run so many epochs."""
    while (found := look(job)).epochs < epochs and not job.wait(0.01):
        pass
    return found


def lose_host(folder: Path) -> None:
    """Kill an executor, and remove what its host has on its disk."""
    victim = find_processes("executor")[0]
    settings = Path(f"/proc/{victim}/environ").read_bytes().split(b"\0")
    (own,) = (one[7:] for one in settings if one.startswith(b"TMPDIR="))
    os.kill(victim, signal.SIGKILL)
    assert folder in Path(own.decode()).parents
    time.sleep(1)
    for path in Path(own.decode()).glob("anabranch*"):
        shutil.rmtree(path, ignore_errors=True)


def run(url: str, folder: Path, hosts: int, epochs: int) -> dict[str, Any]:
    """Run the job; return what was counted."""
    touches = [Touch(n, n * 7 % KEYS) for n in range(epochs * ITEMS)]
    sink = ab.from_iterable(touches, Touch).key_by("key").scan(count, 0).to_list()
    options = {"degree": hosts, "epoch_items": ITEMS, "checkpoint": folder / "state"}
    job = ab.start(sink, on="spark", master=url, **options)
    settled = wait_for(job, SETTLED)
    before = wait_for(job, epochs // 2)
    lose_host(folder)
    job.wait()
    after = look(job)
    counts: dict[int, int] = {}
    expected = []
    for _, key in touches:
        counts[key] = counts.get(key, 0) + 1
        expected.append((key, counts[key]))
    assert expected == sink.items
    opened = before.opened - settled.opened
    return {
        "hosts": hosts,
        "buckets opened in steady state": opened,
        "found where they were opened": round(
            1 - (before.restored - settled.restored) / opened, 3
        ),
        "restored after the loss of a host": after.restored - before.restored,
        "left on hosts": sorted(
            str(path.relative_to(folder))
            for path in folder.glob("cluster/tmp*/anabranch-*/states/*")
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=sized(40, 16))
    parser.add_argument("--jobs", action="store_true", help="no tasks stay")
    parser.add_argument("--json", help="write the results to this file")
    given = parser.parse_args()
    if given.jobs:
        residence.MOST = 0
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-homes-") as name,
        cluster(Path(name) / "cluster", given.hosts, apart=True) as url,
    ):
        found = run(url, Path(name), given.hosts, given.epochs)
    way = "a Spark job for each epoch" if given.jobs else "resident tasks"
    own = -(-BUCKETS // given.hosts)
    claims = [
        Claim(
            f"{given.hosts} hosts, {way}: buckets found at home",
            found["found where they were opened"],
            unit="of all",
            at_least=AT_LEAST,
        ),
        Claim(
            f"{given.hosts} hosts, {way}: buckets restored after the loss of one",
            found["restored after the loss of a host"],
            unit=f"of {BUCKETS:,}",
            at_most=2 * own,
            remark="its own, once elsewhere and once when it is back",
        ),
        Claim(
            f"{given.hosts} hosts, {way}: left on them",
            len(found["left on hosts"]),
            unit="directories",
            at_most=0,
        ),
    ]
    report("homes", found, given.json, claims=claims)


if __name__ == "__main__":
    main()
