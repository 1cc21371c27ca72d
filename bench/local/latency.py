"""Claim: at 1,000 items a second the median latency is below 2 ms, the 99th below 10 ms.

A program of three operators is fed by a source that gives an item every millisecond.
The latency runs from when the source has the item to when the sink has its result.
"""

from __future__ import annotations

import time

import anabranch as ab
from bench.harness.local_run import report, running
from bench.harness.timing import Claim

RATE = 1000
SECONDS = 3


def paced():
    """Give items at a steady rate; a late item does not make the next ones late."""
    started_s = time.perf_counter()
    for n in range(RATE * SECONDS):
        due_s = started_s + n / RATE
        wait_s = due_s - time.perf_counter()
        if wait_s > 0:
            time.sleep(wait_s)
        yield n


def program():
    numbers = ab.generate(paced)
    even = numbers.map(lambda n: n * 3).filter(lambda n: n % 7 != 0)
    return even.map(lambda n: n + 1, name="last").to_list()


def main() -> None:
    variants = {
        "fused": {},
        "threaded port": {"ports": ["last"]},
        "2 channels": {"degree": 2},
    }
    results = {}
    for name, options in variants.items():
        runs = [running(program(), **options)().metrics() for _ in range(5)]
        latencies = sorted(m.latency.p50_ms for m in runs)
        tails = sorted(m.latency.p99_ms for m in runs)
        results[name] = {
            "median of p50_ms": latencies[2],
            "median of p99_ms": tails[2],
            "p50_ms": (latencies[0], latencies[-1]),
            "p99_ms": (tails[0], tails[-1]),
        }
    claims = [
        Claim(
            f"local latency, {name}: {which}",
            found[f"median of {which}_ms"],
            *found[f"{which}_ms"],
            unit="ms",
            at_most=most,
        )
        for name, found in results.items()
        for which, most in (("p50", 2.0), ("p99", 10.0))
    ]
    report("latency", results, claims=claims)


if __name__ == "__main__":
    main()
