"""One line on the terminal while a job runs: read, rate, latency, backlog, time."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from anabranch.job import Job

REFRESH_S = 0.2
_RECENT = 25  # samples that the rate is taken over: five seconds


def watch(job: Job, console: Console) -> None:
    """Wait for the end of a job, showing how it goes if someone can see it."""
    if not console.is_terminal:
        while not job.wait(REFRESH_S):
            pass
        return
    meter = Meter()
    spinner = Spinner("dots")
    with Live(
        spinner,
        console=console,
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        refresh_per_second=1 / REFRESH_S,
    ):
        while not job.wait(REFRESH_S):
            spinner.update(text=Text(meter.line(job.metrics())))


class Meter:
    """Turns the metrics of a job into a line.

    >>> meter = Meter()
    >>> meter.line({"elapsed_s": 2.0, "read": {"trades": 0}})
    'starting  0:02'
    >>> meter.line({"elapsed_s": 4.0, "read": {"trades": 3000}, "epochs": 1})
    '3,000 items read  1,500 items/s  1 epoch  0:04'
    >>> meter.line({"elapsed_s": 5.0, "read": {"trades": 4500}, "backlog": 900,
    ...     "latency": {"items": 9, "p99_ms": 21.5}})
    '4,500 items read  1,500 items/s  99% within 21.5 ms  900 waiting  0:05'
    """

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=_RECENT)

    def line(self, metrics: Mapping[str, Any]) -> str:
        """Return the line for the latest metrics."""
        elapsed_s = metrics["elapsed_s"]
        read = sum(metrics["read"].values())
        self._samples.append((elapsed_s, read))
        if not read:
            return f"starting  {clock(elapsed_s)}"
        parts = [f"{read:,} items read", f"{self._rate():,.0f} items/s"]
        epochs = metrics.get("epochs")
        if epochs is not None:
            parts.append(counted(epochs, "epoch"))
        latency = metrics.get("latency")
        if latency is not None and latency["items"]:
            parts.append(f"99% within {latency['p99_ms']:g} ms")
        backlog = metrics.get("backlog")
        if backlog is not None:
            parts.append(f"{backlog:,} waiting")
        return "  ".join([*parts, clock(elapsed_s)])

    def _rate(self) -> float:
        """Return the items per second of late: the start-up does not count."""
        (first_s, first), (last_s, last) = self._samples[0], self._samples[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s else 0.0


def clock(seconds: float) -> str:
    """Return a time as on a clock.

    >>> clock(3725.6)
    '1:02:05'
    """
    minutes, second = divmod(int(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "epoch"), counted(2000, "item")
    ('1 epoch', '2,000 items')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
