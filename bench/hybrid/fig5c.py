"""Figure 5 (c): batching takes the cost of queues away. One core.

The target is about one queue at batch 100, with both programs at that batch: identity
-> queue -> identity against identity -> identity fused. Both sides run on the local
engine; a queue is a threaded port.
"""

from __future__ import annotations

from bench.harness.cores import on_cores
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.work import floats, identity, pipeline, run_with_queues

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
            items = floats(sized(60_000, 2000))
            row = pipeline(items, *[identity] * (queues + 1))
            sides = {
                f"batch {batch}": run_with_queues(row, row.names[1:], batch=batch)
                for batch in (10, 100, 1000)
            }
            sides["batch by the engine"] = run_with_queues(row, row.names[1:])
            sides["fused"] = run_with_queues(row)
            found = speeds(sides, len(row.items), 3 if queues == 31 else 5)
            fused = found.pop("fused")
            for line, values in found.items():
                figure.point(line, queues, over(values, fused))
        row = pipeline(floats(sized(200_000, 2000)), identity, identity)
        found = speeds(
            {
                "fused": run_with_queues(row, batch=100),
                "queue": run_with_queues(row, row.names[1:], batch=100),
            },
            len(row.items),
        )
        figure.claim("fused over one queue, batch 100", *found.values(), at_most=TARGET)
    figure.finish()


if __name__ == "__main__":
    main()
