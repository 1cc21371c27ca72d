"""Figure 5 (b): the work of operators makes up for the queue between them.

Two operators with W / 2 computations each and a queue between them, on one core.
"""

from __future__ import annotations

from bench.harness.cores import on_cores
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.schedulers import hybrid
from bench.hybrid.work import floats, pipeline, work


def main() -> None:
    figure = Figure(
        "hybrid-fig5b",
        "Two operators and a queue without batching, normalised to the fused program",
        ("computations", "throughput / fused"),
        "0.2 without work, 0.68 (1.48 times slower) with 1,000 computations",
    )
    with on_cores(1):
        for total in (0, 100, 1000, 10_000):
            function = work(total // 2)
            row = pipeline(floats(3000 if total < 10_000 else 1000), function, function)
            found = speeds(
                {
                    "queue": hybrid.make(row, [1, 1], batch=1),
                    "fused": hybrid.make(row, [2], batch=1000),
                },
                len(row.items),
            )
            figure.point("hybrid", total, over(found["queue"], found["fused"]))
    figure.finish()


if __name__ == "__main__":
    main()
