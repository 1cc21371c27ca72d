"""Claim: a fused chain of 8 trivial operators costs at most 1.15 times a Python loop.

Both sides call the same 8 functions on the same items and collect the results. The
program is compiled before the clock starts; starting the engine and its threads counts.
"""

from __future__ import annotations

import anabranch as ab
from bench.harness.local_run import report, running
from bench.harness.timing import interleaved, ratio

ITEMS = list(range(500_000))


def add(n):
    return n + 1


def double(n):
    return n * 2


def less(n):
    return n - 3


def flip(n):
    return n ^ 1


CHAIN = (add, double, less, flip, add, double, less, flip)


def by_hand():
    results = []
    for item in ITEMS:
        a = add(item)
        b = double(a)
        c = less(b)
        d = flip(c)
        e = add(d)
        f = double(e)
        g = less(f)
        h = flip(g)
        results.append(h)
    return results


def main() -> None:
    stream = ab.from_iterable(ITEMS)
    for function in CHAIN:
        stream = stream.map(function)
    sink = stream.to_list()
    local = running(sink)
    times = interleaved({"by hand": by_hand, "local": local}, repetitions=9)
    assert by_hand() == sink.items
    report("fused chain", {"local / loop": ratio(times["local"], times["by hand"])})


if __name__ == "__main__":
    main()
