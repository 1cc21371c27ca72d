"""Figure 5 (c): batching takes the cost of queues away. One core.

The queue cost of the issue is the point of one queue at batch 100, with both programs
at that batch: identity -> queue -> identity against identity -> identity fused.
"""

from __future__ import annotations

from bench.harness.cores import on_cores
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.schedulers import hybrid
from bench.hybrid.work import floats, identity, pipeline

TARGET = 1.64


def main() -> None:
    figure = Figure(
        "hybrid-fig5c",
        "Queues by the batch, normalised to the fused program",
        ("queues", "throughput / fused"),
        "1.64 times slower than fused with one queue at batch 100; 5 without batching",
    )
    with on_cores(1):
        for queues in (1, 7, 31):
            row = pipeline(floats(60_000), *[identity] * (queues + 1))
            sides = {
                batch: hybrid.make(row, [1] * (queues + 1), batch=batch)
                for batch in (10, 100, 1000)
            }
            sides["fused"] = hybrid.make(row, [queues + 1], batch=10_000)
            found = speeds(sides, len(row.items))
            for batch in (10, 100, 1000):
                ratio = over(found[batch], found["fused"])
                figure.point(f"batch {batch}", queues, ratio)
        row = pipeline(floats(200_000), identity, identity)
        found = speeds(
            {
                "fused": hybrid.make(row, [2], batch=100),
                "queue": hybrid.make(row, [1, 1], batch=100),
            },
            len(row.items),
        )
        figure.claim("fused over one queue, batch 100", *found.values(), at_most=TARGET)
    figure.finish()


if __name__ == "__main__":
    main()
