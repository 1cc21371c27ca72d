"""What the benchmarks of the local engine share: timing, and ratios with their spread."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from anabranch.engines.engine import Options
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.engine import LocalEngine
from anabranch.graph.graph import Input
from anabranch.graph.stream import Sink
from anabranch.job import compile_sinks
from anabranch.plan.plan import Plan


def timed(run: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    """Return how long a call takes, in seconds."""
    started_s = clock()
    run()
    return clock() - started_s


def running(
    sink: Sink,
    *,
    degree: int = 1,
    ports: Sequence[str] = (),
    epoch: int = 10,
    edit: Callable[[Plan], Plan] = lambda plan: plan,
) -> Callable[[], Any]:
    """Return a call that runs a compiled program to its end on the local engine."""
    compilation = compile_sinks(sink, on="local")
    plan = edit(compilation.plan)
    configuration = Configuration(
        ports=frozenset(Input(name) for name in ports),
        degrees={region.name: degree for region in plan.regions},
        epoch=epoch,
    )

    def run() -> Any:
        started = LocalEngine(configuration).start(compilation.graph, plan, Options())
        started.wait()
        return started

    return run


def interleaved(
    sides: Mapping[str, Callable[[], Any]],
    repetitions: int = 7,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, list[float]]:
    """Time all sides in turn, so that whatever else the machine does hits them alike."""
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


def report(name: str, results: Mapping[str, Any]) -> None:
    """Print results; write them to the file that the first argument names, if any."""
    for key, value in results.items():
        print(f"{name}: {key}: {value}")
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(results, indent=2), encoding="utf-8")
