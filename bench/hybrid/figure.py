"""A figure of the paper on hybrid scheduling: sides measured in turn, tables, plots."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, claim, ratio, record, said_of, sized

REPETITIONS = 5


def speeds(
    sides: Mapping[Any, Callable[[], Any]], items: int, repetitions: int = REPETITIONS
) -> dict[Any, list[float]]:
    """Return the items a second of each side, all measured in turn.

    One run of each goes before, unmeasured; all must give the same.
    """
    results = {name: run() for name, run in sides.items()}
    first = next(iter(results.values()))
    for name, result in results.items():
        assert result == first, f"{name} gives something else"
    found: dict[Any, list[float]] = {name: [] for name in sides}
    for _ in range(sized(repetitions, 2)):
        for name, run in sides.items():
            began_s = time.perf_counter()
            run()
            found[name].append(items / (time.perf_counter() - began_s))
    return found


def over(one: Sequence[float], two: Sequence[float]) -> float:
    """Return how many times as fast the first side is, by the medians."""
    return statistics.median(one) / statistics.median(two)


def spread(values: Sequence[float]) -> str:
    """Return the median with the least and greatest, in thousands a second."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle / 1e3:,.0f}k/s ({low / 1e3:,.0f} to {high / 1e3:,.0f})"


class Figure:
    """Collects lines of a figure; prints, records and plots them."""

    def __init__(self, name: str, title: str, axes: tuple[str, str], paper: str):
        self.name = name
        self.title = title
        self.axes = axes
        self.paper = paper
        self.lines: dict[str, dict[Any, float]] = {}
        self.notes: list[str] = []
        self.claims: list[Claim] = []

    def point(self, line: str, x: Any, y: float, note: str = "") -> None:
        """Add a point, and say it."""
        self.lines.setdefault(line, {})[x] = y
        print(f"{self.name}: {line}: {self.axes[0]} {x}: {y:.3g}  {note}", flush=True)

    def note(self, text: str) -> None:
        """Add a sentence, and say it."""
        self.notes.append(text)
        print(f"{self.name}: {text}", flush=True)

    def claim(
        self, what: str, over: Sequence[float], under: Sequence[float], **said: Any
    ) -> None:
        """Add a claim: how many times the first series is the second."""
        made = claim(what, ratio(over, under), **{"paper": self.paper, **said})
        self.claims.append(made)
        print(f"{self.name}: {what}: {said_of(made)}", flush=True)

    def finish(self) -> None:
        """Write the figure, with what the paper says of its own."""
        print(f"{self.name}: the paper: {self.paper}")
        places = list(dict.fromkeys(x for line in self.lines.values() for x in line))
        rows = [[x, *(y.get(x) for y in self.lines.values())] for x in places]
        table = Table(self.title, [self.axes[0], *self.lines], rows)
        record(self.name, self.claims, [table])
        lines = {k: (list(v), list(v.values())) for k, v in self.lines.items()}
        plot(self.name, lines, x=self.axes[0], y=self.axes[1])
