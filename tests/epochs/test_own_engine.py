"""An engine for epochs is two classes: here is one whose tasks run in this process.

It has no part of Spark: everything else is in `epochs/`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.epochs import faults
from anabranch.epochs.epoch_run import EpochRun
from anabranch.epochs.task import ROW_ARROW
from anabranch.epochs.task_runner import Runner, run_partition
from anabranch.epochs.transport.ship import unpack
from anabranch.errors import EngineError, OperatorError
from anabranch.job import compile_sinks
from anabranch.runtime.thread import Options
from tests.connectors.own import Parted


class OwnCluster:
    """Runs the tasks of a stage one after the other."""

    result_limit = "nothing"
    cores = 2
    stays = cancelled = False

    def __init__(self, shipped: bytes) -> None:
        self._runner = Runner(*unpack(shipped))
        self._attempts = itertools.count(1)

    def note(self, *_: Any) -> None:
        """Nobody asks what runs."""

    refuse_if_abandoned = leave = note

    def run(self, shapes, tasks, shares, work) -> list[Any]:
        rows = ROW_ARROW.empty_table()
        for shape, task in zip(shapes, tasks, strict=True):
            done = [self._run_task(task, n, rows) for n in range(shape.tasks)]
            rows = pa.Table.from_batches(itertools.chain(*done), schema=ROW_ARROW)
        columns = ("unit", "channel", "entry", "payload")
        return [tuple(row[name] for name in columns) for row in rows.to_pylist()]

    def _run_task(self, task, number, rows) -> list[pa.RecordBatch]:
        attempt = replace(task.attempt, attempt_id=next(self._attempts))
        mine = rows.filter(pa.compute.equal(rows["dest"], number))
        task = replace(task, attempt=attempt)
        return list(run_partition(self._runner, task, number, mine.to_batches()))

    def begin(self, *_: Any, behind: int | None) -> None:
        """None: there are no resident tasks."""

    def deliver(self, shape, task, *, behind) -> list[Any]:
        return self.run([shape], [task], {}, None)

    def find_homes(self) -> dict[Any, int]:
        return {}

    def is_loss(self, error: BaseException) -> bool:
        return False

    is_too_large = is_loss

    def describe_start(self, error: Exception) -> None:
        """Tasks start wherever this process runs."""


class OwnBackend:
    """This process, as if it were a cluster of two cores."""

    name = "spark"  # as far as plans and metrics have names of engines
    cores = 2
    web_address = None
    is_on_this_machine = True
    cancelled = False

    def __init__(self, hosts: str | None = None) -> None:
        self._hosts = hosts

    def open(self, layout, scratch) -> None:
        """Nothing is to be connected."""

    def join(self, *_: Any) -> None:
        """One thread does everything."""

    check_workers = ask = abandon = close = clear_hosts = join

    def why_not_one_host(self) -> str | None:
        return self._hosts

    def find_result_limit(self) -> float:
        return float("inf")

    def open_cluster(self, spec, shipped, *, in_round=False) -> OwnCluster:
        return OwnCluster(shipped)

    def share(self, chunks):
        return SimpleNamespace(value=chunks, destroy=lambda: None)

    def open_frame(self, op, scratch, checkpoint):
        msg = "this engine has no DataFrames"
        raise EngineError(msg)

    def make_frame(self, table: pa.Table) -> pa.Table:
        return table

    def describe_error(self, error: BaseException) -> None:
        """None: there is no failure of its own."""

    def count_done(self) -> dict[str, int]:
        return {}

    def find_busy(self) -> list[str]:
        return []

    def cancel(self) -> bool:
        return False


def run_on_own(*sinks: ab.Result, hosts: str | None = None, **options: Any) -> EpochRun:
    made = compile_sinks(*sinks, on="spark")
    run = EpochRun(OwnBackend(hosts), made.graph, made.plan, Options(**options))
    run.begin()
    run.wait()
    return run


class Trade(NamedTuple):
    symbol: str
    price: float


class Mean(NamedTuple):
    symbol: str
    price: float


def mean(trades: list[Trade]) -> Mean:
    return Mean(trades[0].symbol, sum(t.price for t in trades) / len(trades))


def count(total: int, item: Any) -> tuple[int, tuple[int, Any]]:
    return total + 1, (total, item)


def negate(n: int) -> int:
    return -n


def invert(n: int) -> float:
    return 1 / n


TRADES = [Trade("ABC"[n * 7 % 3], n / 4) for n in range(200)]
PROGRAMS = {
    "stateless": lambda: ab.from_iterable(range(300), int).map(negate),
    "windows by key": lambda: (
        ab.from_iterable(TRADES, Trade).key_by("symbol").window(count=7).aggregate(mean)
    ),
    "one state": lambda: ab.from_iterable(range(100), int).map(negate).scan(count, 0),
}


@pytest.mark.parametrize("degree", [1, 2, None])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_programs_run_on_an_engine_of_two_classes(program, degree):
    alone, own = program().to_list(), program().to_list()
    ab.run(alone, on="sequential")

    run = run_on_own(own, degree=degree, epoch_items=64)

    assert alone.items == own.items
    assert run.status == "finished"
    assert run.metrics().epochs > 1


def test_a_job_resumes_from_its_checkpoint_on_an_engine_of_two_classes(
    monkeypatch, tmp_path
):
    source, target = tmp_path / "in.csv", tmp_path / "out"
    lines = [f"{t.symbol},{t.price}" for t in TRADES]
    source.write_text("\n".join(["symbol,price", *lines, ""]))

    def run() -> EpochRun:
        means = ab.read_csv(source, Trade).key_by("symbol").window(count=7)
        sink = means.aggregate(mean).write_csv(target)
        checkpoint = str(tmp_path / "checkpoint")
        return run_on_own(sink, degree=2, epoch_items=32, checkpoint=checkpoint)

    def kill(place: str, epoch: int) -> None:
        if (place, epoch) == ("committed", 3):
            raise KeyboardInterrupt

    monkeypatch.setattr(faults, "watchers", [kill])
    with pytest.raises(KeyboardInterrupt):
        run()
    monkeypatch.setattr(faults, "watchers", [])
    resumed = run()

    expected = PROGRAMS["windows by key"]().to_list()
    ab.run(expected, on="sequential")
    parts = sorted(target.glob("part-*"))
    rows = [line for part in parts for line in part.read_text().splitlines()[1:]]
    assert [f"{m.symbol},{m.price}" for m in expected.items] == rows
    assert 0 < sum(resumed.metrics().epoch_items) < len(TRADES)


@pytest.mark.parametrize("in_workers", [False, True])
def test_tasks_write_parts_on_an_engine_of_two_classes(tmp_path, in_workers):
    sink = Parted(tmp_path / "out")
    sink.in_workers = in_workers
    numbers = ab.from_iterable(range(100), int).map(abs).write(sink)

    run_on_own(numbers, degree=3, epoch_items=50)

    assert [*range(100)] == sink.rows()
    assert [3, 3] == [len(parts) for parts in sink.epochs()]


def test_an_error_names_the_operator_on_an_engine_of_two_classes():
    sink = ab.from_iterable([3, 2, 1, 0], int).map(invert).to_list()

    with pytest.raises(OperatorError, match="ZeroDivisionError"):
        run_on_own(sink, degree=2)


def test_states_on_several_hosts_are_refused_on_any_engine():
    sink = PROGRAMS["one state"]().to_list()

    with pytest.raises(EngineError, match="this cluster has 2 hosts"):
        run_on_own(sink, hosts="this cluster has 2 hosts (a, b)")


def test_this_engine_has_nothing_of_spark():
    text = Path(__file__).read_text(encoding="utf-8")

    assert "pyspark" not in text.replace('"pyspark"', "")
    assert "engines.spark" not in text.replace('"engines.spark"', "")
