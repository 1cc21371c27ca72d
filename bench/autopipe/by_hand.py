"""Figure 11: Lois, Vwap and LinearRoad, untouched, tuned by hand, and left to the controller.

    anabranch bench autopipe/by_hand [local|spark] [lois|vwap|linear_road] [EPOCHS]

Total time of a whole run, adaptation included. Target: the automatic one at least 0.95
of the one by hand, and never slower than the untouched one. The paper, on 8 cores: 1.5,
3 and 2.56 times the untouched one. By hand means: the fastest of what a careful user
would try (`BY_HAND`), each run some times before. All sides have the same settings: on local
the garbage collector is adapted for each, and on Spark elements may share a task on each. What
is left to the controller are ports, cuts and degrees. All sides must give the same result.

Runs take some seconds, and three applications five minutes on local, six on Spark: five turns
(four on Spark), and two tries (one) of each way by hand. Seven and three, with inputs half as large
again on local, took twice as long.

On local, where a run holds the interpreter's lock and little can be gained, the untouched
side runs twice in each turn. The mean of both is what the others are compared with, and
what they differ from each other is what a difference must exceed to mean something.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps"))

import anabranch as ab
import linear_road
import lois
import vwap
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.engines.spark.session import open_session
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks, engine_named
from anabranch.runtime.thread import Options
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, claim, interleaved, ratio, report, sized

PAPER = {"lois": 1.5, "vwap": 3.0, "linear_road": 2.56}
TURNS = {"local": 5, "spark": 4}
TRIES = {"local": 2, "spark": 1}  # of each way by hand, after one that warms up
SIDES = "untouched", "by hand", "automatic"
AGAIN = "untouched again"
EPOCHS = next((int(one) for one in sys.argv[1:] if one.isdigit()), 12)  # on Spark


@dataclass(frozen=True)
class ByHand:
    """Threaded ports (cuts on Spark), the degree of regions, and whether tasks are shared."""

    ports: tuple[str, ...] = ()
    degree: int = 1
    shared: bool = False  # on Spark: elements may share a task

    def __str__(self) -> str:
        said = f"ports {', '.join(self.ports) or 'none'}; degree {self.degree}"
        return f"{said}; tasks shared" if self.shared else said


ON_SPARK = (
    ByHand(),
    ByHand(degree=2),
    ByHand(shared=True),
    ByHand(degree=2, shared=True),
)
BY_HAND: Mapping[tuple[str, str], Sequence[ByHand]] = {
    ("local", "lois"): (ByHand(), ByHand(("ticks",))),
    ("local", "vwap"): (ByHand(), ByHand(("tape",)), ByHand(("totals_500",))),
    ("local", "linear_road"): (ByHand(), ByHand(("segments",)), ByHand(degree=2)),
    ("spark", "lois"): (*ON_SPARK, ByHand(("watch_UH2",), 2)),
    ("spark", "vwap"): ON_SPARK,
    ("spark", "linear_road"): ON_SPARK,
}


@dataclass(frozen=True)
class Application:
    """A program over generated input, and how many rows of a source make an epoch."""

    sinks: Callable[[], list[ab.Result]]
    epoch_items: int


def applications(folder: Path) -> dict[str, Application]:
    """Write the inputs, enough for some seconds; on Spark an epoch has its own costs."""
    seconds, trades, cars = sized(1000, 48), sized(8000, 800), sized(5000, 520)
    stations = lois.sample_files(folder, seconds=seconds)
    tape = vwap.sample_files(folder, trades=trades)
    road = linear_road.sample_file(folder, cars=cars)
    programs = {
        "lois": (partial(lois.program, stations), seconds * 100),
        "vwap": (partial(vwap.program, *tape), trades * 2),
        "linear_road": (partial(linear_road.program, road), cars * 19),
    }
    return {
        name: Application(program, rows // EPOCHS)
        for name, (program, rows) in programs.items()
    }


class Side:
    """One way to run an application; keeps what the last run gave and did."""

    def __init__(self, engine: str, app: Application, by_hand: ByHand | None) -> None:
        self._engine = engine
        self._app = app
        self._by_hand = by_hand
        self.results: list[list[Any]] = []
        self.history: tuple[Any, ...] = ()

    def run(self) -> None:
        """Run the application to its end."""
        sinks = self._app.sinks()
        size = self._app.epoch_items if self._engine == "spark" else None
        if self._by_hand is None:
            job = ab.run(*sinks, on=self._engine, epoch_items=size)
            self.history = job.history
        else:
            self._run_fixed(sinks, self._by_hand, size)
        self.results = [sink.items for sink in sinks]

    def _run_fixed(self, sinks: list[ab.Result], how: ByHand, size: int | None) -> None:
        """Run with these ports and degrees, and all else as the automatic side has it.

        What asks for the controls of a run also sets the collector, and lets elements
        share a task; nobody uses the controls then.
        """
        made = compile_sinks(*sinks, on=self._engine)
        if self._engine == "local":
            degrees = dict.fromkeys((r.name for r in made.plan.regions), how.degree)
            ports = frozenset(map(Input, how.ports))
            engine = LocalEngine(Configuration(ports, degrees))
            run = engine.start(made.graph, made.plan, Options())
            run.actuator()
            run.wait()
            return
        options = Options(degree=None if how.shared else how.degree, epoch_items=size)
        run = engine_named("spark").start(made.graph, made.plan, options)
        run.actuator()
        run.set_degree(how.degree)
        run.set_cuts(how.ports)
        run.wait()


def compared(engine: str, name: str, app: Application) -> dict[str, Any]:
    """Measure the three sides of an application."""
    tried = {how: Side(engine, app, how) for how in BY_HAND[engine, name]}
    found = interleaved({how: side.run for how, side in tried.items()}, TRIES[engine])
    best = min(found, key=lambda how: min(found[how]))
    sides = {
        "untouched": Side(engine, app, ByHand()),
        "by hand": Side(engine, app, best),
        "automatic": Side(engine, app, None),
    }
    if engine == "local":
        sides[AGAIN] = Side(engine, app, ByHand())
    runs = {side: one.run for side, one in sides.items()}
    times = interleaved(runs, TURNS[engine])
    expected, *others = (side.results for side in sides.values())
    assert all(expected == found for found in others), "results differ"
    return {
        "times": times,
        "by hand": str(best),
        "history": [
            f"{one.at_s:.1f} {one.what}: {one.why}; {one.effect}"
            for one in sides["automatic"].history
        ],
    }


def told(engine: str, name: str, found: Mapping[str, Any]) -> list[Claim]:
    """Return the two claims about an application."""
    times = found["times"]
    paper = f"{PAPER[name]} over untouched, on 8 cores (Fig. 11)"
    where = f"{name} on {engine}: automatic over"
    by_hand = ratio(times["by hand"], times["automatic"])
    twice = [times[side] for side in ("untouched", AGAIN) if side in times]
    untouched = ratio(
        [*map(statistics.fmean, zip(*twice, strict=True))], times["automatic"]
    )
    remark = ""
    if len(twice) > 1:
        itself = ratio(*twice)
        remark = "untouched over itself: {ratio} ({low} to {high})".format_map(itself)
    return [
        claim(f"{where} by hand", by_hand, at_least=0.95),
        claim(
            f"{where} untouched", untouched, paper=paper, at_least=1.0, remark=remark
        ),
    ]


def main() -> None:
    asked = set(sys.argv[1:])
    engines = [
        one for one in ("local", "spark") if not asked & {"local", "spark"} - {one}
    ]
    rows, claims, results = [], [], {}
    with tempfile.TemporaryDirectory() as folder:
        for engine in engines:
            if engine == "spark":
                open_session(None)
            for name, app in applications(Path(folder)).items():
                if asked & set(PAPER) and name not in asked:
                    continue
                found = compared(engine, name, app)
                results[f"{name} on {engine}"] = found
                claims += told(engine, name, found)
                medians = [statistics.median(found["times"][side]) for side in SIDES]
                rows.append([engine, name, *medians, found["by hand"]])
                print(*found["history"], sep="\n")
    head = ["engine", "application", *(f"{side} s" for side in SIDES), "by hand"]
    table = Table("total time (paper: Fig. 11)", head, rows)
    name = " ".join(["auto-vs-hand", *engines])
    report(name, results, claims=claims, tables=[table])
    lines = {
        side: (range(len(rows)), [row[2] / row[2 + n] for row in rows])
        for n, side in enumerate(SIDES)
    }
    lines["paper, automatic, 8 cores"] = (
        range(len(rows)),
        [PAPER[row[1]] for row in rows],
    )
    plot(
        "auto_vs_hand",
        lines,
        x="application and engine",
        y="speedup over untouched",
        ticks=[f"{row[1]}\n{row[0]}" for row in rows],
    )


if __name__ == "__main__":
    main()
