"""Claim: operators that release the interpreter's lock scale with channels and ports.

An operator of about 100 microseconds that releases the lock: two channels give at least
1.8 times the throughput of one, and a threaded port between two such operators at least
1.7 times that of the fused chain. Needs two free cores. As a yardstick the same work is
done by two plain threads, each on half of the items: what the machine has to give.
"""

from __future__ import annotations

import threading

import numba

import anabranch as ab
from bench.harness.local_run import report, running
from bench.harness.timing import interleaved, ratio, timed

ITEMS = list(range(15_000))


@numba.njit(nogil=True)
def spin(rounds):
    total = 1
    for i in range(rounds):
        total = (total * 31 + i) & 0xFFFFFF
    return total


def calibrated(target_s: float) -> int:
    """Return how many rounds take `target_s` when nothing else runs."""
    spin(1)
    rounds = 1_000_000
    best_s = min(timed(lambda: spin(rounds)) for _ in range(20))
    return int(rounds * target_s / best_s)


ROUNDS = calibrated(100e-6)


@ab.declare(state="stateless", push=(1, 1))
def heavy(n):
    spin(ROUNDS)
    return n


def plain_threads(count: int) -> None:
    parts = [ITEMS[i::count] for i in range(count)]
    threads = [
        threading.Thread(target=lambda part=part: [heavy(n) for n in part])
        for part in parts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    one = ab.from_iterable(ITEMS).map(heavy).to_list()
    two = ab.from_iterable(ITEMS).map(heavy).map(heavy, name="second").to_list()
    times = interleaved(
        {
            "1 channel": running(one),
            "2 channels": running(one, degree=2),
            "fused": running(two),
            "pipelined": running(two, ports=["second"]),
            "1 thread": lambda: plain_threads(1),
            "2 threads": lambda: plain_threads(2),
        }
    )
    report(
        "scaling",
        {
            "plain threads": ratio(times["1 thread"], times["2 threads"]),
            "channels": ratio(times["1 channel"], times["2 channels"]),
            "pipelining": ratio(times["fused"], times["pipelined"]),
        },
    )


if __name__ == "__main__":
    main()
