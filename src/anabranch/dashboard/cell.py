"""A job in the cell of a notebook: status, throughput and latency while it runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from html import escape
from typing import Any, Protocol

from anabranch.metrics.run_record import JobSnapshot

PERIOD_S = 0.5  # between two updates; a notebook queues every update until it is shown
_COLOURS = {"running": "#0f766e", "finished": "#15803d", "failed": "#b91c1c"}


class Display(Protocol):
    """The handle of a displayed output in a notebook cell."""

    def update(self, shown: Any) -> None:
        """Replace the displayed output."""


class Shown:
    """A piece of HTML for a notebook.

    >>> Shown("<b>1</b>")._repr_html_()
    '<b>1</b>'
    """

    def __init__(self, html: str) -> None:
        self._html = html

    def _repr_html_(self) -> str:
        return self._html


class Cell:
    """Shows the progress of a job in one notebook cell."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._shown_s = 0.0

    def show(self, look: JobSnapshot) -> None:
        """Show the present state of a job, at most twice a second while it runs."""
        now_s = time.monotonic()
        if look.status == "running" and now_s - self._shown_s < PERIOD_S:
            return
        self._shown_s = now_s
        self._display.update(Shown(describe_job(look)))


def find_notebook() -> Any | None:
    """Return the shell of the notebook in which this process runs, or None."""
    loaded = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    return shell if hasattr(shell, "kernel") else None


def open_cell() -> Cell | None:
    """Return an output for a job in the current cell, or None outside notebooks."""
    if find_notebook() is None:
        return None
    display = sys.modules["IPython"].display.display
    return Cell(display(Shown("starting ..."), display_id=True))


def describe_job(look: JobSnapshot) -> str:
    """Return a job as a small piece of HTML.

    >>> from anabranch.metrics.job_metrics import Metrics
    >>> metrics = Metrics("local", "running", 2.0, {"read_csv": 10}, {"to_list": 4}, 5.0)
    >>> "10 items from read_csv" in describe_job(JobSnapshot("running", metrics))
    True
    """
    colour = _COLOURS.get(look.status, "#52525b")
    head = (
        f'<b style="color:{colour}">{escape(look.status)}</b> on {look.metrics.engine}, '
        f"{look.metrics.elapsed_s:.1f} s"
    )
    rows = "".join(
        f'<tr><td style="text-align:left">{escape(name)}</td>'
        f'<td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in _rows(look)
    )
    return f"<div>{head}<table>{rows}</table></div>"


def _rows(look: JobSnapshot) -> Iterator[tuple[str, str]]:
    metrics = look.metrics
    if look.error is not None:
        yield "error", look.error
    counts = [f"{count:,} items from {name}" for name, count in metrics.read.items()]
    yield "read", "; ".join(counts) or "nothing yet"
    counts = [f"{count:,} items to {name}" for name, count in metrics.delivered.items()]
    yield "delivered", "; ".join(counts) or "nothing yet"
    yield "throughput", f"{metrics.items_per_s:,.0f} items/s"
    if metrics.recent_latency.items:
        p50_ms, p99_ms = metrics.recent_latency.p50_ms, metrics.recent_latency.p99_ms
        yield "latency, last minute", f"p50 {p50_ms:,.0f} ms, p99 {p99_ms:,.0f} ms"
    if metrics.backlog is not None:
        yield "backlog", f"{metrics.backlog:,} items"
    if metrics.degrees:
        degrees = metrics.degrees.items()
        yield "replicas", ", ".join(f"{name}: {count}" for name, count in degrees)
    if look.changes:
        last = look.changes[-1]
        yield "last adaptation", f"{last['what']} ({last['why']})"
