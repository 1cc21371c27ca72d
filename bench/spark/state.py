"""State costs what is touched, not what is held; and workers do not grow.

    anabranch bench spark/state [--runs N] [--touched N] [--epochs N]

A keyed count holds 1,000,000 or 10,000 keys, and each measured epoch touches 10,000 of
them. Then 500 small epochs run, and the memory of the Python workers is read at the
100th and at the last.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.harness.timing import claim, ratio, report

FEW, MANY = 10_000, 1_000_000
AT_MOST = 1.5


class Touch(NamedTuple):
    key: int


def count(state: int, touch: Touch) -> tuple[int, Touch]:
    return state + 1, touch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--touched", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    open_session("local[2]")
    times: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(arguments.runs):
        for held, found in times.items():
            found.append(epoch_s(held, arguments.touched))
    results: dict[str, Any] = {
        f"ms an epoch, {held:,} keys held": sorted(round(1000 * s) for s in found)
        for held, found in times.items()
    }
    what, over = "1,000,000 held over 10,000 held", ratio(times[MANY], times[FEW])
    results |= {what: over} | memory(arguments.epochs)
    claims = [claim(f"state: {what}", over, at_most=AT_MOST)]
    report("state", results, arguments.json, claims=claims)


def epoch_s(held: int, touched: int) -> float:
    """Return what an epoch takes that touches some of the keys that are held."""
    epochs = 8
    first = [Touch(key) for key in range(held)]
    step = held // touched
    later = [Touch(key * step) for _ in range(epochs) for key in range(touched)]
    keyed = ab.from_iterable(first + later, Touch).key_by("key").scan(count, 0)
    job = ab.run(keyed.for_each(lambda _: None), on="spark", epoch_items=touched)
    return statistics.median(job.metrics().epoch_s[-epochs + 1 :])


def memory(epochs: int) -> dict[str, Any]:
    """Return how much memory the workers hold after 100 epochs and at the end."""
    items = [Touch(n % 1000) for n in range(200 * epochs)]
    keyed = ab.from_iterable(items, Touch).key_by("key").scan(count, 0)
    job = ab.start(keyed.for_each(lambda _: None), on="spark", epoch_items=200)
    early = None
    while not job.wait(timeout=0.05):
        if early is None and job.metrics().epochs >= 100:
            early = workers_mib()
    time.sleep(1)
    late = workers_mib()
    return {
        f"MiB of the workers after 100 and {epochs} epochs": (early, late),
    }


def workers_mib() -> int:
    """Return the resident memory of the Python workers that this process has."""
    parents, resident = {}, {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            command = (status.parent / "cmdline").read_bytes()
            lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        except OSError:  # it has ended
            continue
        pid = int(status.parent.name)
        parents[pid] = int(lines["PPid"])
        if b"spark.daemon\0pyspark.worker" in command:
            resident[pid] = int(lines["VmRSS"].split()[0])
    return sum(kib for pid, kib in resident.items() if _is_ours(pid, parents)) // 1024


def _is_ours(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()


if __name__ == "__main__":
    main()
