"""Figure 9: the controller at work on the chain, for tuples from cheap to costly.

Target: it settles within 5% of the best static placement, in at most 3 steps. On this
machine all placements of up to two ports are tried, and the best of them measured again,
in turn with the one where the controller settled; in the model, on 8 cores, all of them
are tried. The paper: 3 steps to 8 threads for costly tuples; for cheap ones its second
decision is rolled back.
"""

from __future__ import annotations

import itertools
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from anabranch.control.simulated_program import SimulatedProgram, settle
from anabranch.control.throughput.model import ItemCosts, threads_of, throughput
from anabranch.control.throughput.tune import Controller
from anabranch.engines.local.run import LocalRun
from anabranch.plan.plan import Arrangement
from bench.autopipe.chain import (
    OPERATORS,
    Placement,
    endless,
    measured_costs,
    rate,
    rates_in_turn,
    read_by,
    started,
)
from bench.autopipe.fig8 import MOST_OFF
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report, sized

COUNTS = (2**4, 2**12, 2**16, 2**18)
WATCH_S = 30.0
FINALISTS = 3
FIG8 = Path(__file__).parents[1] / "records" / "autopipe" / "fig8-fig8.json"


def adapted(run: LocalRun) -> tuple[Placement, int, list[tuple[float, float]]]:
    """Return where the controller settles, its steps and the rates on its way."""
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
    return tuple(sorted(actuator.arrangement.ports)), steps, timeline


def best_static(run: LocalRun, reached: Placement) -> dict[Placement, list[float]]:
    """Return the rates of the best placements, of none, and of the one reached."""
    everything = [
        ports
        for count in range(3)
        for ports in itertools.combinations(OPERATORS[1:], count)
    ]
    first = rates_in_turn(run, everything, turns=1, seconds=0.2)
    ranked = sorted(first, key=lambda one: -first[one][0])
    finalists = dict.fromkeys([(), reached, *ranked[:FINALISTS]])
    return rates_in_turn(run, list(finalists))


def on_eight_cores(costs: ItemCosts) -> list[float]:
    """Compare the controller with all placements, in the model."""
    program = SimulatedProgram(costs, cores=8)
    controller = settle(program)
    places = sorted(program.places - {"out"})
    best = max(
        throughput(costs, threads_of(costs, Arrangement(frozenset(ports)), {}), 8)
        for count in range(len(places) + 1)
        for ports in itertools.combinations(places, count)
    )
    steps = sum(s.what.startswith("insert") for s in controller.history)
    return [program.items_per_s * costs.whole_s, program.items_per_s / best, steps]


def find_error(count: int, record: Path = FIG8) -> float | None:
    """Return the worst error of the model on this machine, in percent, by figure 8."""
    if not record.exists():
        return None
    (rows,) = [one["rows"] for one in json.loads(record.read_text())["tables"]]
    found = [row[4] for row in rows if row[0] == count and isinstance(row[4], float)]
    return max(map(abs, found), default=None)


def in_the_model(what: str, count: int, measured: float, **said: Any) -> Claim:
    """Return a claim about the model, without its figure where it is off by too much."""
    error = find_error(count)
    if error is None:
        off = "the error of the model was not measured (autopipe/fig8)"
    else:
        off = (
            f"the model is off by up to {error:.0f}% on the cores here (autopipe/fig8)"
        )
    if error is not None and error <= MOST_OFF:
        return Claim(what, measured, remark=off, **said)
    rest = {name: one for name, one in said.items() if not name.startswith("at_")}
    return Claim(what, None, remark=f"{off}: not extrapolated", **rest)


def main() -> None:
    rows, model, lines, claims = [], [], {}, []
    for count in sized(COUNTS, COUNTS[::3]):
        with started(endless(count)) as run:
            rate(run, 0.5)
            reached, steps, timeline = adapted(run)
            found = best_static(run, reached)
        medians = {one: statistics.median(rates) for one, rates in found.items()}
        best = max(medians, key=lambda one: medians[one])
        of_best = sorted(
            a / b for a, b in zip(found[reached], found[best], strict=True)
        )
        lines[f"{count} multiplications"] = (
            [at_s for at_s, _ in timeline],
            [one / medians[()] for _, one in timeline],
        )
        rows.append(
            [
                count,
                medians[reached] / medians[()],
                medians[reached] / medians[best],
                "+".join(best) or "none",
                steps,
                "+".join(reached) or "none",
            ]
        )
        model.append([count, *on_eight_cores(measured_costs(count))])
        what = f"{count} multiplications"
        claims += [
            Claim(
                f"{what}: of the best static placement",
                medians[reached] / medians[best],
                of_best[0],
                of_best[-1],
                paper="the best (8.2.4)",
                at_least=0.95,
            ),
            Claim(f"{what}: steps", steps, unit="steps", paper="3", at_most=3),
            in_the_model(
                f"{what}: of the best of all placements, model of 8 cores",
                count,
                model[-1][2],
                paper="the best (8.2.4)",
                at_least=0.95,
            ),
            in_the_model(
                f"{what}: steps, model of 8 cores",
                count,
                model[-1][3],
                unit="steps",
                paper="3",
                at_most=3,
            ),
        ]
    tables = [
        Table(
            f"the controller on {len(os.sched_getaffinity(0))} cores",
            ["multiplications", "speedup", "of best", "best", "steps", "settled at"],
            rows,
        ),
        Table(
            "the same controller in the model, on 8 cores (paper: 8 times, 3 steps)",
            ["multiplications", "speedup", "of best", "steps"],
            [row for row in model if (find_error(row[0]) or 100) <= MOST_OFF],
        ),
    ]
    report("fig9", {"real": rows, "model": model}, claims=claims, tables=tables)
    lines["paper, 8 cores, costly"] = ((0, 5, 10, 15), (1, 2, 4, 8))
    plot("autopipe_fig9", lines, x="seconds", y="speedup over one thread")


if __name__ == "__main__":
    main()
