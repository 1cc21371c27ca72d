"""Figure 5 (a): what dynamic queues cost without batching, beside the fused program.

A pipeline of n + 1 operators that do nothing, with n queues between them, on one core.
"""

from __future__ import annotations

from bench.harness.cores import on_cores
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.schedulers import hybrid
from bench.hybrid.work import floats, identity, pipeline


def main() -> None:
    figure = Figure(
        "hybrid-fig5a",
        "Queues without batching, normalised to the fused program",
        ("queues", "throughput / fused"),
        "0.2 with one queue (5 times slower), 0.1 with 31 (10 times)",
    )
    with on_cores(1):
        for queues in (1, 3, 7, 15, 31):
            row = pipeline(floats(20_000), *[identity] * (queues + 1))
            found = speeds(
                {
                    "queues": hybrid.make(row, [1] * (queues + 1), batch=1),
                    "fused": hybrid.make(row, [queues + 1], batch=10_000),
                },
                len(row.items),
            )
            figure.point("hybrid", queues, over(found["queues"], found["fused"]))
    figure.finish()


if __name__ == "__main__":
    main()
