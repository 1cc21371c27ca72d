"""Keep a measurement on some of the cores."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process, and the threads that it starts, on so many cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(all_cores)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)
