"""What each epoch took, for whoever waits for the next ones."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.engines.spark.task import Report

KEPT = 16  # epochs that a slow reader can still get


class Reporting(Protocol):
    """What runs epochs."""

    profiling: bool

    @property
    def reports(self) -> Sequence[Report]:
        """What the tasks of the last epoch have to say."""


@dataclass(frozen=True)
class Seen:
    """An epoch that has run; `started` is how often one had begun until then."""

    started: int
    seconds: float
    profiled: bool
    reports: Sequence[Report]

    @property
    def items(self) -> int:
        """How many items all sources gave."""
        return sum(self.read().values())

    @property
    def speed(self) -> float:
        """How many of them a second."""
        return self.items / self.seconds

    def read(self) -> Mapping[str, int]:
        """Return how many items each source gave."""
        counts: dict[str, int] = {}
        for report in self.reports:
            for source, count in report.read.items():
                counts[source] = counts.get(source, 0) + count
        return counts


class EpochLog:
    """Written by the thread that runs epochs, waited for by the controller."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.items: list[int] = []
        self.started = 0
        self.profiling = False  # asks for a profile of the epochs that begin
        self._news = threading.Condition()
        self._recent: deque[Seen] = deque(maxlen=KEPT)

    def begin(self) -> None:
        """Note that an epoch begins; what it is to be like is looked up only then.

        So whoever changes that and then waits for epochs that begin gets none of before.
        """
        with self._news:
            self.started += 1

    @contextlib.contextmanager
    def epoch(self, epochs: Reporting, *, usual: bool = True) -> Iterator[None]:
        """Note what runs in the block: the epoch that began last.

        One that is not of the `usual` size is nothing to compare others with.
        """
        began_s = time.monotonic()
        yield
        seconds = time.monotonic() - began_s
        seen = Seen(self.started, seconds, epochs.profiling, epochs.reports)
        self.seconds.append(seconds)
        self.items.append(seen.items)
        if not usual:
            return
        with self._news:
            self._recent.append(seen)
            self._news.notify_all()

    def next(
        self, count: int, over: threading.Event, after: int | None = None
    ) -> list[Seen] | None:
        """Wait for so many epochs; None if it is over before.

        Those that begin from now on, or after a number of `started`.
        """
        with self._news:
            since = self.started if after is None else after
            while True:
                found = [seen for seen in self._recent if seen.started > since]
                if len(found) >= count:
                    return found[:count]
                if over.is_set():
                    return None
                self._news.wait(0.1)  # nobody tells when it is over
