"""The driver's side of resident tasks: it feeds them runs and collects the results."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.epochs.resident.link import Link, Listener, LostError
from anabranch.epochs.resident.process import (
    Begin,
    Goodbye,
    Hello,
    Peers,
    Ready,
    Shared,
    StageRows,
)
from anabranch.epochs.shuffle import Row


@dataclass
class _Answers:
    """The results of a run; `awaited` are the stages of processes still missing."""

    awaited: set[tuple[int, int]]
    rows: list[Row] = field(default_factory=list)


def number_processes(homes: Sequence[str], before: Sequence[str]) -> list[int]:
    """Return the number of each process, by its home.

    It is one that a process of this home had `before`, so that local states are found
    again; a new process gets one of the others.

    >>> number_processes(["c", "new", "a"], before=["a", "b", "c"])
    [2, 1, 0]
    """
    free = dict.fromkeys(range(len(homes)))
    waiting: dict[str, list[int]] = {}
    for number in reversed(free):
        waiting.setdefault(before[number] if number < len(before) else "", []).append(
            number
        )
    found = {}
    for task, home in enumerate(homes):
        if home and waiting.get(home):
            found[task] = waiting[home].pop()
            del free[found[task]]
    others = iter(free)
    return [
        found[task] if task in found else next(others) for task in range(len(homes))
    ]


class Hub:
    """Connects `count` processes; used by the thread that runs epochs.

    They keep the numbers that their homes had `before`.
    """

    def __init__(self, host: str, count: int, before: Sequence[str] = ()) -> None:
        self.secret = secrets.token_bytes(32)
        self.count = count
        self._news = threading.Condition()
        self._before = before
        self._met: dict[int, tuple[Hello, Link]] = {}  # by task
        self._links: dict[int, Link] = {}
        self._idle: list[Link] = []  # of processes that appear a second time
        self.homes: tuple[str, ...] = ()  # of processes, once all are connected
        self._reached: set[int] = set()
        self._lost = False
        self._runs: dict[int, _Answers] = {}
        self._listener = Listener(host, self.secret, self._meet)

    @property
    def port(self) -> int:
        """The port to connect to."""
        return self._listener.port

    @property
    def is_lost(self) -> bool:
        """Whether a process is gone."""
        return self._lost

    def wait_for_all(self, seconds: float) -> bool:
        """Wait until every process is connected to every other; tell whether they
        are.
        """
        with self._news:
            self._news.wait_for(
                lambda: self._lost or len(self._reached) == self.count, seconds
            )
            return not self._lost and len(self._reached) == self.count

    def give_up(self) -> None:
        """Stop waiting for processes, and treat the present ones as lost."""
        with self._news:
            self._lost = True
            self._news.notify_all()

    def share(self, number: int, data: bytes) -> None:
        """Send all processes data that runs refer to."""
        for link in self._links.values():
            self._send(link, Shared(number), [data])

    def expect(self, run: int, oldest: int, awaited: Iterable[tuple[int, int]]) -> None:
        """Expect results of a run, by process and stage; forget older runs."""
        with self._news:
            kept = {n: one for n, one in self._runs.items() if n >= oldest}
            self._runs = {**kept, run: _Answers(set(awaited))}

    def begin(self, process: int, message: Begin, told: Sequence[bytes]) -> None:
        """Tell a process what to do in a run."""
        self._send(self._links[process], message, told)

    def is_done(self, run: int) -> bool:
        """Tell whether a run has ended, or never will."""
        with self._news:
            answers = self._runs.get(run)
            return self._lost or answers is None or not answers.awaited

    def collect(self, run: int) -> list[Row]:
        """Wait for the end of a run; return the rows for the driver."""
        with self._news:
            answers = self._runs[run]
            self._news.wait_for(lambda: self._lost or not answers.awaited)
            if answers.awaited:
                msg = f"a resident task was lost in run {run}"
                raise LostError(msg)
            del self._runs[run]
            return answers.rows

    def close(self) -> None:
        """Release the processes."""
        self._listener.close()
        for link in (*(link for _, link in self._met.values()), *self._idle):
            try:
                link.send(Goodbye())
            except OSError:
                link.close()

    def _send(self, link: Link, message: Any, blobs: Sequence[Any]) -> None:
        try:
            link.send(message, blobs)
        except OSError as error:
            self.give_up()
            msg = "a resident task was lost"
            raise LostError(msg) from error

    def _meet(self, link: Link) -> None:
        threading.Thread(
            target=self._read, args=(link,), name="resident", daemon=True
        ).start()

    def _read(self, link: Link) -> None:
        try:
            for data, blobs in link.frames():
                with self._news:
                    self._take(link, data, blobs)
                    self._news.notify_all()
        finally:
            link.close()
            if any(link is met for _, met in list(self._met.values())):
                self.give_up()

    def _take(self, link: Link, data: Any, blobs: list[memoryview]) -> None:
        match data:
            case Hello(task) if task in self._met:
                self._idle.append(link)  # a second attempt; the first one counts
            case Hello(task):
                self._met[task] = data, link
                if len(self._met) == self.count:
                    self._introduce()
            case Ready(task):
                self._reached.add(task)
            case StageRows(run, stage, sender, heads) if run in self._runs:
                answers = self._runs[run]
                answers.rows += [
                    (*head, blob) for head, blob in zip(heads, blobs, strict=True)
                ]
                answers.awaited.discard((stage, sender))

    def _introduce(self) -> None:
        """Send all processes their numbers and the addresses of the others."""
        met = [self._met[task] for task in range(self.count)]
        numbers = number_processes([hello.home for hello, _ in met], self._before)
        by_number = [
            met[task]
            for _, task in sorted(zip(numbers, range(self.count), strict=True))
        ]
        self.homes = tuple(hello.home for hello, _ in by_number)
        self._links = {number: link for number, (_, link) in enumerate(by_number)}
        addresses = tuple(hello.address for hello, _ in by_number)
        for number, link in self._links.items():
            link.send(Peers(addresses, number))
