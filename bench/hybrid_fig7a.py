"""Figure 7 (a): hybrid against one operating-system thread for every operator.

A pipeline of operators that do nothing, all communication through queues, on one core.
"""

from __future__ import annotations

from hybrid_common import (
    Figure,
    floats,
    identity,
    on_cores,
    over,
    pipeline,
    speeds,
    spread,
)
from schedulers import hybrid, os_threads


def main() -> None:
    figure = Figure(
        "hybrid-fig7a",
        "Hybrid over one thread for every operator",
        ("operators", "times as fast"),
        "3.1 times as fast with 8 operators, 10.5 times with 32",
    )
    with on_cores(1):
        for operators in (2, 8, 32):
            row = pipeline(floats(5000), *[identity] * operators)
            parts = [1] * operators
            found = speeds(
                {
                    "threads": lambda row=row: os_threads.run(row),
                    "batch 1": hybrid.make(row, parts, batch=1),
                    "batch 100": hybrid.make(row, parts, batch=100),
                },
                len(row.items),
            )
            for line in ("batch 1", "batch 100"):
                ratio = over(found[line], found["threads"])
                figure.point(line, operators, ratio, spread(found[line]))
    figure.finish()


if __name__ == "__main__":
    main()
