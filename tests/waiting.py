"""Wait for what another thread does, without guessing how long it takes."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anabranch as ab

PATIENCE_S = 120


def until(job: ab.Job, reached: Callable[[], object]) -> None:
    """Wait until something is so; an error of the job is raised instead."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline_s, "it never came"
        assert not job.wait(timeout=0.01) or reached(), "the job ended before"


class Tap:
    """A source that flows until it is closed: when a test has seen what it waits for.

    A source of a given length ends before a watch or a controller has looked, if those
    threads happen to get no turn.
    """

    def __init__(self, make: Callable[[int], Any] = int) -> None:
        self.given: list[Any] = []
        self._make = make
        self._closed = threading.Event()

    def read(self) -> Iterator[Any]:
        """Return the items, for `ab.generate`."""
        for n in itertools.count():
            if self._closed.is_set():
                return
            self.given.append(self._make(n))
            yield self.given[-1]

    def run_until(
        self, reached: Callable[[ab.Job], object], sink: Any, **options: Any
    ) -> ab.Job:
        """Run a program until something is so, and then to its end."""
        job = ab.start(sink, **options)
        try:
            until(job, lambda: reached(job))
        finally:
            self._closed.set()
        job.wait()
        return job
