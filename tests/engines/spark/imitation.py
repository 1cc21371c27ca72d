"""An imitation of Spark in this process, which runs attempts of tasks as a test says.

It has what `Epochs` uses of Spark: stages of `mapInArrow`, shuffles by `dest`, and task
contexts. An attempt is a thread. It can be held at any place that `faults.reach` names
and go on later, or never, as if its process had been killed there. So every overlap of
two attempts at these places can be had, and always comes out the same.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pyarrow as pa

from anabranch.engines.spark import engine, residence, stage_plan, worker
from anabranch.epochs import faults
from anabranch.epochs import task as spec
from anabranch.epochs.state.store import close_buckets
from anabranch.epochs.task import ROW_ARROW

Batches: TypeAlias = list[pa.RecordBatch]
Body: TypeAlias = Callable[[], Batches]

WAIT_S = 60  # for a thread that does not come to where it must; then the test fails

_here = threading.local()  # .attempt and .worker of this thread


class Killed(BaseException):
    """Ends a thread whose process is meant to be dead."""


class Attempt(threading.Thread):
    """One attempt of a task, held when it first comes to the place `hold`."""

    def __init__(self, number: int, partition: int, body: Body, hold: str | None):
        super().__init__(daemon=True)
        self.number = number
        self.partition = partition
        self.held = False
        self.over = False
        self.gave: Batches = []
        self.error: BaseException | None = None
        self._body = body
        self._hold = hold
        self._dead = False
        self._here = threading.Semaphore(0)  # it is held, or over
        self._go_on = threading.Semaphore(0)

    def run(self) -> None:
        _here.attempt = self
        try:
            self.gave = self._body()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.error = error
        self.over = True
        self._here.release()

    def reach(self, place: str) -> None:
        if self._dead:
            raise Killed
        if place == self._hold:
            self._hold = None
            self.held = True
            self._here.release()
            self._go_on.acquire()
            self.held = False
            if self._dead:
                raise Killed

    def begin(self) -> None:
        """Let it run until it is held or over."""
        self.start()
        self._wait()

    def go_on(self, hold: str | None = None) -> None:
        """Let it run to its end, or until it comes to the next place `hold`."""
        if self.held:
            self._hold = hold
            self._go_on.release()
            self._wait()

    def end(self) -> None:
        """Get rid of the thread."""
        self._dead = True
        self.go_on()

    def _wait(self) -> None:
        assert self._here.acquire(timeout=WAIT_S), "an attempt hangs"


@dataclass
class Worker:
    """A Python worker: on which host it is, and what it keeps from task to task."""

    host: int
    runners: dict[str, Any] = field(default_factory=dict)


@dataclass
class Cluster:
    """Runs tasks; `run_task` says which attempts there are, and returns the winner's.

    New workers are on the `hosts` in turn.
    """

    run_task: Callable[[Cluster, int, Body], Batches]
    hosts: int = 1
    attempts: list[Attempt] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)  # of jobs that begin
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _made: Iterator[int] = field(default_factory=itertools.count)
    _free: list[Worker] = field(default_factory=list)

    def attempt(self, partition: int, body: Body, hold: str | None = None) -> Attempt:
        """Begin an attempt of a task."""
        made = Attempt(next(self._numbers), partition, body, hold)
        self.attempts.append(made)
        made.begin()
        return made

    @contextmanager
    def worker(self) -> Iterator[Worker]:
        """Lend the worker that was free for longest; one that dies is not given back."""
        new = not self._free
        mine = Worker(next(self._made) % self.hosts) if new else self._free.pop(0)
        yield mine
        self._free.append(mine)

    def end(self) -> None:
        """Get rid of all threads."""
        for attempt in self.attempts:
            attempt.end()

    # What `Epochs` and `SparkRun` see of a session:

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - as Spark has it
        return SimpleNamespace(
            master="local[2]",
            pythonExec=sys.executable,
            defaultParallelism=2,
            broadcast=lambda value: SimpleNamespace(value=value, destroy=lambda: None),
            getConf=dict,
            addJobTag=lambda _: None,
            setLocalProperty=self.properties.__setitem__,
            cancelJobsWithTag=lambda _: None,
        )

    @property
    def conf(self) -> Any:
        return SimpleNamespace(get=lambda *_: None, set=lambda *_: None)

    def newSession(self) -> Cluster:  # noqa: N802 - as Spark has it
        return self

    def range(self, _start: int, _end: int, _step: int, partitions: int) -> Frame:
        number = pa.record_batch([pa.array([0])], names=["id"])
        return Frame(self, lambda: [[number] for _ in range(partitions)])


@dataclass(frozen=True)
class Frame:
    """The rows of a stage: what its tasks get, and what they do with it."""

    cluster: Cluster
    given: Callable[[], list[Batches]]
    functions: tuple[Callable[..., Any], ...] = ()

    def mapInArrow(self, function: Callable[..., Any], _: Any) -> Frame:  # noqa: N802
        return Frame(self.cluster, self.given, (*self.functions, function))

    def repartitionById(self, count: int, _: str) -> Frame:  # noqa: N802
        def shuffle() -> list[Batches]:
            table = self.toArrow()
            return [
                table.filter(pa.compute.equal(table["dest"], number)).to_batches()
                for number in range(count)
            ]

        return Frame(self.cluster, shuffle)

    def alias(self, _: str) -> Frame:
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802
        told = dict(self.cluster.properties)
        gave = [
            self.cluster.run_task(
                self.cluster, n, lambda given=given: self._run(given, told)
            )
            for n, given in enumerate(self.given())
        ]
        return pa.Table.from_batches(itertools.chain(*gave), schema=ROW_ARROW)

    def _run(self, given: Batches, told: dict[str, str]) -> Batches:
        _here.told = told
        rows: Any = iter(given)
        for function in self.functions:
            rows = self._in_worker(function, rows)
        return list(rows)

    def _in_worker(self, function: Callable[..., Any], rows: Any) -> Iterator[Any]:
        with self.cluster.worker() as mine:
            _here.worker = mine
            yield from function(rows)


class _Runners:
    """Stands for `worker._runners`: the runners of the worker that runs in this thread."""

    def __contains__(self, job: str) -> bool:
        return job in _here.worker.runners

    def __getitem__(self, job: str) -> Any:
        return _here.worker.runners[job]

    def __setitem__(self, job: str, runner: Any) -> None:
        _here.worker.runners[job] = runner

    def clear(self) -> None:
        _here.worker.runners.clear()


def _context() -> Any:
    attempt = _here.attempt
    return SimpleNamespace(
        partitionId=lambda: attempt.partition,
        taskAttemptId=lambda: attempt.number,
        getLocalProperty=_here.told.get,
    )


@contextmanager
def imitated(
    monkeypatch: Any,
    cluster: Cluster,
    folder: Path,
    in_driver: Callable[[str, int], None] = lambda place, epoch: None,
) -> Iterator[None]:
    """Have jobs run on a cluster; `in_driver` is told where the driver comes by.

    Below `folder` each host has its copy of the states.
    """

    def local_directory(identity: str) -> Path:
        worker = getattr(_here, "worker", None)
        return folder / f"host-{0 if worker is None else worker.host}" / identity

    def reach(place: str, epoch: int) -> None:
        attempt = getattr(_here, "attempt", None)
        if attempt is None:
            in_driver(place, epoch)
        else:
            attempt.reach(place)

    nothing = lambda *_: None
    gc = SimpleNamespace(
        freeze=nothing, disable=nothing, enable=nothing, collect=nothing
    )
    with monkeypatch.context() as patch:
        patch.setattr(engine, "open_session", lambda _: cluster)
        patch.setattr(residence, "why_not_resident", lambda *_: "an imitation")
        patch.setattr(engine, "local_directory", local_directory)
        patch.setattr(spec, "local_directory", local_directory)
        patch.setattr(worker, "_runners", _Runners())
        patch.setattr(worker, "TaskContext", SimpleNamespace(get=_context))
        patch.setattr(stage_plan, "TaskContext", SimpleNamespace(get=_context))
        patch.setattr(worker, "close_buckets", nothing)  # other attempts use them
        patch.setattr(worker, "gc", gc)
        patch.setattr(worker, "answer_in", nothing)  # attempts are not processes
        patch.setattr(os, "fsync", nothing)  # the machine itself does not fail
        patch.setattr(faults, "watchers", [reach])
        try:
            yield
        finally:
            cluster.end()
            close_buckets()
