"""Describe a program as text: its plan, the explanation of it, and what it gives.

Only the public names of the package are used here, so that moving modules changes
nothing. Outputs are long: they are kept as a number of items and a hash.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import anabranch as ab

PLANNED_FOR = ("spark", "local")
RUN_ON = ("sequential", "local")

Build = Callable[[], Sequence[ab.Result]]


def describe(
    build: Build, on_error: Literal["stop", "skip"] = "stop", *, exact: bool = True
) -> str:
    """Return the text of a program; `build` gives fresh sinks each time.

    It runs in the working directory; what it writes below `out` is removed. Where it is
    not `exact`, the numbers in its outputs are rounded: libraries for linear algebra
    give other last digits on other processors.
    """
    shown = repr if exact else rounded
    parts: list[str] = []
    sinks = build()
    for on in PLANNED_FOR:
        made = ab.compile(*sinks, on=on)
        parts += [f"== explain on {on}", made.explain().rstrip()]
        parts += [f"== plan on {on}", *plan_lines(made.to_dict())]
    for on in RUN_ON:
        sinks, before = build(), set(Path("out").rglob("*.csv"))
        ab.run(*sinks, on=on, on_error=on_error)
        written = sorted(set(Path("out").rglob("*.csv")) - before)
        parts += [f"== output on {on}", *item_lines(sinks, shown), *row_lines(written)]
        for folder in {path.parent for path in written}:
            shutil.rmtree(folder)
    return "\n".join(parts) + "\n"


def plan_lines(plan: dict[str, Any]) -> list[str]:
    """Return a plan with one line for each of its entries.

    >>> plan_lines({"elements": [{"operators": ["a"]}], "regions": []})
    ['elements: {"operators": ["a"]}']
    """
    return [
        f"{section}: {json.dumps(entry, sort_keys=True)}"
        for section, entries in plan.items()
        for entry in entries
    ]


def item_lines(
    sinks: Sequence[ab.Result], shown: Callable[[Any], str] = repr
) -> list[str]:
    """Return a line for each sink that collects items."""
    lists = [(n, sink.items) for n, sink in enumerate(sinks) if hasattr(sink, "items")]
    return [
        f"sink {number}: {len(items)} items, {hash_of(map(shown, items))}"
        for number, items in lists
    ]


def rounded(item: Any) -> str:
    """Return an item as text, its numbers with six digits.

    >>> rounded((1, 0.1 + 0.2, "x"))
    "(1, 0.3, 'x')"
    """
    return re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda m: f"{float(m[0]):.6g}", repr(item))


def row_lines(paths: Iterable[Path]) -> list[str]:
    """Return a line for each directory that has CSV files, which are parts in order."""
    rows: dict[Path, list[str]] = {}
    for path in paths:
        _, *body = path.read_text(encoding="utf-8").splitlines()
        rows.setdefault(path.parent, []).extend(body)
    return [
        f"{folder.as_posix()}: {len(body)} rows, {hash_of(body)}"
        for folder, body in rows.items()
    ]


def hash_of(lines: Iterable[str]) -> str:
    """Return a hash of some lines of text."""
    return sha256("\n".join(lines).encode()).hexdigest()[:16]
