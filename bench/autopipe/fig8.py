"""Figure 8: speedup by number of threads on the chain of 8 equal operators.

The paper, on 8 cores: a staircase that jumps to 2, 4 and 8 at as many threads for costly
tuples, less for 2**8 multiplications and a loss for 2**4. Threads are inserted as there:
the thread with most operators is divided. What this machine has too few cores for is
simulated with the costs that the profiler measures here. On the cores that there are, the
model is fitted to two, four and eight threads (see autopipe_model) and predicts the others.
"""

from __future__ import annotations

import os
import statistics
import sys

from bench.autopipe.chain import (
    FITTED,
    OPERATORS,
    Placement,
    endless,
    fitted,
    predicted,
    seen_costs,
    speedups_in_turn,
    started,
)
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report

COUNTS = (2**4, 2**8, 2**12, 2**16, 2**18)
PORTS = ("o5", "o3", "o7", "o2", "o4", "o6", "o8")  # each halves the longest part
PLACEMENTS: list[Placement] = [
    tuple(sorted(PORTS[:ports])) for ports in range(len(OPERATORS))
]
TURNS = 7
PIECE_S = 0.3
WATCHED_S = 1.0
MOST_OFF = 15  # percent


def rows_of(count: int, cores: int) -> list[list[object]]:
    """Return a row for each number of threads."""
    with started(endless(count)) as run:
        costs = seen_costs(run, WATCHED_S)
        found = {(): [1.0]}
        found |= speedups_in_turn(run, PLACEMENTS[1:], TURNS, PIECE_S)
    costs = fitted(costs, found)
    rows: list[list[object]] = []
    worst = 0.0
    for number, ports in enumerate(PLACEMENTS):
        real = statistics.median(found[ports])
        model = predicted(costs, ports, cores)
        off = None if ports in ((), *FITTED) else (model / real - 1) * 100
        eight = predicted(costs, ports, 8)
        worst = max(worst, abs(off or 0.0))
        rows.append([count, number + 1, real, model, off, eight])
        print(*rows[-1], file=sys.stderr, flush=True)
    if worst > MOST_OFF:  # then it is not extrapolated
        rows = [[*row[:-1], None] for row in rows]
    return rows


def main() -> None:
    mine = len(os.sched_getaffinity(0))
    rows, lines, claims = [], {}, []
    for count in COUNTS:
        own = rows_of(count, mine)
        rows += own
        for column, kind in ((2, f"real, {mine} cores"), (5, "model, 8 cores")):
            if own[0][column] is None:
                continue
            lines[f"{kind}, {count}"] = (
                [row[1] for row in own],
                [row[column] for row in own],
            )
        claims += [
            Claim(
                f"{count} multiplications, 2 threads on {mine} cores",
                own[1][2],
                paper="2 for costly tuples, a loss for 2**4 (Fig. 8)",
            ),
            Claim(
                f"{count} multiplications, model against 3, 5, 6 and 7 threads",
                max((row[4] for row in own if isinstance(row[4], float)), key=abs),
                unit="percent, the worst",
                at_least=-10,
                at_most=10,
            ),
        ]
    table = Table(
        "speedup by threads (paper, 8 cores, costly tuples: 2 at 2, 4 at 4, 8 at 8)",
        [
            "multiplications",
            "threads",
            f"real, {mine} cores",
            f"model, {mine} cores",
            "off by %",
            "model, 8 cores",
        ],
        rows,
    )
    report("fig8", {"rows": rows}, claims=claims, tables=[table])
    lines["paper, 8 cores, costly"] = ([1, 2, 4, 8], [1, 2, 4, 8])
    plot("autopipe_fig8", lines, x="threads", y="speedup")


if __name__ == "__main__":
    main()
