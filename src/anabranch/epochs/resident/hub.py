"""The driver's side of resident tasks: it feeds them runs and collects what they answer."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.epochs.resident.link import Address, Link, Listener, LostError
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
    """What has come back of a run; `awaited` are the stages of processes that have not."""

    awaited: set[tuple[int, int]]
    rows: list[Row] = field(default_factory=list)


class Hub:
    """Meets so many processes; used by the thread that runs epochs."""

    def __init__(self, host: str, count: int) -> None:
        self.secret = secrets.token_bytes(32)
        self.count = count
        self._news = threading.Condition()
        self._links: dict[int, Link] = {}
        self._idle: list[Link] = []  # of processes that are there a second time
        self._addresses: dict[int, Address] = {}
        self._reached: set[int] = set()
        self._lost = False
        self._runs: dict[int, _Answers] = {}
        self._listener = Listener(host, self.secret, self._meet)

    @property
    def port(self) -> int:
        """Where processes find it."""
        return self._listener.port

    @property
    def is_lost(self) -> bool:
        """Whether a process is gone."""
        return self._lost

    def wait_for_all(self, seconds: float) -> bool:
        """Wait until every process has reached every other; tell whether they have."""
        with self._news:
            self._news.wait_for(
                lambda: self._lost or len(self._reached) == self.count, seconds
            )
            return not self._lost and len(self._reached) == self.count

    def give_up(self) -> None:
        """Take it that no more processes come, and those there are are lost."""
        with self._news:
            self._lost = True
            self._news.notify_all()

    def share(self, number: int, data: bytes) -> None:
        """Give all processes data that runs refer to."""
        for link in self._links.values():
            self._send(link, Shared(number), [data])

    def expect(self, run: int, oldest: int, awaited: Iterable[tuple[int, int]]) -> None:
        """Expect answers of a run, from processes about stages; forget older runs."""
        with self._news:
            kept = {n: one for n, one in self._runs.items() if n >= oldest}
            self._runs = {**kept, run: _Answers(set(awaited))}

    def begin(self, process: int, message: Begin, told: bytes) -> None:
        """Tell a process what it does in a run."""
        self._send(self._links[process], message, [told])

    def is_done(self, run: int) -> bool:
        """Tell whether a run is at its end, or will never be."""
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
        """Let the processes go."""
        self._listener.close()
        for link in (*self._links.values(), *self._idle):
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
            if link in self._links.values():
                self.give_up()

    def _take(self, link: Link, data: Any, blobs: list[memoryview]) -> None:
        match data:
            case Hello(task) if task in self._links:
                self._idle.append(link)  # a second attempt; the first one counts
            case Hello(task, address):
                self._links[task] = link
                self._addresses[task] = address
                if len(self._links) == self.count:
                    known = tuple(self._addresses[n] for n in range(self.count))
                    for one in self._links.values():
                        one.send(Peers(known))
            case Ready(task):
                self._reached.add(task)
            case StageRows(run, stage, sender, heads) if run in self._runs:
                answers = self._runs[run]
                answers.rows += [
                    (*head, blob) for head, blob in zip(heads, blobs, strict=True)
                ]
                answers.awaited.discard((stage, sender))
