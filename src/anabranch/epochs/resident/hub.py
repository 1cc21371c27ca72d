"""The driver's side of resident tasks: it feeds them turns and collects what they answer."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.epochs.resident.link import Link, Listener
from anabranch.epochs.resident.process import (
    Begin,
    End,
    Hello,
    Peers,
    Ready,
    Shared,
    StageRows,
)
from anabranch.epochs.shuffle import Row


class LostError(ConnectionError):
    """A resident task is gone, and with it what it had of the turns that ran."""


@dataclass
class _Answers:
    """What has come back of a turn; `awaited` are the stages of processes that have not."""

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
        self._hellos: dict[int, Hello] = {}
        self._reached: set[int] = set()
        self._lost = False
        self._turns: dict[int, _Answers] = {}
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
        """Give all processes data that turns refer to."""
        for link in self._links.values():
            self._send(link, Shared(number), [data])

    def expect(self, turn: int, oldest: int, awaited: Iterable[tuple[int, int]]) -> None:
        """Expect answers of a turn, from processes about stages; forget older turns."""
        with self._news:
            kept = {n: one for n, one in self._turns.items() if n >= oldest}
            self._turns = {**kept, turn: _Answers(set(awaited))}

    def begin(self, process: int, message: Begin, told: bytes) -> None:
        """Tell a process what it does in a turn."""
        self._send(self._links[process], message, [told])

    def collect(self, turn: int) -> list[Row]:
        """Wait for the end of a turn; return the rows for the driver."""
        with self._news:
            answers = self._turns[turn]
            self._news.wait_for(lambda: self._lost or not answers.awaited)
            if answers.awaited:
                msg = f"a resident task was lost in turn {turn}"
                raise LostError(msg)
            del self._turns[turn]
            return answers.rows

    def close(self) -> None:
        """Let the processes go."""
        self._listener.close()
        for link in (*self._links.values(), *self._idle):
            try:
                link.send(End())
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
        own: int | None = None
        for data, blobs in link.frames():
            with self._news:
                match data:
                    case Hello(task) if task in self._links:
                        self._idle.append(link)  # a second attempt; the first one counts
                    case Hello(task):
                        own = task
                        self._links[task] = link
                        self._hellos[task] = data
                        if len(self._links) == self.count:
                            self._introduce()
                    case Ready() if own is not None:
                        self._reached.add(own)
                    case StageRows(turn, stage, sender, heads) if turn in self._turns:
                        answers = self._turns[turn]
                        answers.rows += [
                            (*head, blob)
                            for head, blob in zip(heads, blobs, strict=True)
                        ]
                        answers.awaited.discard((stage, sender))
                self._news.notify_all()
        link.close()
        if own is not None:
            self.give_up()

    def _introduce(self) -> None:
        """Tell all processes where the others are."""
        addresses = tuple(self._hellos[n].address for n in range(self.count))
        for link in self._links.values():
            link.send(Peers(addresses))
