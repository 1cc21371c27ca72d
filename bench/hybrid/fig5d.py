"""Figure 5 (d): a batch beyond the cache hurts. Two identity operators, one core."""

from __future__ import annotations

import statistics

from anabranch.runtime.element import batch_that_fits, cache_bytes
from bench.harness.cores import on_cores
from bench.hybrid.figure import Figure, speeds
from bench.hybrid.schedulers import hybrid
from bench.hybrid.work import floats, identity, pipeline

ITEMS = 2_000_000


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
        f"the default would be {fitting:,} items"
    )
    with on_cores(1):
        sizes = (10, 100, 1000, 10_000, 100_000, 1_000_000, ITEMS)
        sides = {size: hybrid.make(row, [1, 1], batch=size) for size in sizes}
        found = speeds(sides, ITEMS, 5)
    for size in sizes:
        figure.point("hybrid", size, statistics.median(found[size]) / 1e6)
    figure.finish()


if __name__ == "__main__":
    main()
