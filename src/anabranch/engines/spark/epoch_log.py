"""What each epoch took, for whoever waits for the next ones."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from anabranch.engines.spark.task import Report


class Reporting(Protocol):
    """What runs epochs."""

    profiling: bool

    @property
    def reports(self) -> Sequence[Report]:
        """What the tasks of the last epoch have to say."""


@dataclass(frozen=True)
class Seen:
    """An epoch that has run; `started` is how many epochs had begun with it."""

    started: int
    seconds: float
    profiled: bool
    reports: Sequence[Report]

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
        self.started = 0
        self.profiling = False  # asks for a profile of the epochs that begin
        self._news = threading.Condition()
        self._recent: list[Seen] = []
        self._wanted = False

    @contextlib.contextmanager
    def epoch(self, epochs: Reporting) -> Iterator[None]:
        """Note what runs in the block."""
        self.started += 1
        began_s = time.monotonic()
        yield
        seconds = time.monotonic() - began_s
        self.seconds.append(seconds)
        with self._news:
            if self._wanted:
                seen = Seen(self.started, seconds, epochs.profiling, epochs.reports)
                self._recent.append(seen)
                self._news.notify_all()

    def next(self, count: int, over: threading.Event) -> list[Seen] | None:
        """Wait for so many epochs that begin from now on; None if it is over before."""
        with self._news:
            after, self._wanted = self.started, True
            while True:
                found = [seen for seen in self._recent if seen.started > after]
                if len(found) >= count:
                    break
                if over.is_set():
                    found = []
                    break
                self._news.wait(0.1)  # nobody tells when it is over
            self._wanted = False
            self._recent.clear()
        return found or None
