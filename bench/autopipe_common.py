"""What the benchmarks of auto-pipelining share: the paper's chain, tables and plots.

The operators of the chain do the same work each: they hash a buffer, which releases the
interpreter's lock, as the multiplications of the paper hold none. The cost of a tuple
is the number of bytes that each operator hashes for it; 0 is a call that does nothing.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anabranch as ab
from anabranch.control.simulate import Costs, costs_of
from anabranch.engines.engine import Options
from anabranch.engines.local.configuration import Configuration
from anabranch.engines.local.engine import LocalEngine
from anabranch.engines.local.run import LocalRun
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks

OPERATORS = tuple(f"o{number}" for number in range(1, 9))
PORT_S = 0.5e-6  # assumed, not measured


def hashing(size: int):
    """Return an operator that hashes so many bytes for each tuple."""
    if size == 0:
        return lambda item: item
    block = bytes(size)

    def work(item: Any) -> Any:
        hashlib.sha256(block).digest()
        return item

    return work


def chain(size: int, payload: int = 0) -> Any:
    """Return the chain of 8 operators that cost the same, without end."""
    tuples = itertools.repeat(bytes(payload) if payload else 1)
    stream = ab.generate(lambda: tuples, bytes if payload else int, name="read")
    for name in OPERATORS:
        stream = stream.map(hashing(size), name=name)
    return stream.for_each(_forget, name="out")


def _forget(_: Any) -> None:
    """Do nothing with an item."""


@contextmanager
def started(sink: Any, ports: Sequence[str] = ()) -> Iterator[LocalRun]:
    """Run a program on the local engine, with these threaded ports from the start."""
    made = compile_sinks(sink, on="local")
    configuration = Configuration(ports=frozenset(Input(name) for name in ports))
    run = LocalEngine(configuration).start(made.graph, made.plan, Options())
    try:
        yield run
    finally:
        run.stop()


def read_by(run: LocalRun) -> int:
    """Return how many items it has read."""
    return sum(source.read for source in run.flow.sources)


def rate(run: LocalRun, seconds: float) -> float:
    """Return the items a second in the next seconds."""
    before, began_s = read_by(run), time.perf_counter()
    time.sleep(seconds)
    return (read_by(run) - before) / (time.perf_counter() - began_s)


def measured_costs(sink: Any, seconds: float = 2.0) -> Costs:
    """Return what a program's items cost, as the profiler sees it in one thread."""
    with started(sink) as run:
        rate(run, 0.3)
        before = read_by(run)
        samples = run.actuator().samples(seconds)
        items = read_by(run) - before
    assert samples is not None
    return costs_of(samples, items, PORT_S)


@contextmanager
def on_cores(count: int) -> Iterator[None]:
    """Keep this process on so many cores."""
    all_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(all_cores)[:count]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, all_cores)


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; numbers with two digits behind the point."""
    cells = [
        [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in [head, *rows]
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(title)
    for row in cells:
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))


def keep(name: str, results: Mapping[str, Any], lines: Mapping[str, Any]) -> None:
    """Write results, and a plot of `lines` where matplotlib is there, if asked.

    The first argument of the command names the directory for both.
    """
    if len(sys.argv) < 2:
        return
    directory = Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, indent=2)
    (directory / f"{name}.json").write_text(text, encoding="utf-8")
    with suppress(ImportError):
        import matplotlib as mpl  # noqa: PLC0415 - the plot is a bonus

        mpl.use("Agg")
        from matplotlib import pyplot as plt  # noqa: PLC0415

        figure, axes = plt.subplots()
        for label, (xs, ys) in lines.items():
            axes.plot(xs, ys, marker="o", label=label)
        axes.set_title(name)
        axes.legend()
        figure.savefig(directory / f"{name}.svg")
