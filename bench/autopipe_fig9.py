"""Figure 9: the controller at work on the chain, for tuples from cheap to costly.

Target: it settles within 5% of the best static placement, in at most 3 steps. On this
machine the placements tried are none and each single port (more threads than cores do
not help); in the model, on 8 cores, all of them are tried. The paper: 3 steps
to 8 threads for costly tuples; for cheap ones its second decision is rolled back.
"""

from __future__ import annotations

import itertools
import os
import time

from anabranch.control.controller import Controller
from anabranch.control.simulate import (
    SimulatedProgram,
    settle,
    threads_of,
    throughput,
)
from anabranch.plan.arrangement import Arrangement
from autopipe_common import (
    OPERATORS,
    chain,
    keep,
    measured_costs,
    rate,
    read_by,
    started,
    table,
)

COSTS = (0, 2**12, 2**16, 2**18)
WATCH_S = 20.0


def adapted(size: int) -> tuple[float, int, str, list[tuple[float, float]]]:
    """Return the rate after the controller has halted, its steps and its way there."""
    with started(chain(size)) as run:
        actuator = run.actuator()
        actuator.regions = {}  # ports alone, as in the paper
        controller = Controller(actuator)
        timeline, began_s = [], time.perf_counter()
        while not controller.settled and time.perf_counter() - began_s < WATCH_S:
            before, at_s = read_by(run), time.perf_counter()
            controller.advance()
            passed_s = time.perf_counter() - at_s
            timeline.append((at_s - began_s, (read_by(run) - before) / passed_s))
        steps = sum(s.what.startswith("insert") for s in controller.history)
        return rate(run, 1.5), steps, str(run.actuator().arrangement), timeline


def static(size: int) -> dict[str, float]:
    found = {}
    for ports in ((), *((name,) for name in OPERATORS[1:])):
        with started(chain(size), ports) as run:
            rate(run, 0.3)
            found["+".join(ports) or "none"] = rate(run, 0.7)
    return found


def on_eight_cores(size: int) -> list:
    """Compare the controller with all placements, in the model."""
    costs = measured_costs(chain(size))
    program = SimulatedProgram(costs, cores=8)
    controller = settle(program)
    places = sorted(program.places)
    best = max(
        throughput(costs, threads_of(costs, Arrangement(frozenset(ports)), {}), 8)
        for count in range(len(places) + 1)
        for ports in itertools.combinations(places, count)
    )
    steps = sum(s.what.startswith("insert") for s in controller.history)
    speedup = program.items_per_s * costs.whole_s
    return [size, speedup, program.items_per_s / best, steps]


def main() -> None:
    rows, model, lines = [], [], {}
    for size in COSTS:
        placements = static(size)
        best = max(placements, key=placements.get)
        reached, steps, where, timeline = adapted(size)
        base = placements["none"]
        lines[f"{size} bytes"] = tuple(
            zip(*((at_s, one / base) for at_s, one in timeline), strict=True)
        )
        rows.append(
            [size, reached / base, reached / placements[best], best, steps, where]
        )
        model.append(on_eight_cores(size))
    table(
        f"the controller on {len(os.sched_getaffinity(0))} cores",
        ["bytes/operator", "speedup", "of best static", "best", "steps", "settled at"],
        rows,
    )
    table(
        "the same controller in the model, on 8 cores (paper: 3 steps)",
        ["bytes/operator", "speedup", "of best static", "steps"],
        model,
    )
    keep("autopipe_fig9", {"real": rows, "model": model}, lines)


if __name__ == "__main__":
    main()
