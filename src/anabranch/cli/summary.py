"""What a job did, when it is over: what was read, what was written, a look at it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from anabranch.cli.progress import counted
from anabranch.graph.graph import Op
from anabranch.graph.sinks import ToList, WriteFiles
from anabranch.job import Job
from anabranch.plan.plan import Plan

_ENDS = {
    "finished": "finished",
    "stopped": "stopped early; what had been finished by then is kept",
    "failed": "failed",
}


def summarise(job: Job, on: str, show: int) -> Iterator[str]:
    """Yield the lines of the summary, with `show` items at both ends of each output."""
    metrics = job.metrics()
    read: dict[str, int] = metrics["read"]
    delivered: dict[str, int] = metrics["delivered"]
    ended = _ENDS.get(job.status, job.status)
    facts = [f"on {on}", f"{metrics['elapsed_s']:.1f} s"]
    if "epochs" in metrics:
        facts.append(counted(metrics["epochs"], "epoch"))
    if on != "sequential":
        facts.append(_width(job.plan))
    yield f"{ended}: {', '.join(facts)}"
    for name, count in read.items():
        yield f"  read {counted(count, 'item')} from {name}"
    for name, count in delivered.items():
        op = job.compilation.graph[name]
        yield f"  {_place(op)}: {counted(count, 'item')}"
        yield from (f"    {line}" for line in _look(op, show))


def _width(plan: Plan) -> str:
    inside = sum(len(region.operators) for region in plan.regions)
    return f"{inside} of {counted(len(plan.operators), 'operator')} parallel"


def _place(op: Op) -> str:
    if isinstance(op.kind, WriteFiles):
        return f"wrote {op.kind.path}"
    return f"{op.name}"


def _look(op: Op, show: int) -> Iterator[str]:
    """Yield the first and the last items of an output that can be read again."""
    if show < 1:
        return
    items: Iterable[Any]
    match op.kind:
        case ToList(items=items):
            yield from _ends(map(repr, items), show, show)
        case WriteFiles(format="csv" | "jsonl" as form, path=path):
            head = show + 1 if form == "csv" else show
            if Path(path).exists():
                yield from _ends(_rows(Path(path), form), head, show)


def _rows(path: Path, form: str) -> Iterator[str]:
    """Yield the rows of a text output, part after part, the header only once."""
    parts = sorted(path.glob(f"part-*.{form}")) if path.is_dir() else [path]
    header = form == "csv"
    for number, part in enumerate(parts):
        with part.open(encoding="utf-8", newline="") as file:
            lines = (line.rstrip("\r\n") for line in file)
            if header:
                first = next(lines, None)
                if number == 0 and first is not None:
                    yield first
            yield from lines


def _ends(rows: Iterator[str], head: int, tail: int) -> Iterator[str]:
    """Yield some rows of both ends, and how many lie between.

    >>> list(_ends(iter("abcdefg"), 2, 2))
    ['a', 'b', '... 3 more', 'f', 'g']
    >>> list(_ends(iter("abc"), 2, 2))
    ['a', 'b', 'c']
    """
    yield from itertools.islice(rows, head)
    kept: deque[str] = deque(maxlen=tail)
    passed = 0
    for row in rows:
        passed += len(kept) == tail
        kept.append(row)
    if passed:
        yield f"... {passed:,} more"
    yield from kept
