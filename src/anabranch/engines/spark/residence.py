"""Resident tasks: one Spark job for many epochs, if Spark has room for it.

A Spark job per epoch costs the driver and the JVM some hundredths of a second, more
than the rows of a small epoch. So one long job holds Python workers, which receive
epochs through connections (`epochs/resident/`): Spark places them, accounts for them
and ends them with the job. Epochs remain the unit of commit and recovery. When one of
the tasks is lost, all are abandoned, and the running epoch is repeated from the last
commit, in tasks of a new Spark job. If that happens repeatedly, no tasks stay for some
minutes: each epoch is a Spark job.

States have a home: a task keeps its seats from epoch to epoch, and tasks of a new Spark
job take over from those on their host. So a state is restored from the checkpoint only
if its host has changed.

Another job on this Spark that waits for a slot gets those of the resident tasks, as
soon as the current epoch is over. An executor that is decommissioned is left in the same
way: it ends when its last task has ended, and the next epochs run elsewhere.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import pickle
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark import Broadcast, SparkContext, TaskContext
from pyspark.sql import SparkSession

from anabranch.engines.spark.access import SharedData, SparkAccess
from anabranch.engines.spark.session import is_on_this_machine, own_python
from anabranch.engines.spark.stage_plan import dump, load
from anabranch.engines.spark.worker import open_runner
from anabranch.engines.spark.workers import Tasks
from anabranch.epochs.division import Work
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.resident.hub import Hub
from anabranch.epochs.resident.link import LostError, connect
from anabranch.epochs.resident.process import (
    SHARED_KEPT,
    Begin,
    HomeMemory,
    Homes,
    ResidentProcess,
    RunWork,
    Seat,
    SharedValue,
    list_seats,
)
from anabranch.epochs.shuffle import Row
from anabranch.epochs.task import DeliverItems, EpochTask, Share, Shares
from anabranch.epochs.task_runner import in_force, without_garbage_collection
from anabranch.logs import log, logger_of
from anabranch.operators.sources import FromSpark

_LOGGER = logger_of("engines")
MOST = 64  # processes: each is connected to each
ENTER_S = 60.0  # until all are connected
LEAVE_S = 5.0  # until all have ended, before they are cancelled
LOOK_S = 0.25  # between two checks whether a job waits for a slot
LOSSES = 3  # within LOSSES_S, before tasks stop being resident for as long
LOSSES_S = 600.0
FREED_S = 10.0  # until the slots of lost tasks are free
GONE_S = 60.0  # the same, while Spark has not let go of them
FREED_LOOK_S = 0.05
FEW_LOOKS = 4  # that find fewer slots than tasks, until their executor is left
GROWN_S = 30.0  # between two checks whether there are more slots than tasks could get
AWAY_S = 2.0  # after another job needed the slots; doubled each time

# Spark encrypts its traffic between hosts; our connections would not.
_ENCRYPTED = (
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
    "spark.ssl.rpc.enabled",
)


def why_not_resident(access: SparkAccess, layout: EpochLayout) -> str | None:
    """Return why a program cannot have resident tasks, or None."""
    if access.context is None:
        return "Spark Connect runs DataFrames only"
    if any(isinstance(op.kind, FromSpark) for op in layout.graph.sources):
        return "the rows of a DataFrame come from other Spark jobs"
    if all(unit.in_driver for unit in layout.units):
        return "all of it runs in the driver"
    if access.is_on_this_machine:
        return None
    found = next((n for n in _ENCRYPTED if access.get_setting(n) == "true"), None)
    return None if found is None else f"{found} asks for encrypted connections"


class Residence:
    """The resident tasks of a job, as long as there are any; used by one thread."""

    def __init__(
        self,
        access: SparkAccess,
        layout: EpochLayout,
        job: str,
        shipped: SharedData,
        tasks: Tasks,
    ) -> None:
        self._context: Any = access.context  # if there is none, no tasks stay
        self._spark = access.spark
        self._layout = layout
        self._job = job
        self._shipped = shipped
        self._tasks = tasks
        self._why_not = why_not_resident(access, layout)
        self._stay: _Stay | None = None
        self._left: _Stay | None = None  # the one before
        self._slots = 0  # when tasks were last begun
        self._lost_s: deque[float] = deque(maxlen=LOSSES)  # when tasks were lost
        self._not_entered = 0  # times that tasks did not start
        self._hosts: Sequence[str] = ()  # the homes of processes, by their numbers
        self._memory = HomeMemory()
        self._looked_s = 0.0  # when the slots were last counted
        self._away_s = AWAY_S
        self._not_before_s = 0.0
        self._homes: dict[Any, Homes] = {}

    def run(
        self,
        tasks: Sequence[EpochTask],
        shares: Shares,
        work: Work,
    ) -> list[Row] | None:
        """Run stages of an epoch; return the rows for the driver.

        None if there are no resident tasks now: then it has to be a Spark job. Other
        running epochs are abandoned.
        """
        run = self.begin(tasks, shares, work)
        return None if run is None else self.collect(run)

    def begin(
        self,
        tasks: Sequence[EpochTask],
        shares: Shares,
        work: Work,
        *,
        behind: int | None = None,
    ) -> int | None:
        """Begin to run stages of an epoch; return the number of the run.

        Runs from `behind` on continue beside it; without it, there are none. None if
        there are no resident tasks now, or not those that run the epochs before.
        """
        if self._why_not is not None:
            return None
        stages = [list_seats(self._layout, task) for task in tasks]
        if behind is None:
            stay = self._enter(sum(map(len, stages)))
        else:
            stay = self._stay
            if stay is not None and (stay.is_over or stay.is_to_end):
                return None
        if stay is None:
            return None
        key = stay.hub.count, tuple(tuple(places) for places in stages)
        if key not in self._homes:
            if behind is not None:  # a state may be at home elsewhere
                return None
            self._homes = {key: self._memory.find_homes(stages, stay.hub.homes, work)}
        with self._noting_losses():
            return stay.begin_run(tasks, shares, stages, self._homes[key], behind)

    def deliver(self, task: EpochTask, behind: int | None) -> list[Row] | None:
        """Run a task that delivers an epoch, beside runs from `behind` on.

        None if there are no resident tasks now. Each sink has a process, which keeps it
        open; nothing else that the task has places for needs one.
        """
        stay = self._stay
        assert isinstance(task.mode, DeliverItems)  # noqa: S101 - its caller made it
        if stay is None or stay.is_over:
            return None
        seats = list_seats(self._layout, task)
        homes = {
            (unit, channel, part): channel % stay.hub.count
            if unit == task.mode.unit
            else 0
            for ((unit, channel, part),) in seats
        }
        with self._noting_losses():
            run = stay.begin_run([task], {}, [seats], homes, behind)
        return None if run is None else self.collect(run)

    def find_homes(self) -> dict[tuple[int, int], int]:
        """Return the process of each replica of a unit; none without resident tasks."""
        if not self.stays:
            return {}
        return {
            (unit, channel): home
            for homes in self._homes.values()
            for (unit, channel, part), home in homes.items()
            if part == 0
        }

    @property
    def stays(self) -> bool:
        """Whether there are resident tasks now."""
        return self._stay is not None and not self._stay.is_over

    def is_done(self, run: int) -> bool:
        """Tell whether `collect` would return, or fail, at once."""
        return self._stay is None or self._stay.hub.is_done(run)

    def collect(self, run: int) -> list[Row]:
        """Wait for a run; return the rows for the driver."""
        stay = self._stay
        if stay is None:
            msg = f"the resident tasks of run {run} are gone"
            raise LostError(msg)
        with self._noting_losses():
            rows = stay.collect(run)
        if stay.is_to_end and not stay.runs:
            self.leave()
        return rows

    @contextlib.contextmanager
    def _noting_losses(self) -> Iterator[None]:
        try:
            yield
        except LostError:
            self._lost_s.append(time.monotonic())
            self.leave()
            raise

    def leave(self) -> None:
        """Release the resident tasks."""
        stay, self._stay = self._stay, None
        if stay is not None:
            self._left = stay
            stay.end()
            if stay.wanted:
                self._not_before_s = time.monotonic() + self._away_s
                self._away_s *= 2

    def _enter(self, wanted: int) -> _Stay | None:
        """Return the resident tasks, at least `wanted` if Spark has room.

        None if there are none.
        """
        stay = self._stay
        if wanted > self._slots and time.monotonic() > self._looked_s + GROWN_S:
            self._count_slots()  # executors may have been added since
        enough = min(wanted, self._slots)
        if stay is not None and not stay.is_over and stay.hub.count >= enough:
            return stay
        self.leave()
        if self._is_lost_often or time.monotonic() < self._not_before_s:
            return None
        count = self._wait_for_slots(wanted)
        if not count:  # a cluster may have no executors yet
            return None
        units = [unit for unit in self._layout.units if not unit.in_driver]
        names = [name for unit in units for name in (*unit.operators, *unit.writes)]
        stay = _Stay(self._context, count, self._tasks, names, self._hosts)
        stay.begin(self._spark, self._job, self._shipped)
        if not stay.wait_for_all():
            self._not_entered += 1
            stay.end()
            if self._tasks.cancelled:
                msg = "the job was cancelled before its tasks were there"
                raise LostError(msg)
            return None
        self._stay, self._hosts = stay, stay.hub.homes
        return stay

    def _count_slots(self) -> None:
        self._slots = count_slots(self._context)
        self._looked_s = time.monotonic()

    def _wait_for_slots(self, wanted: int) -> int:
        """Return how many tasks can stay, at most as many as wanted; 0 if none can.

        After a loss the slots of the tasks that were given up are free soon. Until then a
        Spark job would have to wait for them too, and its tasks find no state at home.
        Meanwhile executors may go and come.
        """
        lost_s = max(self._lost_s, default=-math.inf)
        while True:
            self._count_slots()
            count = min(wanted, self._slots)
            if count > MOST:
                return 0
            if count > 0 and _find_free_slots(self._context) >= count:
                return count
            patience_s = FREED_S if self._left is None or self._left.is_gone else GONE_S
            if time.monotonic() > lost_s + patience_s or self._tasks.cancelled:
                return 0
            time.sleep(FREED_LOOK_S)

    @property
    def _is_lost_often(self) -> bool:
        """Whether tasks have been lost repeatedly of late.

        If they do not even start, waiting for them again is useless.
        """
        since_s = time.monotonic() - LOSSES_S
        lately = sum(lost_s > since_s for lost_s in self._lost_s)
        return lately + self._not_entered >= LOSSES


class _Stay:
    """One Spark job that holds resident tasks."""

    _few_looks = 0  # that have found fewer slots than tasks, of late

    def __init__(
        self,
        context: SparkContext,
        count: int,
        tasks: Tasks,
        operators: Sequence[str],
        hosts: Sequence[str] = (),
    ) -> None:
        self._context = context
        self._tasks = tasks
        self._operators = operators
        self.tag = f"resident-{id(self)}-{time.monotonic_ns()}"
        local = is_on_this_machine(context)
        host = "127.0.0.1" if local else context.getConf().get("spark.driver.host", "")
        self._host = host
        bound = (
            host if local else context.getConf().get("spark.driver.bindAddress", host)
        )
        self.hub = Hub(bound, count, hosts)
        self.wanted = False  # by another job
        self.runs: list[int] = []  # begun and not collected
        self._running = threading.Lock()  # held to change that, or to end without any
        self._over = threading.Event()
        self._shared: dict[int, Broadcast[Any]] = {}  # that the processes have
        self._numbers = itertools.count(1)  # of runs, and of their shared data

    @property
    def is_gone(self) -> bool:
        """Whether Spark has let go of its tasks."""
        return self._over.is_set()

    @property
    def is_over(self) -> bool:
        """Whether its tasks are gone, or ending."""
        return self._over.is_set() or self.hub.is_lost

    def begin(self, spark: SparkSession, job: str, shipped: SharedData) -> None:
        """Start the Spark job, and watch for others that wait for its slots."""
        address, secret = (self._host, self.hub.port), self.hub.secret

        def stay(_: Iterable[Any]) -> Iterable[Any]:
            serve(job, shipped, address, secret)
            return ()

        count = self.hub.count
        with own_python(spark):
            rdd = self._context.parallelize(range(count), count).mapPartitions(stay)
            rdd._jrdd  # noqa: B018, SLF001 - made now, for the right Python

        threading.Thread(
            target=self._hold, args=(rdd,), name="anabranch-resident", daemon=True
        ).start()
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def wait_for_all(self) -> bool:
        """Wait until the tasks have started; tell whether they have."""
        until_s = time.monotonic() + ENTER_S
        while time.monotonic() < until_s and not self._tasks.cancelled:
            if self.is_over or self.hub.wait_for_all(LOOK_S):
                return not self.is_over
        return False

    def _hold(self, rdd: Any) -> None:
        try:
            self._tasks.join()
            self._tasks.describe("resident tasks", self._operators)
            self._context.addJobTag(self.tag)
            rdd.collect()
        except Exception as error:  # noqa: BLE001 - the ordinary way will tell
            log(_LOGGER, logging.DEBUG, "resident tasks ended", error=str(error))
        finally:
            self._over.set()
            self.hub.give_up()

    def begin_run(
        self,
        tasks: Sequence[EpochTask],
        shares: Shares,
        stages: Sequence[Sequence[tuple[Seat, ...]]],
        homes: Homes,
        behind: int | None,
    ) -> int | None:
        """Begin some stages, with their seats assigned to processes.

        None if another job needs the slots.
        """
        run = next(self._numbers)
        oldest = run if behind is None else behind
        awaited = {
            (number, homes[together[0]])
            for number, seats in enumerate(stages)
            for together in seats
        }
        with self._running:
            self.runs = [one for one in self.runs if one >= oldest]
            if self.is_to_end and not self.runs:
                return None
            self.runs.append(run)
        self.hub.expect(run, oldest, awaited)
        own: dict[int, dict[tuple[int, int], Share]] = {n: {} for _, n in awaited}
        for place, share in shares.items():
            if (home := homes.get((*place, 0))) is not None:
                own[home][place] = share
        # What is the same for all is pickled once.
        plain = tuple(replace(task, shares={}) for task in tasks)
        told, shared = dump(RunWork(plain, homes))
        for process, some in own.items():
            told_too, shared_too = dump(some, shared)
            numbers = tuple(map(self._share, shared_too))
            self.hub.begin(process, Begin(run, oldest, numbers), [told, told_too])
        return run

    def collect(self, run: int) -> list[Row]:
        """Wait for a run; return the rows for the driver."""
        rows = self.hub.collect(run)
        with self._running:
            self.runs.remove(run)
        return rows

    def _share(self, one: Broadcast[Any]) -> int:
        """Return the number by which the processes know a broadcast."""
        for number, known in self._shared.items():
            if known is one:
                return number
        number = next(self._numbers)
        self.hub.share(number, pickle.dumps(one.value))
        self._shared[number] = one
        for old in sorted(self._shared)[:-SHARED_KEPT]:
            del self._shared[old]
        return number

    def _watch(self) -> None:
        """End the tasks when another job waits for their slots.

        That may be a sink of this program, which would wait while no run is collected.
        """
        while not self._over.wait(LOOK_S):
            try:
                self._look()
            except Exception:  # noqa: BLE001 - Spark is gone, and so are the tasks
                return
            with self._running:
                if self.is_to_end and all(map(self.hub.is_done, self.runs)):
                    self.end()
                    return

    def _look(self) -> None:
        """Look for others who want the slots, and for executors that are to end.

        Spark does not count the slots of the latter. If they stay too few, their tasks are
        still there: a task that is lost ends the stay.
        """
        self.wanted |= is_wanted(self._context, self.hub.count)
        few = count_slots(self._context) < self.hub.count
        self._few_looks = self._few_looks + 1 if few else 0

    @property
    def is_to_end(self) -> bool:
        """Whether the tasks are to end after the epochs that run."""
        return self.wanted or self._few_looks >= FEW_LOOKS

    def end(self) -> None:
        """Release the tasks; those that do not end are cancelled.

        Tasks that run an abandoned epoch are not awaited.
        """
        self.hub.close()
        is_idle = all(map(self.hub.is_done, self.runs))
        if not self._over.wait(LEAVE_S if is_idle else 0.0):
            with contextlib.suppress(Exception):  # Spark may be gone already
                self._context.cancelJobsWithTag(self.tag)


def serve(
    job: str, shipped: SharedData, address: tuple[str, int], secret: bytes
) -> None:
    """Stay in this worker, and run what the driver says."""
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls us
    runner = open_runner(job, shipped)
    load_own = partial(load_work, attempt=context.taskAttemptId())
    try:
        link, home = connect(address, secret), str(runner.spec.states)
    except (ConnectionError, TimeoutError):
        return  # the driver has not waited: its port is free, or another process has it
    process = ResidentProcess(
        runner, link, context.partitionId(), secret, load_own, home=home
    )
    with without_garbage_collection(), in_force(runner.spec):
        try:
            process.serve()
        finally:
            runner.close_sinks()
            runner.close_sources()


def load_work(
    told: Sequence[memoryview], shared: Sequence[SharedValue], attempt: int
) -> RunWork:
    """Return the work of a process in a run, as this attempt of its task."""
    work: RunWork = load(told[0], shared)
    shares: Shares = load(told[1], shared)
    tasks = (
        replace(task, attempt=replace(task.attempt, attempt_id=attempt))
        for task in work.tasks
    )
    return replace(work, tasks=tuple(tasks), shares=shares)


def count_slots(context: SparkContext) -> int:
    """Return the number of task slots."""
    java = context._jsc.sc()  # noqa: SLF001 - PySpark does not tell
    profile = java.resourceProfileManager().defaultResourceProfile()
    slots: int = java.maxNumConcurrentTasks(profile)
    return slots


def is_wanted(context: SparkContext, tasks: int) -> bool:
    """Tell whether another job waits for a slot while our `tasks` hold theirs.

    With fewer slots than these, an executor is gone, and it is one of ours that waits.
    """
    return count_slots(context) >= tasks and _find_free_slots(context) < 0


def _find_free_slots(context: SparkContext) -> int:
    """Return the free task slots; negative if tasks wait for a slot."""
    tracker = context.statusTracker()
    free = count_slots(context)
    for stage in tracker.getActiveStageIds():
        info = tracker.getStageInfo(stage)
        if info is not None:
            free -= info.numTasks - info.numCompletedTasks
    return free
