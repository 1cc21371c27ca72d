"""An imitation of Spark in this process, which runs attempts of tasks as a test says.

It has what `Epochs` uses of Spark: stages of `mapInArrow`, shuffles by `dest`, and task
contexts. An attempt is a thread. It can be held at any place that `faults.reach` names
and go on later, or never, as if its process had been killed there. So every overlap of
two attempts at these places can be had, and always comes out the same.

Resident tasks are imitated too, if a test says so: then each stage of one is an attempt,
and what the tasks and the driver send each other arrives in the order that the test says.
"""

from __future__ import annotations

import itertools
import os
import pickle
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from anabranch.engines.spark import engine, residence, stage_plan, worker
from anabranch.epochs import epoch_run, faults, task_runner
from anabranch.epochs import task as spec
from anabranch.epochs.resident.hub import Hub
from anabranch.epochs.resident.process import DRIVER, ResidentProcess
from anabranch.epochs.state.store import close_buckets
from anabranch.epochs.task import ROW_ARROW

Batches: TypeAlias = list[pa.RecordBatch]
Body: TypeAlias = Callable[[], Batches]

RESIDENTS = 2  # tasks that stay, at most
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


class Chances(Protocol):
    """What a test says about resident tasks."""

    def choose(self, steps: Sequence[str]) -> str:
        """Choose what happens next."""

    def hold_stage(self) -> str | None:
        """Return where the next stage is held."""

    def lose(self) -> bool:
        """Tell whether a task is lost now."""


@dataclass
class Cluster:
    """Runs tasks; `run_task` says which attempts there are, and returns the winner's.

    New workers are on the `hosts` in turn. Without `chances` no tasks stay.
    """

    run_task: Callable[[Cluster, int, Body], Batches]
    hosts: int = 1
    chances: Chances | None = None
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
        mine = self._free.pop(0) if self._free else self.add_worker()
        yield mine
        self._free.append(mine)

    def add_worker(self) -> Worker:
        """Return a new worker."""
        return Worker(next(self._made) % self.hosts)

    def end(self) -> None:
        """Get rid of all threads."""
        for attempt in self.attempts:
            attempt.end()

    # What the Spark engine sees of a session:

    @property
    def sparkContext(self) -> Any:  # noqa: N802 - as Spark has it
        return SimpleNamespace(
            master="local[2]",
            pythonExec=sys.executable,
            defaultParallelism=2,
            uiWebUrl=None,
            broadcast=lambda value: SimpleNamespace(value=value, destroy=lambda: None),
            _conf={},
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


class ImitatedAnchors:
    """Nothing is kept in memory: a task runs in any worker."""

    def __init__(self, _: str) -> None:
        self.close = lambda: None

    def begin(self, spark: Cluster, tasks: int) -> Frame:
        return spark.range(0, tasks, 1, tasks)

    def join(self, _: Cluster, frame: Frame, __: int) -> Frame:
        return frame


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

    def values(self) -> list[Any]:
        return [*_here.worker.runners.values()]

    def clear(self) -> None:
        _here.worker.runners.clear()


class Wire:
    """One direction of a connection; what is sent waits until the test lets it arrive."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[bytes, list[memoryview]]] = deque()

    def send(self, data: Any, blobs: Sequence[Any] = ()) -> None:
        copies = [memoryview(memoryview(blob).tobytes()) for blob in blobs]
        self.waiting.append((pickle.dumps(data), copies))

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class Resident:
    """A resident task: its process, and the stage that it is in."""

    worker: Worker
    process: ResidentProcess
    stage: Attempt | None = None


class ImitatedHub(Hub):
    """Lets happen what may, one step after the other, while the driver waits for a run."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.homes = ("",) * count
        self._news = threading.Condition()
        self._lost = False
        self._runs = {}
        self._cluster: Cluster
        self._residents: list[Resident] = []
        self._wires = {
            (sender, receiver): Wire()
            for sender in range(DRIVER, count)
            for receiver in range(DRIVER, count)
            if sender != receiver
        }
        self._links = {n: self._wires[DRIVER, n] for n in range(count)}

    def fill(self, cluster: Cluster, job: str, shipped: Any) -> None:
        """Have all tasks come."""
        self._cluster = cluster
        for number in range(self.count):
            mine = cluster.add_worker()
            wires = {
                receiver: wire
                for (sender, receiver), wire in self._wires.items()
                if sender == number
            }

            def enter(mine=mine, number=number, wires=wires) -> Batches:
                _here.worker = mine
                runner = worker.open_runner(job, shipped)
                load = partial(residence.load_work, attempt=_here.attempt.number)
                process = ResidentProcess(runner, wires[DRIVER], number, b"", load)
                process._links = wires
                self._residents.append(Resident(mine, process))
                return []

            entered = cluster.attempt(number, enter)
            if entered.error is not None:
                raise entered.error

    def collect(self, run: int) -> list[Any]:
        while not self.is_done(run):
            self._step()
        return super().collect(run)

    def close(self) -> None:
        """Whoever is in a stage is left alone."""

    def _step(self) -> None:
        assert self._cluster.chances is not None
        steps: dict[str, Callable[[], None]] = {
            f"from {sender} to {receiver}": partial(self._deliver, sender, receiver)
            for (sender, receiver), wire in self._wires.items()
            if wire.waiting
        }
        for number, one in enumerate(self._residents):
            if one.stage is not None:
                steps[f"resident {number} goes on"] = one.stage.go_on
            elif (ready := one.process.find_ready()) is not None:
                steps[f"resident {number} begins"] = partial(self._begin, number, ready)
        assert steps, "nothing happens any more"
        steps[self._cluster.chances.choose(list(steps))]()
        for one in self._residents:
            if one.stage is not None and one.stage.over:
                if one.stage.error is not None:
                    raise one.stage.error
                one.stage = None
        if self._cluster.chances.lose():
            self.give_up()

    def _deliver(self, sender: int, receiver: int) -> None:
        told, blobs = self._wires[sender, receiver].waiting.popleft()
        if receiver == DRIVER:
            self._take(self._links[sender], pickle.loads(told), blobs)
        else:
            self._residents[receiver].process.take(pickle.loads(told), blobs)

    def _begin(self, number: int, run: Any) -> None:
        one, cluster = self._residents[number], self._cluster
        assert cluster.chances is not None

        def body() -> Batches:
            _here.worker = one.worker
            one.process.run_stage(run)
            return []

        one.stage = cluster.attempt(number, body, cluster.chances.hold_stage())


class ImitatedStay(residence._Stay):
    """Resident tasks without a Spark job."""

    def __init__(self, _context: Any, count: int, *_: Any) -> None:
        self.hub = ImitatedHub(count)
        self.wanted = False
        self.runs = []
        self._running = threading.Lock()
        self._over = threading.Event()
        self._shared = {}
        self._numbers = itertools.count(1)

    def begin(self, spark: Any, job: str, shipped: Any) -> None:
        self.hub.fill(spark, job, shipped)

    def wait_for_all(self) -> bool:
        return True

    def end(self) -> None:
        self._over.set()


def _context() -> Any:
    attempt = _here.attempt
    return SimpleNamespace(
        partitionId=lambda: attempt.partition,
        taskAttemptId=lambda: attempt.number,
        getLocalProperty=_here.told.get,
    )


def undisturbed(cluster: Cluster, partition: int, body: Body) -> Batches:
    """Run a task in one attempt."""
    attempt = cluster.attempt(partition, body)
    if attempt.error is not None:
        raise attempt.error
    return attempt.gave


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
        patch.setattr(engine, "Anchors", ImitatedAnchors)
        why_not = "an imitation" if cluster.chances is None else None
        patch.setattr(residence, "why_not_resident", lambda *_: why_not)
        patch.setattr(residence, "_Stay", ImitatedStay)
        patch.setattr(residence, "count_slots", lambda _: RESIDENTS)
        patch.setattr(residence, "_find_free_slots", lambda _: RESIDENTS)
        patch.setattr(epoch_run, "local_directory", local_directory)
        patch.setattr(spec, "local_directory", local_directory)
        patch.setattr(worker, "_runners", _Runners())
        patch.setattr(worker, "TaskContext", SimpleNamespace(get=_context))
        patch.setattr(stage_plan, "TaskContext", SimpleNamespace(get=_context))
        patch.setattr(worker, "close_buckets", nothing)  # other attempts use them
        patch.setattr(worker, "gc", gc)
        patch.setattr(task_runner, "gc", gc)
        patch.setattr(worker, "answer_in", nothing)  # attempts are not processes
        patch.setattr(os, "fsync", nothing)  # the machine itself does not fail
        patch.setattr(faults, "watchers", [reach])
        try:
            yield
        finally:
            cluster.end()
            close_buckets()
