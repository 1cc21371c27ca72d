"""A load with a doubling and a burst: predictive and reactive, and every fixed number.

Bars: of all items, from birth, at least the share of the best fixed number within the bound
(50 ms on local, 1 s on Spark), less 2 points; a doubling seen within 5 s and settled within 10 s (Spark: 5 epochs); at most one
replica more than the best fixed number, the fewest with which 99% of all items are within
the bound; at most 40% of the changes of the reactive policy; on one core at most 5% worse
than the best fixed setting.

Words choose parts: simulated, unseen, local, spark, one-core; none: simulated and unseen.
"""

from __future__ import annotations

import random
import statistics
import sys

import anabranch as ab
from anabranch.control.latency.admission import EpochCosts
from anabranch.control.latency.controller import LatencyController
from bench.harness.timing import Claim
from bench.latency.bars import (
    Run,
    Trace,
    bars,
    changes_of,
    claim_worst,
    print_runs,
)
from bench.latency.burst_here import LOCAL, SERVICE_S, local, one_core, spark
from bench.latency.film import PAPERS_MACHINE
from bench.latency.report import asked, hold, keep, table
from bench.latency.simulated_queue import SimulatedLatencyEpochs, SimulatedQueue

POLICIES = ("predictive", "reactive")
SEEDS = range(10)
SLOTS = 16  # tasks that a simulated Spark runs at a time


def controlled(queue, bound_s: float, policy: str | None, most: int | None, name: str):
    """Return what a simulated program does, with a policy or as it is."""
    first, changes = queue.degree, []
    if policy is None:
        while queue.watch(1.0) is not None:
            pass
    else:
        goal = ab.latency(bound_s, policy=policy, replicas=most)
        controller = LatencyController(queue, goal)
        controller.run()
        changes = changes_of(controller.history)
    return Run(name, queue.each, first, changes, getattr(queue, "ends_s", ()))


def on_threads(trace: Trace, policy: str | None, degree: int, seed: int) -> Run:
    queue = SimulatedQueue(
        [SERVICE_S],
        PAPERS_MACHINE,
        trace.load.due_s,
        degree=degree,
        noise=0.2,
        seed=seed,
    )
    name = policy or f"fixed, {degree}"
    return controlled(queue, trace.bound_s, policy, None, name)


def in_epochs(trace: Trace, policy: str | None, degree: int, seed: int) -> Run:
    costs = EpochCosts(0.1, SERVICE_S, 0.00005)
    queue = SimulatedLatencyEpochs(
        costs, trace.load.due_s, SLOTS, degree=degree, seed=seed
    )
    name = policy or f"fixed, {degree}"
    return controlled(queue, trace.bound_s, policy, SLOTS, name)


def simulated() -> dict:
    """Run the trace of the local engine on the paper's machine."""
    title, held = "12 cores of two threads each, simulated", []
    for seed in range(5):
        ours, theirs = (on_threads(LOCAL, policy, 1, seed) for policy in POLICIES)
        fixed = [on_threads(LOCAL, None, degree, seed) for degree in range(1, 11)]
        held.append(bars(LOCAL, ours, theirs, fixed))
        if seed == 0:
            print_runs(f"{title}, the first run", LOCAL, ours, theirs, fixed)
    hold(claim_worst(title, held))
    return {"runs": [[bar.row() for bar in one] for one in held]}


def unseen_trace(seed: int, bound_s: float, scale: float) -> Trace:
    """Return a load by chance that one replica can begin with: steps and bursts."""
    chance = random.Random(seed)
    rate = chance.uniform(30, 70)
    parts = [(rate, chance.uniform(12, 20))]
    kinds = ["doubled", "burst", "step", chance.choice(("doubled", "burst", "step"))]
    chance.shuffle(kinds)
    for kind in kinds:
        if kind == "doubled":
            rate = min(500, 2 * rate)
        elif kind == "burst":
            of = min(800, chance.uniform(1.5, 3.0) * rate)
            parts.append((of, chance.uniform(3, 6)))
        else:
            rate = chance.uniform(50, 400)
        parts.append((rate, chance.uniform(12, 25)))
    return Trace(tuple((scale * of, s) for of, s in parts), bound_s)


def unseen() -> dict:
    """Run traces by chance."""
    results = {}
    for title, run, bound_s, scale in (
        ("threads, simulated, bound 50 ms", on_threads, 0.05, 0.6),
        ("epochs, simulated, bound 1 s", in_epochs, 1.0, 0.5),
    ):
        rows, met = [], []
        for seed in SEEDS:
            trace = unseen_trace(seed, bound_s, scale)
            ours, theirs = (run(trace, policy, 1, seed) for policy in POLICIES)
            fixed = [run(trace, None, degree, seed) for degree in range(1, SLOTS + 1)]
            held = bars(trace, ours, theirs, fixed, enough=fixed)
            met.append([bar.met for bar in held])
            rows.append([seed, *(bar.found for bar in held), held[3].most - 1])
            heads = [bar.what for bar in held]
        share = [100 * statistics.fmean(column) for column in zip(*met, strict=True)]
        rows.append(["met, %", *share, "-"])
        hold(
            [
                Claim(
                    f"{title}: loads by chance that meet the bar: {head}",
                    part,
                    unit="%",
                    at_least=100,
                    remark=f"{len(SEEDS)} loads",
                )
                for head, part in zip(heads, share, strict=True)
            ]
        )
        table(title, ["seed", *heads, "best fixed"], rows)
        results[title] = rows
    return results


def main() -> None:
    parts = {
        "simulated": simulated,
        "unseen": unseen,
        "local": local,
        "spark": spark,
        "one-core": one_core,
    }
    chosen = [name for name in parts if asked(name)] or ["simulated", "unseen"]
    for name in chosen:
        keep(f"latency_burst_{name}", parts[name]())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
