"""Wait for what another thread does, without guessing how long it takes."""

import time
from collections.abc import Callable

import anabranch as ab

PATIENCE_S = 120


def until(job: ab.Job, reached: Callable[[], bool]) -> None:
    """Wait until something is so; an error of the job is raised instead."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline_s, "it never came"
        assert not job.wait(timeout=0.01) or reached(), "the job ended before"
