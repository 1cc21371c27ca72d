"""Figure 5 (b): the work of operators makes up for the queue between them.

Two operators with W / 2 computations each and a queue between them, on one core. Both
sides run on the local engine; a queue is a threaded port.
"""

from __future__ import annotations

from bench.harness.cores import on_cores
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.work import floats, pipeline, run_with_queues, work


def main() -> None:
    figure = Figure(
        "hybrid-fig5b",
        "Two operators and a queue without batching, normalised to the fused program",
        ("computations", "throughput / fused"),
        "0.2 without work, 0.68 (1.48 times slower) with 1,000 computations",
    )
    with on_cores(1):
        for total in (0, 100, 1000, 10_000, 100_000):
            function = work(total // 2)
            row = pipeline(floats(sized(4000, 200)), function, function)
            found = speeds(
                {
                    "queue": run_with_queues(row, row.names[1:], batch=1),
                    "fused": run_with_queues(row),
                },
                len(row.items),
            )
            figure.point("hybrid", total, over(found["queue"], found["fused"]))
            if total == 1000:
                what = "throughput over fused, one queue, 1,000 computations"
                figure.claim(what, found["queue"], found["fused"])
    figure.finish()


if __name__ == "__main__":
    main()
