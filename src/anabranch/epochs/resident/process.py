"""A resident task: a process that stays for many epochs and is fed through connections.

The driver tells a process what its places run in a try of an epoch, a *turn*, stage by
stage. The processes hand each other rows at the end of each stage; a process begins a
stage when all others have told that they are done with the stages before. What is for
the driver goes there. So an epoch takes no Spark job, and nobody asks anybody between
two stages.

Several turns may be on their way: a process runs the oldest one that it has something to
do for. Each stage of a turn follows the same stage of the turn before, so that every
unit meets the epochs in order.
"""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol, TypeAlias

from anabranch.epochs.division import UNKNOWN_S, Work
from anabranch.epochs.layout import SparkLayout
from anabranch.epochs.resident.link import Address, Link, Listener, connect
from anabranch.epochs.shuffle import Row, TaskRows
from anabranch.epochs.task import EpochTask, Place, Share, TaskStage

Seat: TypeAlias = tuple[int, int]  # a unit, by its number, and one of its replicas
Homes: TypeAlias = Mapping[Seat, int]  # the process of each
DRIVER = -1  # instead of a process


@dataclass(frozen=True)
class Hello:
    """The first word of a process to the driver: which task it is, and where it listens."""

    task: int
    address: Address


@dataclass(frozen=True)
class Peers:
    """Where all processes listen, in the order of their numbers."""

    addresses: tuple[Address, ...]


@dataclass(frozen=True)
class Ready:
    """A process has reached all others."""


@dataclass(frozen=True)
class Shared:
    """Data that turns refer to by a number; its blob has it. Only the last few are kept."""

    number: int


@dataclass(frozen=True)
class Begin:
    """A turn begins; those before `oldest` are over.

    Its blob tells what this process does, which refers to `shared` data.
    """

    turn: int
    oldest: int
    shared: tuple[int, ...] = ()


@dataclass(frozen=True)
class StageRows:
    """A process is done with a stage; the blobs are rows for places of the receiver."""

    turn: int
    stage: int
    sender: int
    heads: tuple[tuple[int, int, int], ...]  # unit, channel and entry of each row


@dataclass(frozen=True)
class End:
    """There are no more turns."""


@dataclass(frozen=True)
class TurnWork:
    """What one process does in a turn: a task for each stage, and its shares of them."""

    tasks: tuple[EpochTask, ...]
    homes: Homes
    shares: Mapping[Seat, Share]


class Units(Protocol):
    """What runs the units of a job in this process."""

    layout: SparkLayout

    def run_places(
        self, task: EpochTask, places: Sequence[Place], rows: TaskRows
    ) -> None:
        """Run units, one after the other, on what is for them among the rows."""


SHARED_KEPT = 8

Load: TypeAlias = Callable[[memoryview, Sequence["SharedValue"]], TurnWork]


class SharedValue:
    """Data that several turns refer to, loaded when it is first needed."""

    def __init__(self, data: memoryview) -> None:
        self._data = data

    @cached_property
    def value(self) -> Any:
        """The data."""
        return pickle.loads(self._data)  # noqa: S301 - it is the driver's


class ResidentProcess:
    """One of the processes; `serve` returns when the driver has no more for it."""

    def __init__(
        self, units: Units, driver: Link, task: int, secret: bytes, load: Load
    ) -> None:
        self._units = units
        self._driver = driver
        self._number = task
        self._secret = secret
        self._load = load
        self._links: dict[int, Link] = {DRIVER: driver}
        self._met: list[Link] = []
        self._news = threading.Condition()
        self._peers: Peers | None = None
        self._turns: dict[int, _Turn] = {}
        self._oldest = 0
        self._over = False
        self._shared: dict[int, SharedValue] = {}

    def serve(self) -> None:
        """Run what the driver says, until it says no more or is gone."""
        listener = Listener(self._driver.own_host, self._secret, self._meet)
        try:
            self._read(self._driver, self._end)
            address = self._driver.own_host, listener.port
            self._driver.send(Hello(self._number, address))
            self._reach_peers()
            while (ready := self._await_work()) is not None:
                self._run_stage(ready)
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
        """Have a thread read all that comes, so that no sender waits for work to end."""

        def read() -> None:
            for data, blobs in link.frames():
                with self._news:
                    self._take(data, blobs)
                    self._news.notify_all()
            at_end()

        threading.Thread(target=read, name="read", daemon=True).start()

    def _end(self) -> None:
        with self._news:
            self._over = True
            self._news.notify_all()

    def _take(self, data: Any, blobs: list[memoryview]) -> None:
        match data:
            case StageRows(turn=turn) if turn >= self._oldest:
                self._turn(turn).arrive(data, blobs)
            case Begin(turn, oldest, shared):
                self._oldest = oldest
                for number in [n for n in self._turns if n < oldest]:
                    del self._turns[number]
                given = [self._shared[number] for number in shared]
                self._turn(turn).told = partial(self._load, blobs[0], given)
            case Shared(number):
                self._shared[number] = SharedValue(blobs[0])
                for one in sorted(self._shared)[:-SHARED_KEPT]:
                    del self._shared[one]
            case Peers():
                self._peers = data
            case End():
                self._over = True

    def _turn(self, number: int) -> _Turn:
        if number not in self._turns:
            self._turns[number] = _Turn(number)
        return self._turns[number]

    def _reach_peers(self) -> None:
        with self._news:
            self._news.wait_for(lambda: self._over or self._peers is not None)
            peers = self._peers
        if peers is None:
            return
        for number, address in enumerate(peers.addresses):
            if number != self._number:
                self._links[number] = connect(address, self._secret)
        self._driver.send(Ready())

    def _await_work(self) -> _Turn | None:
        """Return the oldest turn that has a stage to run here; None at the end."""
        with self._news:
            while not self._over:
                earlier: set[int] = set()  # stages that turns before have yet to run
                for _, turn in sorted(self._turns.items()):
                    if turn.work is None and turn.told is not None:
                        turn.open(turn.told(), self._number, self._units.layout)
                    if turn.is_ready and turn.stages[0] not in earlier:
                        return turn
                    earlier.update(turn.stages)
                self._news.wait()
        return None

    def _run_stage(self, turn: _Turn) -> None:
        assert turn.work is not None  # noqa: S101 - it is ready
        stage = turn.stages.pop(0)
        task = replace(turn.work.tasks[stage], shares=turn.work.shares)
        rows: list[Row] = []
        for places in turn.places[stage]:
            given = TaskRows()
            for unit, channel in places:
                for row in turn.arrived.pop((unit.number, channel), ()):
                    given.add(*row)
            self._units.run_places(task, places, given)
            rows += given.list_rows()
        self._hand_out(turn, stage, rows)

    def _hand_out(self, turn: _Turn, stage: int, rows: Iterable[Row]) -> None:
        """Send rows where they are for; everybody who waits for this stage hears of it."""
        assert turn.work is not None  # noqa: S101 - as above
        homes, number = turn.work.homes, self._number
        sent: dict[int, list[Row]] = {n: [] for n in (DRIVER, *turn.waiting_for(stage))}
        with self._news:
            for row in rows:
                home = homes.get(row[:2], DRIVER)
                if home == number:
                    turn.arrived.setdefault(row[:2], []).append(row)
                else:
                    sent.setdefault(home, []).append(row)
            turn.done.add((stage, number))
        for home, some in sent.items():
            heads = tuple(row[:3] for row in some)
            message = StageRows(turn.number, stage, number, heads)
            self._links[home].send(message, [row[3] for row in some])


@dataclass
class _Turn:
    """A turn in this process; all but what runs is changed under its lock."""

    number: int
    told: Callable[[], TurnWork] | None = None
    work: TurnWork | None = None
    stages: list[int] = field(default_factory=list)  # that have still to run here
    places: dict[int, list[tuple[Place, ...]]] = field(default_factory=dict)
    arrived: dict[Seat, list[Row]] = field(default_factory=dict)
    done: set[tuple[int, int]] = field(default_factory=set)  # stage and process
    _all: list[frozenset[int]] = field(default_factory=list)  # the processes of stages
    _number: int = 0

    def open(self, work: TurnWork, number: int, layout: SparkLayout) -> None:
        """Find out what this process does."""
        self.work, self._number = work, number
        for stage, task in enumerate(work.tasks):
            found = task.stage.places(layout, task.stage.levels)
            at = [work.homes[places[0][0].number, places[0][1]] for places in found]
            self._all.append(frozenset(at))
            if number in at:
                self.stages.append(stage)
                self.places[stage] = [
                    places
                    for places, home in zip(found, at, strict=True)
                    if home == number
                ]

    @property
    def is_ready(self) -> bool:
        """Whether the next stage here has all that it needs."""
        if not self.stages:
            return False
        return all(
            (stage, process) in self.done
            for stage in range(self.stages[0])
            for process in self._all[stage]
        )

    def arrive(self, message: StageRows, blobs: Sequence[memoryview]) -> None:
        """Take rows from another process, which is done with a stage."""
        for head, blob in zip(message.heads, blobs, strict=True):
            self.arrived.setdefault(head[:2], []).append((*head, blob))
        self.done.add((message.stage, message.sender))

    def waiting_for(self, stage: int) -> set[int]:
        """Return the other processes that have stages behind this one."""
        later = frozenset().union(*self._all[stage + 1 :])
        return set(later) - {self._number}


def find_homes(
    layout: SparkLayout, stages: Iterable[TaskStage], processes: int, work: Work
) -> Homes:
    """Return which process runs what, by the `work` of units.

    The places of a stage are spread over the processes; places of different stages go
    to different ones as well, so that turns that follow each other keep all busy.
    """
    homes: dict[Seat, int] = {}
    busy_s = [0.0] * processes
    for stage in stages:
        free: list[int] = []
        for places in stage.places(layout, stage.levels):
            if not free:
                free = list(range(processes))
            home = min(free, key=lambda process: (busy_s[process], process))
            free.remove(home)
            for unit, channel in places:
                homes[unit.number, channel] = home
                own_s = work.get(unit.number, UNKNOWN_S)
                busy_s[home] += own_s / stage.channels[unit.number]
    return homes
