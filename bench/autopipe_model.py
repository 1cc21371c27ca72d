"""Target: the simulator's model is within 10% of the local engine on 1 and 2 cores.

The costs are measured by the profiler in one thread; throughput under each placement is
then predicted, and measured with the process kept on so many cores. Other programs on
the machine take cores away that the model thinks are there: run it on a quiet one.
"""

from __future__ import annotations

import statistics

from anabranch.control.model import threads_of, throughput
from anabranch.plan.arrangement import Arrangement
from autopipe_common import (
    chain,
    keep,
    measured_costs,
    on_cores,
    rate,
    started,
    table,
)

COSTS = (2**14, 2**16)
PLACEMENTS = ((), ("o5",), ("o3",), ("o3", "o6"))
TURNS = 3


def measured(size: int, ports: tuple[str, ...]) -> float:
    found = []
    for _ in range(TURNS):
        with started(chain(size), ports) as run:
            rate(run, 0.2)
            found.append(rate(run, 0.5))
    return statistics.median(found)


def main() -> None:
    rows = []
    for cores in (1, 2):
        with on_cores(cores):
            for size in COSTS:
                costs = measured_costs(chain(size))
                base = measured(size, ())
                for ports in PLACEMENTS:
                    made = threads_of(costs, Arrangement(frozenset(ports)), {})
                    model = throughput(costs, made, cores) * costs.whole_s
                    real = measured(size, ports) / base
                    where = "+".join(ports) or "none"
                    off = (model / real - 1) * 100
                    rows.append([cores, size, where, real, model, off])
    table(
        "speedup over one thread",
        ["cores", "bytes/operator", "ports", "real", "model", "off by %"],
        rows,
    )
    keep("autopipe_model", {"rows": rows}, {})


if __name__ == "__main__":
    main()
