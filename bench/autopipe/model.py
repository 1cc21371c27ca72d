"""Target: the simulator's model is within 10% of the local engine on 1 and 2 cores.

    anabranch bench autopipe-model [1|2]

What items cost is measured by the profiler in one thread; how much threads wait for the
interpreter's lock with two (a port at o5), and with four and eight, which are more than
there are cores (ports at o3, o5 and o7; at all). From that, throughput is predicted under other placements;
all are measured in turn with the process kept on so many cores. On 1 core, two threads are
more than there are cores as well, and the model is fitted to four and eight only.
"""

from __future__ import annotations

import statistics
import sys

from bench.autopipe.chain import (
    FITTED,
    TWO,
    Placement,
    endless,
    fitted,
    predicted,
    seen_costs,
    speedups_in_turn,
    started,
)
from bench.harness.cores import on_cores
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report

COUNTS = 2**8, 2**12, 2**16
TURNS = 15  # where threads come to stay is chance
WATCHED_S = 6.0
PLACEMENTS: tuple[Placement, ...] = (
    ("o3",),
    ("o4",),
    ("o6",),
    ("o7",),
    ("o3", "o6"),
    ("o4", "o6"),
    ("o5", "o7"),
    ("o2", "o4", "o6"),
    ("o2", "o4", "o6", "o8"),
)


def compared(count: int, cores: int) -> list[list[object]]:
    """Return a row for each placement: what it gives, what the model says."""
    with on_cores(cores), started(endless(count)) as run:
        costs = seen_costs(run, WATCHED_S)
        found = speedups_in_turn(run, (*FITTED, *PLACEMENTS), TURNS)
        costs = fitted(costs, found)
    print(f"{cores} core(s), {count}: {costs}", file=sys.stderr, flush=True)
    rows: list[list[object]] = []
    for ports in (*FITTED, *PLACEMENTS):
        real = statistics.median(found[ports])
        model = predicted(costs, ports, cores)
        fit = ports in FITTED and (ports != TWO or cores > 1)
        off = None if fit else (model / real - 1) * 100
        rows.append([cores, count, len(ports) + 1, "+".join(ports), real, model, off])
        print(*rows[-1], file=sys.stderr, flush=True)
    return rows


def worst(rows: list[list[object]], count: int, *, more: bool) -> float:
    """Return by how much the model is off where it is worst."""
    off = [r[6] for r in rows if r[1] == count and (r[2] > 2) == more]
    return max((one for one in off if isinstance(one, float)), key=abs)


def measure(cores: int) -> None:
    rows = [row for count in COUNTS for row in compared(count, cores)]
    claims = [
        Claim(
            f"model against engine on {cores} core(s), {count} multiplications, {kind}",
            worst(rows, count, more=more),
            unit="percent, the worst placement",
            at_least=-10,
            at_most=10,
        )
        for count in COUNTS
        for more, kind in ((False, "2 threads"), (True, "3 to 5 threads"))
    ]
    table = Table(
        "speedup over one thread; the model is fitted where it is not off",
        ["cores", "multiplications", "threads", "ports", "real", "model", "off by %"],
        rows,
    )
    report(f"model {cores}", {"rows": rows}, claims=claims, tables=[table])
    lines = {
        kind: (range(len(rows)), [row[column] for row in rows])
        for column, kind in ((4, "real"), (5, "model"))
    }
    plot(
        f"autopipe_model_{cores}",
        lines,
        x="cost and placement",
        y="speedup over one thread",
    )


def main() -> None:
    for cores in sys.argv[1:2] or ("1", "2"):
        measure(int(cores))


if __name__ == "__main__":
    main()
