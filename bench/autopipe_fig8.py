"""Figure 8: speedup by number of threads on the chain of 8 equal operators.

The paper, on 8 cores: a staircase that jumps to 2, 4 and 8 at as many threads for costly
tuples, less for 2**8 multiplications and a loss for 2**4. Threads are inserted as there:
the thread with most operators is divided. What this machine has too few cores for is
simulated with the costs that the profiler measures here.
"""

from __future__ import annotations

import os

from anabranch.control.model import threads_of, throughput
from anabranch.plan.arrangement import Arrangement
from autopipe_common import (
    OPERATORS,
    endless,
    measured_costs,
    plot,
    rate,
    rates_in_turn,
    spread,
    started,
)
from timing import Claim, Table, report

COUNTS = (2**4, 2**8, 2**12, 2**16, 2**18)
PORTS = ("o5", "o3", "o7", "o2", "o4", "o6", "o8")  # each halves the longest part
REAL = 4  # threads


def real(count: int) -> list[list[float]]:
    """Return the speedups of 1 to 4 threads, measured in turn."""
    placements = [PORTS[:threads] for threads in range(REAL)]
    with started(endless(count)) as run:
        rate(run, 0.3)
        found = rates_in_turn(run, placements)
    return [
        [one / base for one, base in zip(found[p], found[()], strict=True)]
        for p in placements
    ]


def main() -> None:
    mine = len(os.sched_getaffinity(0))
    rows, lines, claims = [], {}, []
    for count in COUNTS:
        costs = measured_costs(count)
        measured = [spread(one) for one in real(count)]
        for threads in range(1, len(OPERATORS) + 1):
            ports = Arrangement(frozenset(PORTS[: threads - 1]))
            made = threads_of(costs, ports, {})
            rows.append(
                [
                    count,
                    threads,
                    measured[threads - 1][0] if threads <= REAL else None,
                    throughput(costs, made, mine) * costs.whole_s,
                    throughput(costs, made, 8) * costs.whole_s,
                ]
            )
        own = [row for row in rows if row[0] == count]
        lines[f"model, 8 cores, {count}"] = (
            [row[1] for row in own],
            [row[4] for row in own],
        )
        lines[f"real, {mine} cores, {count}"] = (
            range(1, REAL + 1),
            [one[0] for one in measured],
        )
        claims.append(
            Claim(
                f"{count} multiplications, 2 threads on {mine} cores",
                *measured[1],
                paper="2 for costly tuples, a loss for 2**4 (Fig. 8)",
            )
        )
    table = Table(
        "speedup by threads (paper, 8 cores, costly tuples: 2 at 2, 4 at 4, 8 at 8)",
        [
            "multiplications",
            "threads",
            f"real, {mine} cores",
            f"model, {mine} cores",
            "model, 8 cores",
        ],
        rows,
    )
    report("fig8", {"rows": rows}, claims=claims, tables=[table])
    lines["paper, 8 cores, costly"] = ((1, 2, 4, 8), (1, 2, 4, 8))
    plot("autopipe_fig8", lines, x="threads", y="speedup")


if __name__ == "__main__":
    main()
