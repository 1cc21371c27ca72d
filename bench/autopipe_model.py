"""Target: the simulator's model is within 10% of the local engine on 1 and 2 cores.

What items cost is measured by the profiler in one thread, and how much threads wait for
the interpreter's lock with two (a port at o5, on 2 cores): from that throughput is
predicted under other placements, and measured with the process kept on so many cores.
"""

from __future__ import annotations

import statistics

from anabranch.control.model import threads_of, throughput
from anabranch.plan.arrangement import Arrangement
from autopipe_common import (
    endless,
    measured_costs,
    on_cores,
    plot,
    rate,
    rates_in_turn,
    started,
)
from timing import Claim, Table, report

COUNTS = (2**8, 2**12, 2**16)
PLACEMENTS = (("o3",), ("o4",), ("o7",), ("o3", "o6"), ("o3", "o5", "o7"))


def main() -> None:
    rows = []
    for cores in (1, 2):
        with on_cores(cores):
            for count in COUNTS:
                costs = measured_costs(count)
                with started(endless(count)) as run:
                    rate(run, 0.3)
                    found = rates_in_turn(run, ((), *PLACEMENTS), seconds=0.3)
                base = statistics.median(found[()])
                for ports in PLACEMENTS:
                    made = threads_of(costs, Arrangement(frozenset(ports)), {})
                    model = throughput(costs, made, cores) * costs.whole_s
                    real = statistics.median(found[ports]) / base
                    off = (model / real - 1) * 100
                    rows.append([cores, count, "+".join(ports), real, model, off])
    table = Table(
        "speedup over one thread",
        ["cores", "multiplications", "ports", "real", "model", "off by %"],
        rows,
    )
    claims = [
        Claim(
            f"model against engine on {cores} core(s), {count} multiplications, {kind}",
            max(
                (
                    row[5]
                    for row in rows
                    if row[:2] == [cores, count] and ("+" in row[2]) == more
                ),
                key=abs,
            ),
            unit="percent, the worst placement",
            at_least=-10,
            at_most=10,
        )
        for cores in (1, 2)
        for count in COUNTS
        for more, kind in ((False, "2 threads"), (True, "3 and 4 threads"))
    ]
    report("model", {"rows": rows}, claims=claims, tables=[table])
    lines = {
        f"{kind}, {cores} core(s)": (
            range(len(rows) // 2),
            [row[column] for row in rows if row[0] == cores],
        )
        for cores in (1, 2)
        for column, kind in ((3, "real"), (4, "model"))
    }
    plot("autopipe_model", lines, x="cost and placement", y="speedup over one thread")


if __name__ == "__main__":
    main()
