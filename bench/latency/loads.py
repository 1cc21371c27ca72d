"""Every load on every shape of program: the latency policy against every fixed degree.

Loads: constant, doubling, sinus, bursts of ten times the load, recorded (made once, by
chance). Shapes: plain, two stages, keyed, keyed with one hot key, behind a stage that
runs once. Work that needs a core and lets go of the lock, and work that waits.

Bars for each cell, all items counted from the first one on: inside the bound at least as
often as the best fixed degree less 2 points, with at most one replica more on average, and
at most 40% of the changes of the paper's regulator. Where the regulator
changes nothing at all, as under a constant load that is always late, any change is a miss.

On this machine the items come over a connection, with the time at which they were due, and
the sink takes their age: from birth, all of them. The first is due when the program has
connected.

    anabranch bench latency/loads [simulated] [local] [spark] [--only PATTERN] [--full]

`simulated` (the default) has all cells on 12 cores and takes two minutes. `local` and `spark`
run on this machine, in loads of 15 s (bursts: 20 s), against fixed degrees in the same run: 1
to 6 where items only wait, 1 to 3 where they need one of two cores, 1 to 4 on Spark. Without
a pattern, a part of the cells runs: on local all 25 of work that waits (its settings run side
by side: 8 minutes) and the five of `CHOSEN` of work that needs a core (7 minutes); on Spark
(bound 1 s) those five of work that waits (10 minutes). The rest is named as left out.
A pattern names cells as work/shape/load: `--only '*'` is all (local 45 minutes, Spark 50),
`--only 'waits/keyed/*'`, `--only '*/hot-key/bursts'`. `--full`: loads of 60 s, four times as
long. Every cell is printed when it is done, so that a run that is ended has not been in vain.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import anabranch as ab
from anabranch.control.latency.controller import LatencyController
from bench.harness.timing import Claim, Table, report, sized
from bench.latency.sent import Sent, SentLoad
from bench.latency.simulated_chain import SimulatedPipeline, SimulatedStage
from bench.latency.simulated_queue import Machine

BOUND_S = 0.1
SPARK_BOUND_S = 1.0
MOST = 12  # replicas in all
SERVICE_S = 0.01
BEFORE_S = 0.002  # of the stage that runs once
KEYS = tuple(range(64))
HOT = (0, 0, 0, 0, 1, 2, 3, 4, 5, 6)
POINTS, MORE, CHANGES = 2.0, 1.0, 0.4  # the bars
SECONDS = 60.0
SHORT_S = 15.0
CHOSEN = {  # each shape once, each load once
    ("plain", "constant"),
    ("two stages", "doubling"),
    ("keyed", "sinus"),
    ("hot key", "bursts"),
    ("behind one", "recorded"),
}
HEAD = [
    *("work", "shape", "load", "inside %", "replicas", "changes"),
    *("reactive: inside %", "replicas", "changes"),
    *("best fixed", "inside %", "replicas", "bars"),
]


def make_loads(seconds: float) -> dict[str, Any]:
    """Return the loads by name, all of one length."""
    testing, periods = ab.testing, max(1, round(seconds / 10))
    return {
        "constant": testing.constant(180, seconds),
        "doubling": testing.steps((90, seconds / 2), (180, seconds / 2)),
        "sinus": testing.periodic(20, 350, period=seconds / 3, seconds=seconds),
        "bursts": testing.steps(*[(30, 9), (300, 1)] * periods),
        "recorded": testing.recorded(make_times(seconds)),
    }


def make_times(seconds: float) -> list[float]:
    """Return when items come whose rate changes by chance, from 30 to 300 a second."""
    chance, at_s, rate, times = random.Random(7), 0.0, 60.0, []
    while at_s < seconds:
        if chance.random() < 0.01:
            rate = min(300.0, max(30.0, rate * chance.choice((0.5, 0.7, 1.5, 2.0))))
        at_s += chance.expovariate(rate)
        times.append(at_s)
    return times


def make_shapes(on_core: float) -> dict[str, tuple[SimulatedStage, ...]]:
    """Return the shapes by name, of work that needs a core for a share of its time."""
    stage = partial(SimulatedStage, on_core=on_core)
    return {
        "plain": (stage("r0", SERVICE_S),),
        "two stages": (stage("r0", SERVICE_S / 2), stage("r1", SERVICE_S)),
        "keyed": (stage("r0", SERVICE_S, keys=KEYS),),
        "hot key": (stage("r0", SERVICE_S / 2, keys=HOT),),
        "behind one": (
            stage("once", BEFORE_S, replicated=False),
            stage("r0", SERVICE_S),
        ),
    }


class Outcome(NamedTuple):
    """What became of a run: percent inside the bound, replicas on average, changes."""

    inside: float
    replicas: float
    changes: int


@dataclass(frozen=True)
class Cell:
    """One load on one shape: ours, the paper's regulator, and every fixed degree."""

    names: tuple[str, str, str]
    ours: Outcome
    reactive: Outcome
    fixed: dict[int, Outcome]

    @property
    def best(self) -> int:
        """The fewest replicas of those that are inside the bound most often."""
        most = max(one.inside for one in self.fixed.values())
        return min(n for n, one in self.fixed.items() if one.inside >= most - 0.01)

    def missed(self) -> list[str]:
        """Return the bars that are not met."""
        best = self.fixed[self.best]
        found = []
        if self.ours.inside < best.inside - POINTS:
            found.append("inside")
        if self.ours.replicas > best.replicas + MORE:
            found.append("replicas")
        if self.ours.changes > CHANGES * self.reactive.changes:
            found.append("changes")
        return found

    def row(self) -> list[Any]:
        """Return a line of the table."""
        best = self.fixed[self.best]
        missed = self.missed()
        bars = f"missed: {', '.join(missed)}" if missed else "met"
        ends = [best.inside, best.replicas, bars]
        return [*self.names, *self.ours, *self.reactive, self.best, *ends]


def measure(run: Callable[..., Outcome], names: tuple[str, str, str]) -> Cell:
    """Return a cell from a function that runs a policy or a fixed degree."""
    fixed = {degree: run(degree=degree) for degree in range(1, MOST + 1)}
    return Cell(names, run(policy="predictive"), run(policy="reactive"), fixed)


def run_simulated(
    stages: Sequence[SimulatedStage],
    load: Any,
    policy: str | None = None,
    degree: int = 1,
) -> Outcome:
    """Run a load on simulated stages, with a policy or as they are."""
    pipeline = SimulatedPipeline(stages, Machine(MOST), load.due_s, degree=degree)
    if policy is None:
        while pipeline.watch(1.0) is not None:
            pass
    else:
        goal = ab.latency(BOUND_S, policy=policy, replicas=MOST)
        LatencyController(pipeline, goal).run()
    inside = sum(late_s <= BOUND_S for _, late_s in pipeline.each)
    return Outcome(
        100 * inside / len(pipeline.each),
        pipeline.mean_replicas(),
        len(pipeline.widths) - 1,
    )


WORK = {"needs a core": 1.0, "waits": 0.05}


def find_simulated(work: str, shape: str, load: str, seconds: float = SECONDS) -> Cell:
    """Return one cell of the simulated table."""
    stages = make_shapes(WORK[work])[shape]
    run = partial(run_simulated, stages, make_loads(seconds)[load])
    return measure(run, (work, shape, load))


def spend(seconds: float, work: str) -> None:
    """Take so long, on a core without the lock, or waiting."""
    if work == "waits":
        time.sleep(seconds)
    else:  # about 1.2 MB in a millisecond; less than a core for the highest load
        hashlib.sha256(bytes(int(0.4 * seconds * 1.2e9))).digest()


def make_program(work: str, shape: str, stream: Any, ages_s: list[float]) -> Any:
    """Return the sink of a program of a shape; `ages_s` gets the age of each item."""

    @ab.declare(state="stateless")
    def serve(item: Sent) -> Sent:
        spend(SERVICE_S, work)
        return item

    @ab.declare(state="stateless")
    def half(item: Sent) -> Sent:
        spend(SERVICE_S / 2, work)
        return item

    @ab.declare(state="global")
    def once(item: Sent) -> Sent:
        spend(BEFORE_S, work)
        return item

    @ab.declare(state="stateless")
    def count(seen: int, item: Sent) -> tuple[int, Sent]:
        spend(SERVICE_S / 2 if shape == "hot key" else SERVICE_S, work)
        return seen + 1, item

    if shape == "plain":
        stream = stream.map(serve)
    elif shape == "behind one":
        stream = stream.map(once).map(serve)
    else:
        if shape == "two stages":
            stream = stream.map(half)
        stream = stream.key_by("key").scan(count, 0)
    return stream.for_each(lambda item: ages_s.append(time.time() - item.born))


def run_here(  # noqa: PLR0917 - the names of a cell, and how it runs
    engine: str, work: str, shape: str, name: str, seconds: float, setting: str | int
) -> Outcome:
    """Run a cell on an engine; latency by the clock of the sink, from birth."""
    ages_s: list[float] = []
    sent = SentLoad(make_loads(seconds)[name], HOT if shape == "hot key" else KEYS)
    sink = make_program(work, shape, sent.stream(), ages_s)
    options: dict[str, Any] = {"on": engine}
    bound_s = BOUND_S
    if engine == "spark":
        options["master"], bound_s = f"local[{MOST}]", SPARK_BOUND_S
    if isinstance(setting, int):
        options["degree"] = setting
    else:
        options["goal"] = ab.latency(bound_s, policy=setting, replicas=MOST)
    job = ab.run(sink, **options)
    inside = sum(age_s <= bound_s for age_s in ages_s)
    regions = 1 if engine == "spark" else len(job.plan.regions)
    steps = job.metrics().steps
    widths = [(one.at_s, sum(one.replicas.values())) for one in steps]
    spans = [(b[0] - a[0], a[1]) for a, b in pairwise(widths)]
    mean = sum(s * w for s, w in spans) / max(1e-9, sum(s for s, _ in spans))
    if isinstance(setting, int):
        mean = setting * regions
    changes = sum("replica" in step.what for step in job.history)
    return Outcome(100 * inside / len(ages_s), mean, changes)


def find_here(
    engine: str, work: str, shape: str, name: str, seconds: float = SHORT_S
) -> Cell:
    """Return one cell on this machine; settings that only wait run side by side."""
    together = work == "waits" and engine == "local"
    degrees = range(1, 7) if together else range(1, 5 if engine == "spark" else 4)
    settings = ["predictive", "reactive", *degrees]
    run = partial(run_here, engine, work, shape, name, seconds)
    if together:
        with ProcessPoolExecutor(len(settings)) as pool:
            found = list(pool.map(run, settings))
    else:
        found = list(map(run, settings))
    ours, theirs, *fixed = found
    return Cell(
        (work, shape, name), ours, theirs, dict(zip(degrees, fixed, strict=True))
    )


FindCell = Callable[[str, str, str], Cell]


def choose_cells(part: str, pattern: str | None) -> list[tuple[str, str, str]]:
    """Return the cells of a part: those that fit a pattern, or those for a while."""
    works = ("waits",) if part == "spark" else tuple(WORK)
    cells = list_cells(works, pattern or "*")
    if pattern is not None or part == "simulated":
        return cells
    return [
        one
        for one in cells
        if one[1:] in CHOSEN or (part == "local" and one[0] == "waits")
    ]


def list_cells(works: Sequence[str], pattern: str = "*") -> list[tuple[str, str, str]]:
    """Return the names of the cells that fit a pattern, such as `waits/hot-key/*`."""
    names = [
        (work, shape, load)
        for work in works
        for shape in make_shapes(1.0)
        for load in make_loads(1.0)
    ]
    fitting = [
        one for one in names if fnmatch("/".join(one).replace(" ", "-"), pattern)
    ]
    if not fitting:
        known = ", ".join("/".join(one).replace(" ", "-") for one in names[:3])
        msg = (
            f"--only must fit some cells; {pattern!r} fits none; there are {known}, ..."
        )
        raise SystemExit(msg)
    return fitting


def fill(names: Sequence[tuple[str, str, str]], find: FindCell) -> list[Cell]:
    """Measure cells; print each when it is done."""
    cells = []
    for one in names:
        cells.append(find(*one))
        print(*cells[-1].row(), flush=True)
    return cells


def main() -> None:
    """Measure what was asked for."""
    args = make_parser().parse_args()
    seconds = SECONDS if args.full else sized(SHORT_S, 4.0)
    finders: dict[str, FindCell] = {
        "simulated": find_simulated,
        "local": partial(find_here, "local", seconds=seconds),
        "spark": partial(find_here, "spark", seconds=seconds),
    }
    claims, tables = [], []
    for part in args.parts or ["simulated"]:
        if part == "spark":
            warm_up()
        names = choose_cells(part, args.only)
        cells = fill(names, finders[part])
        of_all = len(list_cells(tuple(WORK)))
        rows = [cell.row() for cell in cells]
        tables.append(Table(f"loads, {part}", HEAD, rows))
        met = sum(not cell.missed() for cell in cells)
        often = sum("inside" not in cell.missed() for cell in cells)
        claims.append(
            Claim(
                f"cells of loads and shapes that meet all bars, {part}",
                met / len(cells),
                unit="share",
                at_least=1.0,
                remark=f"{met} of {len(cells)}, {often} inside the bound as often as the "
                f"best fixed degree less {POINTS:.0f} points; all items from birth; "
                f"{of_all - len(cells)} of {of_all} cells left out",
            )
        )
    name = " ".join(["loads", *(args.parts or ["simulated"])])
    report(name, {"parts": args.parts}, claims=claims, tables=tables)


def warm_up() -> None:
    """Run short loads on Spark: the JVM and the workers start with the first jobs."""
    for setting in (MOST, "predictive"):
        run_here("spark", "waits", "plain", "constant", 4.0, setting)


def make_parser() -> argparse.ArgumentParser:
    """Return the options of this benchmark."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=["simulated", "local", "spark", []])
    parser.add_argument("--only", help="cells, as work/shape/load")
    parser.add_argument("--full", action="store_true", help="loads of 60 s")
    return parser


if __name__ == "__main__":
    main()
