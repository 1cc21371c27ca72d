"""What the driver itself costs at 1,000 channels, measured on the code that runs.

    anabranch bench spark/scale [--channels 100 1000] [--levels 4] [--epochs 12]
    anabranch bench spark/scale --fit [--degrees 2 4 8 16 32 64 128] [--levels 1]
    anabranch bench spark/scale --fixed [--jobs]

The epoch loop, the checkpoint and the committer are the real ones; Spark is not there, and no
task runs. Where the loop asks Spark for the rows of a job it gets reports such as its tasks
would give: new versions of buckets, logs, the snapshots that were asked for, counts of
keys. Making them is not counted. Measured is processor time, so a busy machine does not
matter. A program of N levels counts keys, by one key and by another in turn.

With `--fit` epochs of 1,000 items run on a real Spark with two slots, each as a Spark job,
at every degree: what such an epoch costs is what is fixed. A line through all degrees but
the last one predicts the last; the model of docs/scale.md may be used where it is within
15% of what is measured.

With `--fixed` such epochs run at degrees 2 and 64 with one level, beside a bare Spark job
with the stages and tasks of degree 64, in turn. With `--jobs` no tasks stay.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import anabranch as ab
from anabranch.engines.spark import residence
from anabranch.engines.spark.access import ClassicAccess
from anabranch.engines.spark.engine import SparkCluster
from anabranch.engines.spark.session import open_session
from anabranch.engines.spark.stage_plan import StagePlans
from anabranch.epochs.checkpoint.directory import Checkpoint
from anabranch.epochs.checkpoint.files import state_file
from anabranch.epochs.checkpoint.program import program_of
from anabranch.epochs.checkpoint.record import Log, Snapshot
from anabranch.epochs.checkpoint.seal import Seal
from anabranch.epochs.commit import Committer
from anabranch.epochs.intake.intake import FilePiece
from anabranch.epochs.layout import EpochLayout, Unit, lay_out
from anabranch.epochs.log import births_in, tasks_of
from anabranch.epochs.loop import Epochs
from anabranch.epochs.outputs import EpochOutputs
from anabranch.epochs.state.buckets import Stamp, stores_of
from anabranch.epochs.task import (
    REPORT,
    ROW_ARROW,
    EpochTask,
    KeyCounts,
    Report,
    Spec,
    dump_report,
)
from anabranch.epochs.transport.ship import pack
from anabranch.job import compile_sinks
from anabranch.runtime.ambient import capture_settings
from anabranch.runtime.failures import stop
from bench.harness.timing import Claim, Table, report, sized

ROWS = 100  # of an epoch, for each channel
SETTLED = 4  # epochs that are not measured
TARGET_MS = 100  # of an epoch with 1,000 channels and 4 levels
DIGEST = "xxh3:0123456789abcdef"


class Item(NamedTuple):
    number: int
    first: int
    second: int


def count_first(total: int, item: Item) -> tuple[int, Item]:
    return total + 1, Item(item.number, item.first, (item.second + total) % 97)


def count_second(total: int, item: Item) -> tuple[int, Item]:
    return total + 1, Item(item.number, (item.first + total) % 97, item.second)


def make_stream(path: str, levels: int) -> ab.Stream:
    """Return a program whose levels all have to exchange their rows."""
    stream = ab.read_csv(path, Item)
    for level in range(levels):
        key, step = [("first", count_first), ("second", count_second)][level % 2]
        stream = stream.key_by(key).scan(step, 0, name=f"count{level}")
    return stream


def make_layout(path: str, levels: int) -> EpochLayout:
    """Return how such a program is divided into units."""
    sink = make_stream(path, levels).for_each(lambda _: None)
    made = compile_sinks(sink, on="spark")
    return lay_out(made.graph, made.plan)


class ImitatedPlans(StagePlans):
    """Gives the reports that tasks would give, and counts the time that takes."""

    def __init__(
        self, epochs: Epochs, layout: EpochLayout, access: ClassicAccess
    ) -> None:
        # Nobody runs the function.
        super().__init__(lambda _, batches: batches, access)
        self._epochs = epochs
        self._layout = layout
        self._tasks: list[EpochTask] = []
        self.own_s = 0.0

    def collect(self, spark: Any, shapes: Any, tasks: Any) -> pa.Table:
        self._tasks = list(tasks)
        return super().collect(spark, shapes, tasks)

    def _build(self, *_: Any) -> Any:
        frame = SimpleNamespace(toArrow=self._answer)
        frame.alias = lambda _: frame
        return frame

    def _answer(self) -> pa.Table:
        began_s = time.process_time()
        pickler = self._epochs.runner.pickler
        payloads = [
            dump_report(self._report(task, unit, channel), pickler)
            for task in self._tasks
            for places in task.stage.places(self._layout, task.stage.levels)
            for unit, channel in places
        ]
        numbers = pa.array([REPORT] * len(payloads), pa.int32())
        columns = [numbers, numbers, numbers, numbers, pa.array(payloads, pa.binary())]
        table = pa.table(columns, schema=ROW_ARROW)
        self.own_s += time.process_time() - began_s
        return table

    def _report(self, task: EpochTask, unit: Unit, channel: int) -> Report:
        stage, attempt = task.stage, task.attempt
        units = self._layout.units
        next_keyed = next((u for u in units if u.number > unit.number and u.key), None)
        sent = {}
        if next_keyed is not None and stage.reports_keys(unit, channel):
            counts = np.full(stage.buckets, 2, np.int64)
            sent = {next_keyed.number: KeyCounts(counts)}
        read = {} if unit.key else {self._layout.graph.sources[0].name: ROWS}
        if not unit.key:
            return Report(unit.number, channel, read=read, seconds=0.01, sent=sent)
        stamp = Stamp(attempt.epoch, attempt.turn, channel + 1)
        width = stage.channels[unit.number]
        first = -(-channel * stage.buckets // width)
        end = -(-(channel + 1) * stage.buckets // width)
        held = ((first, end),)
        log = Log(
            unit.name,
            state_file("log", stamp, channel),
            attempt.epoch,
            held,
            4000 * (end - first),
            attempt.turn,
            channel + 1,
            DIGEST,
            stage.buckets,
        )
        stores = stores_of(held, stage.buckets)
        snapshots = tuple(
            Snapshot(
                unit.name,
                state_file("snapshot", stamp, channel * 1000 + store),
                attempt.epoch,
                held,
                1000,
                60_000,
                stamp,
                DIGEST,
                stage.buckets,
            )
            for store in stores
            if (unit.name, store) in attempt.snapshots
        )
        return Report(
            unit.number,
            channel,
            seconds=0.01,
            sent=sent,
            changed=held,
            stamp=stamp,
            logs=(log,),
            snapshots=snapshots,
            opened=end - first,
        )


class NoResidence:
    """There are more tasks than can stay."""

    stays = False

    def run(self, *_: Any) -> None:
        return None

    def leave(self) -> None:
        """Nobody is there."""


def imitate_spark(cores: int) -> ClassicAccess:
    context = SimpleNamespace(
        master="local[2]",
        defaultParallelism=cores,
        broadcast=lambda value: SimpleNamespace(value=value),
        _conf={},
        setLocalProperty=lambda *_: None,
    )
    access = ClassicAccess(SimpleNamespace(sparkContext=context))
    access.queries = access.spark
    return access


class Driver:
    """The driver of a job on so many channels, without its tasks."""

    def __init__(self, folder: Path, channels: int, levels: int) -> None:
        self._folder = folder
        source = folder / "in.csv"
        source.write_text("number,first,second\n")
        layout = self._layout = make_layout(str(source), levels)
        self._checkpoint = Checkpoint(
            str(folder / "checkpoint"), program_of(layout, chains=())
        )
        outputs = EpochOutputs(
            layout.graph, stop, lambda table: table, self._checkpoint.identity, new=True
        )
        committer = Committer(layout.graph, stop, outputs, self._checkpoint)
        committer.resume()
        committer.positions = {layout.graph.sources[0].name: {"file": 0}}
        spec = Spec(
            job="scale",
            layout=layout,
            resilient=False,
            scratch=str(folder),
            state_directory=str(folder),
            outputs={},
            settings=capture_settings(),
            checkpoint=str(self._checkpoint.directory),
            identity=self._checkpoint.identity,
            seal=Seal(),
        )
        tasks: Any = SimpleNamespace(
            note=lambda *_: None,
            describe_stages=lambda _: None,
            refuse_if_abandoned=lambda: None,
            cancelled=False,
        )
        access = imitate_spark(channels)
        shipped, names = pack(spec)
        cluster = SparkCluster(access, spec, shipped, tasks)
        self._epochs = Epochs(cluster, spec, names, channels, committer)
        self._epochs.resume(None, self._checkpoint.first_turn)
        self.plans = ImitatedPlans(self._epochs, layout, access)
        vars(self._epochs.cluster).update(_plans=self.plans, _residence=NoResidence())
        self._channels = channels
        self._next = 1

    def run_epoch(self) -> float:
        """Run an epoch; return the seconds of processor time that the driver took."""
        (source,) = self._layout.graph.sources
        began_s, own_s = time.process_time(), self.plans.own_s
        pieces = []
        for channel in range(self._channels):
            first = self._next + channel * ROWS
            row = (source.name, first, ROWS, "in.csv", first * 20, (first + ROWS) * 20)
            pieces.append(FilePiece(*row, first, first, None))
        self._next += ROWS * self._channels
        self._epochs.run({source.name: pieces})
        tasks_of(self._layout, self._epochs.reports)
        births_in(self._epochs.reports)
        return time.process_time() - began_s - (self.plans.own_s - own_s)

    def close(self) -> None:
        self._checkpoint.close()


def measure(channels: int, levels: int, epochs: int, *, profile: bool) -> list[float]:
    """Return the driver's processor time for each epoch, in seconds."""
    folder = Path(tempfile.mkdtemp(prefix="anabranch-scale-"))
    driver = Driver(folder, channels, levels)
    try:
        for _ in range(SETTLED):
            driver.run_epoch()
        profiler = cProfile.Profile(time.process_time)
        if profile:
            profiler.enable()
        found = [driver.run_epoch() for _ in range(epochs)]
        profiler.disable()
        if profile:
            pstats.Stats(profiler).sort_stats("cumulative").print_stats(45)
    finally:
        driver.close()
        shutil.rmtree(folder)
    return found


FIT_ITEMS, FIT_EPOCHS = 1_000, 10
MOST_OFF = 0.15


def fit_line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the base and the slope of the line of least squares.

    >>> fit_line([(2, 5.0), (4, 7.0), (8, 11.0)])
    (3.0, 1.0)
    """
    across = statistics.fmean(x for x, _ in points)
    up = statistics.fmean(y for _, y in points)
    slope = sum((x - across) * (y - up) for x, y in points) / sum(
        (x - across) ** 2 for x, _ in points
    )
    return up - slope * across, slope


def epoch_ms(degree: int, levels: int) -> float:
    """Return what a small epoch takes as a Spark job, in the second half of a run."""
    rows = (f"{n},{n % 97},{n % 89}\n" for n in range(FIT_ITEMS * FIT_EPOCHS))
    with tempfile.TemporaryDirectory(prefix="anabranch-scale-") as folder:
        path = Path(folder) / "in.csv"
        path.write_text("number,first,second\n" + "".join(rows))
        sink = make_stream(str(path), levels).for_each(lambda _: None)
        job = ab.run(sink, on="spark", degree=degree, epoch_items=FIT_ITEMS)
    return 1000 * statistics.median(job.metrics().epoch_s[FIT_EPOCHS // 2 :])


def check_fit(degrees: Sequence[int], levels: int, path: str | None) -> None:
    """Fit a line to all degrees but the last, and compare it with the last."""
    residence.MOST = 0  # no tasks stay
    open_session("local[2]")
    epoch_ms(degrees[0], levels)  # warms up
    found = [(degree, epoch_ms(degree, levels)) for degree in degrees]
    base, slope = fit_line(found[:-1])
    (last, measured) = found[-1]
    predicted = base + slope * last
    off = abs(predicted - measured) / measured
    results = {
        "ms an epoch, by degree": {degree: round(ms) for degree, ms in found},
        "ms fixed": round(base, 1),
        "ms for each replica": round(slope, 2),
        f"ms at degree {last}, predicted": round(predicted),
    }
    what = (
        f"fixed cost of an epoch at degree {last}, {levels} levels: error of the model"
    )
    claims = [Claim(what, round(off, 3), unit="of it", at_most=MOST_OFF)]
    report("scale-fit", results, path, claims=claims)


FIXED_DEGREE = 64
FIXED_RUNS = sized(5, 1)


def bare_ms(spark: Any, tasks: int) -> float:
    """Return what a Spark job takes whose two stages of so many tasks pass rows on."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    frame = spark.range(0, tasks, 1, tasks).mapInArrow(pass_on, "id long")
    frame = frame.repartition(tasks, "id").mapInArrow(pass_on, "id long")
    took = []
    for _ in range(FIT_EPOCHS):
        began_s = time.perf_counter()
        frame.alias("again").toArrow()
        took.append(time.perf_counter() - began_s)
    return 1000 * statistics.median(took[FIT_EPOCHS // 2 :])


def check_fixed(path: str | None, *, jobs: bool) -> None:
    """Compare the fixed cost at degree 64 with twice that at 2 and a bare Spark job."""
    if jobs:
        residence.MOST = 0
    spark = open_session("local[2]")
    spark.conf.set("spark.sql.shuffle.partitions", FIXED_DEGREE)
    sides: dict[str, Callable[[], float]] = {
        "degree 2": lambda: epoch_ms(2, 1),
        f"degree {FIXED_DEGREE}": lambda: epoch_ms(FIXED_DEGREE, 1),
        "bare": lambda: bare_ms(spark, FIXED_DEGREE),
    }
    found: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(1 + FIXED_RUNS):
        for name, run in sides.items():
            took_ms = run()
            if turn:  # the first round warms up
                found[name].append(took_ms)
    few, many, bare = (statistics.median(one) for one in found.values())
    over = many / (2 * few + bare)
    way = "a Spark job for each epoch" if jobs else "resident tasks"
    what = (
        f"{FIT_ITEMS:,} items at degree {FIXED_DEGREE}, {way}: over twice degree 2 plus a "
        f"bare job"
    )
    results = {f"ms, {name}": [round(ms) for ms in one] for name, one in found.items()}
    claims = [Claim(what, round(over, 2), at_most=1.0)]
    report("scale-fixed", results, path, claims=claims)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--channels", type=int, nargs="+", default=sized([100, 1000], [100])
    )
    parser.add_argument("--levels", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=sized(12, 3))
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--fit", action="store_true", help="on a real Spark")
    parser.add_argument("--fixed", action="store_true", help="on a real Spark")
    parser.add_argument("--jobs", action="store_true", help="no tasks stay")
    degrees = sized([2, 4, 8, 16, 32, 64, 128], [2, 4, 8])
    parser.add_argument("--degrees", type=int, nargs="+", default=degrees)
    parser.add_argument("--json", help="write the results to this file")
    given = parser.parse_args()
    if given.fixed:
        check_fixed(given.json, jobs=given.jobs)
        return
    if given.fit:
        check_fit(given.degrees, given.levels, given.json)
        return
    rows, claims, results = [], [], {}
    for channels in given.channels:
        took = measure(channels, given.levels, given.epochs, profile=given.profile)
        ms = sorted(1000 * s for s in took)
        middle, tasks = statistics.median(ms), channels * (1 + given.levels)
        rows.append(
            (
                channels,
                tasks,
                round(middle, 1),
                round(ms[-1], 1),
                round(1000 * middle / tasks, 1),
            )
        )
        what = f"driver, {channels:,} channels and {given.levels} levels"
        results[what] = {
            "ms": round(middle, 1),
            "low": round(ms[0], 1),
            "high": round(ms[-1], 1),
        }
        target = TARGET_MS if (channels, given.levels) == (1000, 4) else None
        claims.append(
            Claim(
                f"{what}: its own time for an epoch",
                round(middle, 1),
                round(ms[0], 1),
                round(ms[-1], 1),
                unit="ms",
                at_most=target,
                remark="processor time; no tasks run, reports are made up",
            )
        )
    head = ["channels", "tasks", "ms an epoch", "longest", "us a task"]
    table = Table("The driver's own time", head, rows)
    report("scale", results, given.json, claims=claims, tables=[table])


if __name__ == "__main__":
    main()
