"""Claim: a change of ports or channels stops the flow for less than 20 ms (median).

A keyed program runs at full speed while ports come and go and its region gets wider and
narrower; each change says how long the flow stood still.
"""

from __future__ import annotations

import itertools
import re
import statistics
import time
from typing import NamedTuple

import anabranch as ab
from anabranch.engines.local.run import LocalEngine
from anabranch.job import compile_sinks
from anabranch.runtime.thread import Options
from bench.harness.local_run import report
from bench.harness.timing import Claim

CHANGES = 20


class Tick(NamedTuple):
    key: int
    value: int


def endless():
    return (Tick(n % 1000, n) for n in itertools.count())


def total(state: int, tick: Tick) -> tuple[int, Tick]:
    return state + tick.value, tick._replace(value=state)


def pauses(changes):
    found = [float(re.search(r"([\d.]+) ms", c.effect).group(1)) for c in changes]
    return {
        "median_ms": round(statistics.median(found), 2),
        "least_ms": min(found),
        "most_ms": max(found),
    }


def main() -> None:
    scanned = ab.generate(endless, Tick).key_by("key").scan(total, 0, name="total")
    sink = scanned.filter(lambda t: t.value % 2 == 0, name="even").for_each(lambda _: 0)
    made = compile_sinks(sink, on="local")
    (region,) = [r for r in made.plan.regions if "total" in r.operators]
    run = LocalEngine().start(made.graph, made.plan, Options())
    inserted, removed, widened, narrowed = [], [], [], []
    for _ in range(CHANGES):
        for changes, change in (
            (inserted, lambda: run.insert_port("total")),
            (widened, lambda: run.set_degree(region.name, 2)),
            (narrowed, lambda: run.set_degree(region.name, 1)),
            (removed, lambda: run.remove_port("total")),
        ):
            time.sleep(0.05)
            changes.append(change())
    run.stop()
    results = {
        "insert a port": pauses(inserted),
        "remove a port": pauses(removed),
        "1 to 2 channels": pauses(widened),
        "2 to 1 channels": pauses(narrowed),
        "all": pauses(inserted + removed + widened + narrowed),
    }
    claims = [
        Claim(f"pause: {what}", *found.values(), unit="ms", at_most=20.0)
        for what, found in results.items()
    ]
    report("pause", results, claims=claims)


if __name__ == "__main__":
    main()
