"""What keeping the order costs: the same plan with and without it.

    anabranch bench spark/order [--rows N] [--runs N]

Without order, the keyed job writes its results where they are made, instead of putting
them in order range by range first. A stateless job keeps its order for nothing: both
sides run the same code, and the ratio shows the noise of the measurement.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path

import anabranch as ab
from anabranch.engines.spark.engine import SparkBackend
from anabranch.engines.spark.session import open_session
from anabranch.epochs.epoch_run import EpochRun
from anabranch.epochs.layout import EpochLayout, UnitRoute
from anabranch.job import compile_sinks
from anabranch.runtime.thread import Options
from bench.harness.timing import claim, interleaved, ratio, report
from bench.harness.trades import JOBS, Trade, make_trades

AT_MOST = 1.1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    results = {}
    try:
        source = make_trades(folder / "trades.csv", arguments.rows)
        open_session("local[2]")
        for job in ("vwap", "chain"):
            sides = {
                ordered: partial(run, job, source, folder / "out", ordered=ordered)
                for ordered in (True, False)
            }
            times = interleaved(sides, arguments.runs, warm_ups=3)
            results[f"{job}: time with order over without"] = ratio(
                times[True], times[False]
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    claims = [
        claim(f"order: {what}", found, at_most=AT_MOST)
        for what, found in results.items()
    ]
    report("order", results, arguments.json, claims=claims)


def run(job: str, source: Path, target: Path, *, ordered: bool) -> None:
    shutil.rmtree(target, ignore_errors=True)
    sink = JOBS[job](ab.read_csv(str(source), Trade)).write_csv(str(target))
    made = compile_sinks(sink)
    backend = SparkBackend(made.graph, None)
    started = EpochRun(backend, made.graph, made.plan, Options(degree=2))
    if not ordered:
        started._layout = _without_order(started._layout)  # noqa: SLF001
    started.begin()
    started.wait()


def _without_order(layout: EpochLayout) -> EpochLayout:
    """Have every unit write its results itself."""
    writers = [unit for unit in layout.units if not unit.operators]
    sinks = {sink for unit in writers for sink in unit.writes}
    routes = {
        edge: UnitRoute("write") if edge.consumer.operator in sinks else route
        for edge, route in layout.routes.items()
    }
    units = tuple(
        replace(unit, writes=tuple(sinks) if unit.key else unit.writes)
        for unit in layout.units
        if unit.operators
    )
    return replace(layout, units=units, routes=routes)


if __name__ == "__main__":
    main()
