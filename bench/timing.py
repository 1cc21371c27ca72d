"""What all benchmarks share: sides measured in turn, and ratios with their spread."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any


def timed(run: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    """Return how long a call takes, in seconds."""
    started_s = clock()
    run()
    return clock() - started_s


def interleaved(
    sides: Mapping[str, Callable[[], Any]],
    repetitions: int = 7,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, list[float]]:
    """Time all sides in turn, so that whatever else the machine does hits them alike.

    One run of each goes before, unmeasured.
    """
    for run in sides.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repetitions):
        for name, run in sides.items():
            times[name].append(timed(run, clock))
    return times


def ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, float]:
    """Return the ratio of the medians, and the spread of the pairwise ratios."""
    pairs = sorted(a / b for a, b in zip(over, under, strict=True))
    return {
        "ratio": round(statistics.median(over) / statistics.median(under), 3),
        "low": round(pairs[0], 3),
        "high": round(pairs[-1], 3),
    }


def report(name: str, results: Mapping[str, Any], path: str | None = None) -> None:
    """Print results, and write them to a file if one is named."""
    for key, value in results.items():
        print(f"{name}: {key}: {value}")
    if path is not None:
        Path(path).write_text(json.dumps(results, indent=2), encoding="utf-8")
