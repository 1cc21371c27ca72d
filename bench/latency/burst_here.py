"""The load of latency-burst on this machine: the local engine, Spark, and one core.

Items wait 10 ms, as for a device or another host, so that two cores have room for many
replicas; on one core they compute.
"""

from __future__ import annotations

import hashlib
import os
import statistics
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise

import anabranch as ab
from bench.latency.bars import Bar, Run, Trace, changes_of, show
from bench.latency.report import hold, plot, table
from bench.latency.sent import Sent, SentLoad

SERVICE_S = 0.01
LOCAL = Trace(((90, 12), (180, 12), (450, 3), (180, 12)), bound_s=0.05)
SPARK = Trace(((50, 6), (100, 12), (200, 2), (100, 12)), bound_s=1.0)
MOST = 16
SLOTS = 12
TOGETHER_S = 0.02
REPETITIONS = 5
SHARES = (0.5, 0.95, 0.99)


@ab.declare(state="stateless")
def waits(row: Sent) -> Sent:
    time.sleep(SERVICE_S)
    return row


def ran(name: str, trace: Trace, *, epochs: bool = False, **options):
    """Run a trace; return what became of it, and the job.

    Items come over a connection. Latency counts from when they were due, by the clock of
    the sink; all of them count.
    """
    sent, pairs = SentLoad(trace.load), []
    sink = (
        sent.stream()
        .map(waits)
        .for_each(lambda row: pairs.append((row.born, time.time() - row.born)))
    )
    started_s = time.time()
    job = ab.run(sink, **options)
    pairs = [(born_s - sent.began_s, age_s) for born_s, age_s in pairs]
    # The history counts from the start of the job, pairs from the first item.
    return Run(
        name,
        pairs,
        options.get("degree", 1),
        changes_of(job.history, sent.began_s - started_s),
        ends_of(pairs) if epochs else (),
    ), job


def ends_of(pairs) -> list[float]:
    """Return when epochs ended: all of their items come out together."""
    at_s = sorted(due_s + late_s for due_s, late_s in pairs)
    return [a for a, b in pairwise([*at_s, float("inf")]) if b - a > TOGETHER_S]


def tell(name: str, job) -> None:
    for step in job.history:
        print(f"{name} {step.at_s:5.1f} s: {step.what}: {step.why}; {step.effect}")


def local() -> dict:
    runs, panels = [], {"p99 (ms)": {}, "replicas": {}}
    for policy in ("predictive", "reactive"):
        goal = ab.latency(LOCAL.bound_s, policy=policy, replicas=MOST)
        run, job = ran(policy, LOCAL, on="local", goal=goal)
        tell(policy, job)
        runs.append(run)
        steps = job.metrics().steps
        at = [step.at_s for step in steps]
        panels["p99 (ms)"][policy] = at, [step.quantile_ms for step in steps]
        replicas = [sum(step.replicas.values()) for step in steps]
        panels["replicas"][policy] = at, replicas
    degrees = range(2, 8)  # one alone has work for twice the time
    with ProcessPoolExecutor(len(degrees)) as pool:  # they wait, mostly
        fixed = list(pool.map(fixed_local, degrees))
    found = show("local engine, this machine", LOCAL, *runs, fixed)
    plot("latency_burst_local", panels)
    return found


def fixed_local(degree: int) -> Run:
    return ran(f"fixed, {degree}", LOCAL, on="local", degree=degree)[0]


def spark() -> dict:
    on_spark = partial(ran, on="spark", master=f"local[{SLOTS}]", epochs=True)
    warm_up = Trace(((100, 8),), SPARK.bound_s)
    on_spark("warm-up", warm_up, degree=SLOTS)
    runs = []
    for policy in ("predictive", "reactive"):
        goal = ab.latency(SPARK.bound_s, policy=policy, replicas=SLOTS)
        run, job = on_spark(policy, SPARK, goal=goal)
        tell(policy, job)
        print(policy, "epochs, ms:", *epochs_ms(job))
        runs.append(run)
    fixed = []
    for degree in (1, 2, 3):
        run, job = on_spark(f"fixed, {degree}", SPARK, degree=degree)
        print(run.name, "epochs, ms:", *epochs_ms(job))
        fixed.append(run)
    return show(f"Spark, this machine, {SLOTS} slots", SPARK, *runs, fixed)


def epochs_ms(job) -> list[int]:
    return [round(1000 * s) for s in job.metrics().epoch_s]


def hashes(row: Sent, size: int = 3_000_000) -> Sent:
    hashlib.sha256(bytes(size)).digest()
    return row


def one_run(load, options) -> list[float]:
    """Return the ages of items at the sink."""
    ages_s: list[float] = []
    sink = (
        SentLoad(load)
        .stream()
        .map(hashes)
        .for_each(lambda row: ages_s.append(time.time() - row.born))
    )
    ab.run(sink, on="local", **options)
    return ages_s


def one_core() -> dict:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    load = ab.testing.constant(250, seconds=4)
    sides = {
        "predictive": {"goal": ab.latency("50 ms")},
        "fixed, 1": {"degree": 1},
        "fixed, 2": {"degree": 2},
    }
    seen: dict[str, list[list[float]]] = {name: [] for name in sides}
    for turn in range(REPETITIONS + 1):
        for name, options in sides.items():
            late_s = sorted(one_run(load, options))
            if turn:
                places = [int(share * (len(late_s) - 1)) for share in SHARES]
                seen[name].append([1000 * late_s[place] for place in places])
    rows = [
        [name, *(statistics.median(column) for column in zip(*ones, strict=True))]
        for name, ones in seen.items()
    ]
    head = ["setting", *(f"p{100 * share:.0f} ms" for share in SHARES)]
    table(f"one core, medians of {REPETITIONS} runs in turn", head, rows)
    bars = [
        Bar(
            f"{head[n]}, times the best fixed",
            rows[0][n] / min(row[n] for row in rows[1:]),
            most=1.05,
        )
        for n in (1, 2, 3)
    ]
    hold([bar.claim(f"one core, medians of {REPETITIONS} runs") for bar in bars])
    held = [bar.row() for bar in bars]
    table("bars", ["predictive", "found", "bar", ""], held)
    return {"rows": rows, "bars": held, "runs": seen}
