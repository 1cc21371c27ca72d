"""A resident task: a process that stays for many epochs and is fed through connections.

The driver tells a process what its places do in a *run*: some stages of one try of an
epoch. The processes exchange rows at the end of each stage; a process begins a stage
when all others have reported the end of the stages before. Rows for the driver go
there. So an epoch needs no job of the engine, and no coordination between two stages.

Several runs may be in progress: a process continues the oldest one that is ready. Each
stage of a run follows the same stage of the run before, so that every unit sees the
epochs in order. A run that delivers a committed epoch to external sinks comes first: the
driver waits for it, and no unit is involved.
"""

from __future__ import annotations

import contextvars
import itertools
import pickle
import threading
from collections import Counter
from collections.abc import (
    Callable,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from operator import attrgetter
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from anabranch.epochs.division import UNKNOWN_S, Work
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.resident.link import Address, Link, Listener, LostError, connect
from anabranch.epochs.shuffle import Row, TaskRows
from anabranch.epochs.task import DeliverItems, EpochTask, Place, Shares
from anabranch.epochs.wire import blob_of

# A unit by number, one of its replicas, and one of its parts if it is cut.
Seat: TypeAlias = tuple[int, int, int]
Homes: TypeAlias = Mapping[Seat, int]  # the process of each
Chunk: TypeAlias = list[tuple[int, Any]]  # blobs, with the number of their stream
DRIVER = -1  # instead of a process


@dataclass(frozen=True)
class Hello:
    """A process's first message to the driver: its task, and where it listens.

    Processes with the same `home` share state files.
    """

    task: int
    address: Address
    home: str = ""


@dataclass(frozen=True)
class Peers:
    """The addresses of all processes, by number; the receiver's is `own`."""

    addresses: tuple[Address, ...]
    own: int


@dataclass(frozen=True)
class Ready:
    """A process is connected to all others."""

    task: int


@dataclass(frozen=True)
class Shared:
    """Data that runs refer to by number, in a blob. Only the last few are kept."""

    number: int


@dataclass(frozen=True)
class Begin:
    """A run begins; those before `oldest` are over.

    Its blobs describe what all processes do, referring to `shared` data, and the shares
    of this one.
    """

    run: int
    oldest: int
    shared: tuple[int, ...] = ()


@dataclass(frozen=True)
class StageRows:
    """A process has finished a stage; the blobs are rows for places of the receiver."""

    run: int
    stage: int
    sender: int
    heads: tuple[tuple[int, int, int], ...]  # unit, channel and entry of each row


@dataclass(frozen=True)
class Along:
    """A chunk for the next part of a cut unit, in blobs.

    With `over`, the only blob is the result of the parts before, and nothing follows.
    """

    run: int
    seat: Seat
    streams: tuple[int, ...] = ()
    over: bool = False


@dataclass(frozen=True)
class Goodbye:
    """There are no more runs."""


@dataclass(frozen=True)
class RunWork:
    """The work of processes in a run: a task per stage, and the shares of one of
    them.
    """

    tasks: tuple[EpochTask, ...]
    homes: Homes
    shares: Shares = field(default_factory=dict)


class Units(Protocol):
    """Runs the units of a job in this process."""

    layout: EpochLayout

    def run_places(
        self, task: EpochTask, places: Sequence[Place], rows: TaskRows
    ) -> None:
        """Run units, one after the other, on their share of the rows."""

    def run_first(
        self, task: EpochTask, place: Place, rows: TaskRows
    ) -> Generator[Chunk, None, bytes]:
        """Run the first part of a cut unit; return its result."""

    def run_later(
        self,
        task: EpochTask,
        place: Place,
        chunks: Iterator[Chunk],
        end: Callable[[], Any],
        rows: TaskRows,
    ) -> Generator[Chunk, None, bytes | None]:
        """Run a part behind a cut; return the result of it and those before."""

    def rest(self) -> None:
        """Do the periodic work due between two stages."""


SHARED_KEPT = 8

Load: TypeAlias = Callable[[Sequence[memoryview], Sequence["SharedValue"]], RunWork]


class SharedValue:
    """Data that several runs refer to, loaded on first use."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    @cached_property
    def value(self) -> Any:
        """The data."""
        return pickle.loads(self._data)


class ResidentProcess:
    """One of the processes; `serve` returns when the driver has no more work."""

    def __init__(
        self,
        units: Units,
        driver: Link,
        task: int,
        secret: bytes,
        load: Load,
        *,
        home: str = "",
    ) -> None:
        self._units = units
        self._driver = driver
        self._task = self._number = task  # until the driver has given it a number
        self._home = home
        self._secret = secret
        self._load = load
        self._links: dict[int, Link] = {DRIVER: driver}
        self._met: list[Link] = []
        self._news = threading.Condition(threading.RLock())
        self._peers: Peers | None = None
        self._runs: dict[int, _Run] = {}
        self._oldest = 0
        self._over = False
        self._error: Exception | None = None  # in what was read
        self._shared: dict[int, SharedValue] = {}

    def serve(self) -> None:
        """Run the driver's commands until it has no more, or is lost."""
        listener = Listener(self._driver.own_host, self._secret, self._meet)
        try:
            self._read(self._driver, self._end)
            address = self._driver.own_host, listener.port
            home = f"{self._driver.own_host} {self._home}"
            self._driver.send(Hello(self._task, address, home))
            self._reach_peers()
            while (ready := self._await_work()) is not None:
                self.run_stage(ready)
        except OSError:
            if not self._over:
                raise
        finally:
            listener.close()
            for link in (*self._links.values(), *self._met):
                link.close()

    def _meet(self, link: Link) -> None:
        self._met.append(link)
        self._read(link, lambda: None)

    def _read(self, link: Link, at_end: Callable[[], None]) -> None:
        """Start a thread that reads all input, so that no sender waits for work to
        end.
        """

        def read() -> None:
            try:
                for data, blobs in link.frames():
                    with self._news:
                        self.take(data, blobs)
                        self._news.notify_all()
            except Exception as error:  # noqa: BLE001 - raised in the waiting thread
                self._error = error
                self._end()
            finally:
                link.close()
            at_end()

        threading.Thread(target=read, name="read", daemon=True).start()

    def _end(self) -> None:
        with self._news:
            self._over = True
            for run in self._runs.values():
                run.end_along()
            self._news.notify_all()

    def take(self, data: Any, blobs: list[memoryview]) -> None:
        """Handle a message of the driver or of another process."""
        match data:
            case StageRows(run=run) if run >= self._oldest:
                self._run(run).arrive(data, blobs)
            case Along(run=run) if run >= self._oldest:
                self._run(run).along(data.seat).put((data, blobs))
            case Begin(run, oldest, shared):
                self._oldest = oldest
                for number in [n for n in self._runs if n < oldest]:
                    del self._runs[number]
                given = [self._shared[number] for number in shared]
                self._run(run).told = partial(self._load, blobs, given)
            case Shared(number):
                self._shared[number] = SharedValue(blobs[0])
                for one in sorted(self._shared)[:-SHARED_KEPT]:
                    del self._shared[one]
            case Peers():
                self._peers = data
            case Goodbye():
                self._end()

    def _run(self, number: int) -> _Run:
        if number not in self._runs:
            self._runs[number] = _Run(number)
        return self._runs[number]

    def _reach_peers(self) -> None:
        with self._news:
            self._news.wait_for(lambda: self._over or self._peers is not None)
            peers = self._peers
        if peers is None:
            return
        self._number = peers.own
        for number, address in enumerate(peers.addresses):
            if number != self._number:
                self._links[number] = connect(address, self._secret)
        self._driver.send(Ready(self._number))

    def _await_work(self) -> _Run | None:
        """Wait for a run that has a stage to run here; None at the end."""
        with self._news:
            while not self._over:
                if (run := self.find_ready()) is not None:
                    return run
                self._news.wait()
        if self._error is not None:
            raise self._error
        return None

    def find_ready(self) -> _Run | None:
        """Return the oldest run that has a stage to run here now, if any."""
        earlier: set[int] = set()  # stages that earlier runs have yet to run
        for run in self._runs.values():
            if run.work is None and run.told is not None:
                run.open(run.told(), self._number, self._units.layout)
        for run in sorted(self._runs.values(), key=attrgetter("turn")):
            if run.is_ready and run.stages[0] not in earlier:
                return run
            earlier.update(run.stages)
        return None

    def run_stage(self, run: _Run) -> None:
        """Run the next stage of a ready run, and send its rows."""
        assert run.work is not None  # noqa: S101 - it is ready
        stage = run.stages.pop(0)
        task = replace(run.work.tasks[stage], shares=run.work.shares)
        rows: list[TaskRows] = []
        later: list[_Later] = []
        # Parts behind a cut wait for those before, which may be in this process too.
        for part, places in run.places[stage]:
            if part:
                rows.append(TaskRows())
                given = run, task, part, places[0], rows[-1]
                later.append(_Later(self._run_later, *given))
        for part, places in run.places[stage]:
            if not part:
                rows.append(self._run_places(run, task, places))
        for one in later:
            one.finish()
        self._hand_out(run, stage, [row for some in rows for row in some.list_rows()])
        self._units.rest()

    def _run_places(
        self, run: _Run, task: EpochTask, places: Sequence[Place]
    ) -> TaskRows:
        """Run the units of a task, or the first part of a cut one."""
        rows = TaskRows()
        for unit, channel in places:
            for row in run.arrived.pop((unit.number, channel), ()):
                rows.add(*row)
        unit, channel = places[0]
        if unit.number not in task.cuts:
            self._units.run_places(task, places, rows)
        else:
            chunks = self._units.run_first(task, places[0], rows)
            self._send_along(run, (unit.number, channel, 1), chunks)
        return rows

    def _run_later(
        self, run: _Run, task: EpochTask, part: int, place: Place, rows: TaskRows
    ) -> None:
        """Run a part behind a cut."""
        unit, channel = place
        with self._news:
            waiting = run.along((unit.number, channel, part))
        ends: list[memoryview] = []

        def receive() -> Iterator[Chunk]:
            while True:
                message, blobs = waiting.get()
                if message is None:
                    msg = f"the part before part {part} of unit {unit.name} is gone"
                    raise LostError(msg)
                if message.over:
                    ends.extend(blobs)
                    return
                yield list(zip(message.streams, map(pa.py_buffer, blobs), strict=True))

        stage = replace(task.stage, part=part)
        chunks = self._units.run_later(
            replace(task, stage=stage), place, receive(), ends.pop, rows
        )
        self._send_along(run, (unit.number, channel, part + 1), chunks)

    def _send_along(
        self, run: _Run, seat: Seat, chunks: Generator[Chunk, None, bytes | None]
    ) -> None:
        """Send chunks to the next part of a unit, and the result after the last."""
        assert run.work is not None  # noqa: S101 - as above
        while True:
            try:
                chunk = next(chunks)
            except StopIteration as over:
                if over.value is not None:
                    message = Along(run.number, seat, over=True)
                    self._send(run.work.homes[seat], message, [over.value])
                return
            if chunk:
                message = Along(run.number, seat, tuple(stream for stream, _ in chunk))
                blobs = [blob for _, blob in chunk]
                self._send(run.work.homes[seat], message, blobs)

    def _send(self, home: int, message: Any, blobs: Sequence[Any]) -> None:
        if home != self._number:
            self._links[home].send(message, blobs)
            return
        with self._news:
            self.take(message, [memoryview(blob) for blob in blobs])

    def _hand_out(self, run: _Run, stage: int, rows: Iterable[Row]) -> None:
        """Send rows to their receivers; all processes waiting for this stage are
        notified.
        """
        assert run.work is not None  # noqa: S101 - as above
        homes, number = run.work.homes, self._number
        sent: dict[int, list[Row]] = {n: [] for n in (DRIVER, *run.waiting_for(stage))}
        with self._news:
            for row in rows:
                home = homes.get((*row[:2], 0), DRIVER)
                if home == number:
                    run.arrived.setdefault(row[:2], []).append(row)
                else:
                    sent.setdefault(home, []).append(row)
            run.done.add((stage, number))
        for home, some in sent.items():
            heads = tuple(row[:3] for row in some)
            message = StageRows(run.number, stage, number, heads)
            self._links[home].send(message, [blob_of(row[3]) for row in some])


@dataclass
class _Run:
    """A run in this process; changed under its lock, apart from the running stage."""

    number: int
    told: Callable[[], RunWork] | None = None
    work: RunWork | None = None
    stages: list[int] = field(default_factory=list)  # that have still to run here
    places: dict[int, list[tuple[int, tuple[Place, ...]]]] = field(default_factory=dict)
    arrived: dict[tuple[int, int], list[Row]] = field(default_factory=dict)
    done: set[tuple[int, int]] = field(default_factory=set)  # stage and process
    _along: dict[Seat, SimpleQueue[Any]] = field(default_factory=dict)
    _all: list[frozenset[int]] = field(default_factory=list)  # the processes of stages
    _number: int = 0

    def open(self, work: RunWork, number: int, layout: EpochLayout) -> None:
        """Determine what this process does."""
        self.work, self._number = work, number
        for stage, task in enumerate(work.tasks):
            here: list[tuple[int, tuple[Place, ...]]] = []
            at: set[int] = set()
            for places in task.stage.places(layout, task.stage.levels):
                (unit, channel), *_ = places
                for part in range(1 + len(task.cuts.get(unit.number, ()))):
                    home = work.homes[unit.number, channel, part]
                    at.add(home)
                    if home == number:
                        here.append((part, places))
            self._all.append(frozenset(at))
            if here:
                self.stages.append(stage)
                self.places[stage] = here

    @property
    def turn(self) -> tuple[bool, int]:
        """When it is its turn: runs that deliver an epoch first, then the oldest."""
        tasks = () if self.work is None else self.work.tasks
        return not any(isinstance(t.mode, DeliverItems) for t in tasks), self.number

    @property
    def is_ready(self) -> bool:
        """Whether the next stage here has all its input."""
        if not self.stages:
            return False
        return all(
            (stage, process) in self.done
            for stage in range(self.stages[0])
            for process in self._all[stage]
        )

    def arrive(self, message: StageRows, blobs: Sequence[memoryview]) -> None:
        """Add rows from another process, which has finished a stage."""
        for head, blob in zip(message.heads, blobs, strict=True):
            self.arrived.setdefault(head[:2], []).append((*head, blob))
        self.done.add((message.stage, message.sender))

    def along(self, seat: Seat) -> SimpleQueue[Any]:
        """Return the queue of chunks for a part behind a cut."""
        return self._along.setdefault(seat, SimpleQueue())

    def end_along(self) -> None:
        """Wake the parts that wait for a chunk."""
        for waiting in self._along.values():
            waiting.put((None, ()))

    def waiting_for(self, stage: int) -> set[int]:
        """Return the other processes with stages behind this one."""
        later = frozenset().union(*self._all[stage + 1 :])
        return set(later) - {self._number}


class _Later:
    """A thread that runs a part behind a cut, with its starter's ambient settings."""

    def __init__(self, work: Callable[..., None], *given: Any) -> None:
        self._error: BaseException | None = None
        run = contextvars.copy_context().run

        def run_guarded() -> None:
            try:
                run(work, *given)
            except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                self._error = error

        self._thread = threading.Thread(target=run_guarded, name="part", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Wait for its end."""
        self._thread.join()
        if self._error is not None:
            raise self._error


def list_seats(layout: EpochLayout, task: EpochTask) -> list[tuple[Seat, ...]]:
    """Return the seats of a stage, grouped by those that one process must run."""
    found: list[tuple[Seat, ...]] = []
    for places in task.stage.places(layout, task.stage.levels):
        found.append(tuple((unit.number, channel, 0) for unit, channel in places))
        (unit, channel), *_ = places
        parts = range(1, 1 + len(task.cuts.get(unit.number, ())))
        found += [((unit.number, channel, part),) for part in parts]
    return found


def find_homes(
    stages: Sequence[Sequence[tuple[Seat, ...]]],
    processes: int,
    work: Work,
    before: Homes = MappingProxyType({}),
    *,
    keep: bool = False,
) -> Homes:
    """Assign seats to processes by the `work` of units.

    The seats of a stage are spread over the processes; seats of different stages go to
    different ones as well, so that successive runs keep all busy. The parts of a unit
    are next to those that feed them if there are more than processes. Among equally
    busy processes a seat goes to the one where it was `before`, which has its states.
    With `keep`, for the same stages on other processes, it stays there as long as no
    process has more seats of a stage than necessary.

    >>> two_replicas, alone = [((0, 0, 0),), ((0, 1, 0),)], [((1, 0, 0),)]
    >>> find_homes([two_replicas, alone], 2, {0: 1.0, 1: 3.0})
    {(0, 0, 0): 0, (0, 1, 0): 1, (1, 0, 0): 0}
    >>> find_homes([alone], 2, {}, before={(1, 0, 0): 1})
    {(1, 0, 0): 1}
    >>> four = [((0, n, 0),) for n in range(4)]
    >>> find_homes([four], 3, {}, dict(zip([(0, 0, 0), (0, 2, 0)], (2, 1))), keep=True)
    {(0, 0, 0): 2, (0, 2, 0): 1, (0, 1, 0): 0, (0, 3, 0): 0}
    """
    homes: dict[Seat, int] = {}
    busy_s = [0.0] * processes
    for seats in stages:
        replicas = Counter(unit for one in seats for unit, _, _ in one)
        crowd = -(-len(seats) // processes)  # neighbours in one process
        if keep:
            for seat, home in _keep_homes(seats, processes, before).items():
                homes[seat] = home
                busy_s[home] += work.get(seat[0], UNKNOWN_S) / replicas[seat[0]]
            continue
        for start in range(0, len(seats), crowd * processes):
            free = list(range(processes))
            for at in range(start, min(start + crowd * processes, len(seats)), crowd):
                crew = list(itertools.chain(*seats[at : at + crowd]))
                known = before.get(crew[0])
                home = min(free, key=lambda n: (busy_s[n], n != known, n))
                free.remove(home)
                for seat in crew:
                    homes[seat] = home
                    own_s = work.get(seat[0], UNKNOWN_S)
                    busy_s[home] += own_s / replicas[seat[0]]
    return homes


def _keep_homes(
    seats: Sequence[tuple[Seat, ...]], processes: int, before: Homes
) -> dict[Seat, int]:
    """Return the homes of a stage's seats: the old ones, as far as there is room."""
    room = dict.fromkeys(range(processes), -(-len(seats) // processes))
    found: dict[Seat, int] = {}
    moving = []
    for together in seats:
        home = before.get(together[0])
        if home is None or not room.get(home):
            moving.append(together)
            continue
        room[home] -= 1
        found |= dict.fromkeys(together, home)
    for together in moving:
        home = max(room, key=lambda process: (room[process], -process))
        room[home] -= 1
        found |= dict.fromkeys(together, home)
    return found


class HomeMemory:
    """The process that has the states of each seat, over all runs so far.

    A run of some of the stages, such as at the end of the stream, leaves the seats of all
    others where they are.

    >>> memory, seats = HomeMemory(), [[((0, n, 0),) for n in range(2)], [((1, 0, 0),)]]
    >>> memory.find_homes(seats, ["a", "b"], {0: 1.0, 1: 3.0})
    {(0, 0, 0): 0, (0, 1, 0): 1, (1, 0, 0): 0}
    >>> memory.find_homes(seats[1:], ["a", "b"], {})
    {(1, 0, 0): 0}
    >>> memory.find_homes(seats, ["b"], {})
    {(0, 1, 0): 0, (0, 0, 0): 0, (1, 0, 0): 0}
    >>> memory.find_homes(seats, ["c", "b"], {})
    {(0, 0, 0): 1, (0, 1, 0): 0, (1, 0, 0): 1}
    """

    def __init__(self) -> None:
        self._homes: Homes = {}
        self._hosts: Sequence[str] = ()  # of the processes, by number
        self._stages: set[tuple[tuple[Seat, ...], ...]] = set()  # that have run

    def find_homes(
        self,
        stages: Sequence[Sequence[tuple[Seat, ...]]],
        hosts: Sequence[str],
        work: Work,
    ) -> Homes:
        """Assign seats to processes on these hosts, and remember where they are."""
        before = translate_homes(self._homes, self._hosts, hosts)
        shapes = {tuple(seats) for seats in stages}
        keep = shapes <= self._stages
        homes = find_homes(stages, len(hosts), work, before, keep=keep)
        if not keep:  # the layout has changed: forget the seats that it lacks
            self._stages = shapes
        self._homes, self._hosts = {**before, **homes}, tuple(hosts)
        return homes


def translate_homes(homes: Homes, hosts: Sequence[str], now: Sequence[str]) -> Homes:
    """Return homes by the numbers that processes on the same hosts have now.

    Homes on hosts that have no process any more are left out.

    >>> translate_homes({(0, 0, 0): 0, (0, 1, 0): 1}, ["a", "b"], ["b", "c"])
    {(0, 1, 0): 0}
    """
    free: dict[str, list[int]] = {}
    for number, host in enumerate(now):
        free.setdefault(host, []).append(number)
    number_of = {}
    for number, host in enumerate(hosts):
        if host in free:  # a host's last process may have to do for several
            number_of[number] = free[host].pop(0) if free[host][1:] else free[host][0]
    return {s: number_of[home] for s, home in homes.items() if home in number_of}
