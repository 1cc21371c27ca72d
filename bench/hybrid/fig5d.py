"""Figure 5 (d): a batch beyond the cache hurts. Two identity operators, one core.

They run on the local engine, with a threaded port between them.
"""

from __future__ import annotations

import statistics

from anabranch.runtime.element import batch_that_fits, cache_bytes
from bench.harness.cores import on_cores
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, speeds
from bench.hybrid.work import floats, identity, pipeline, run_with_queues

ITEMS = sized(2_000_000, 20_000)


def main() -> None:
    figure = Figure(
        "hybrid-fig5d",
        "Two identity operators by the size of the batch",
        ("batch", "million items a second"),
        "degrades once the batch outgrows the cache (18 MB), but not excessively",
    )
    row = pipeline([x + 0.5 for x in floats(ITEMS)], identity, identity)
    fitting = batch_that_fits(row.items)
    figure.note(
        f"the cache has {cache_bytes() >> 20} MiB; by its size and that of an item "
        f"the engine takes {fitting:,} items at most"
    )
    with on_cores(1):
        sizes = (100, 1000, 10_000, 100_000, 1_000_000, 2_000_000)
        sides = {
            size: run_with_queues(row, row.names[1:], batch=size) for size in sizes
        }
        found = speeds(sides, ITEMS)
    for size in sizes:
        figure.point("hybrid", size, statistics.median(found[size]) / 1e6)
    what = "a batch of all 2,000,000 items over one of 10,000"
    figure.claim(what, found[sizes[-1]], found[10_000])
    figure.finish()


if __name__ == "__main__":
    main()
