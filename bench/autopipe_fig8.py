"""Figure 8: speedup by number of threads on the chain of 8 equal operators.

The paper: a staircase that jumps at 2, 4 and 8 threads for costly tuples, less for
2**8 multiplications and a loss for 2**4. Threads are inserted as there: the thread with
most operators is divided. What this machine has too few cores for is simulated with
the costs that the profiler measures here.
"""

from __future__ import annotations

import os

from anabranch.control.model import threads_of, throughput
from anabranch.plan.arrangement import Arrangement
from autopipe_common import (
    OPERATORS,
    chain,
    keep,
    measured_costs,
    rate,
    started,
    table,
)

COSTS = (0, 2**12, 2**16)
PORTS = ("o5", "o3", "o7", "o2", "o4", "o6", "o8")  # each halves the longest part
SECONDS = 0.5


def real(size: int, threads: int) -> float:
    with started(chain(size), PORTS[: threads - 1]) as run:
        rate(run, 0.2)
        return rate(run, SECONDS)


def main() -> None:
    mine = len(os.sched_getaffinity(0))
    rows, lines = [], {}
    for size in COSTS:
        costs = measured_costs(chain(size))
        base = real(size, 1)
        for threads in range(1, len(OPERATORS) + 1):
            ports = Arrangement(frozenset(PORTS[: threads - 1]))
            made = threads_of(costs, ports, {})
            rows.append(
                [
                    size,
                    threads,
                    real(size, threads) / base if threads <= 4 else "-",
                    throughput(costs, made, mine) * costs.whole_s,
                    throughput(costs, made, 8) * costs.whole_s,
                ]
            )
        own = [row for row in rows if row[0] == size]
        lines[f"{size} bytes"] = ([row[1] for row in own], [row[4] for row in own])
    table(
        "speedup by threads (paper, 8 cores, costly tuples: 2 at 2, 4 at 4, 8 at 8)",
        [
            "bytes/operator",
            "threads",
            f"real, {mine} cores",
            f"model, {mine} cores",
            "model, 8 cores",
        ],
        rows,
    )
    keep("autopipe_fig8", {"rows": rows}, lines)


if __name__ == "__main__":
    main()
