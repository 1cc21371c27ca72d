"""What all benchmarks share: sides measured in turn, ratios, and how results are kept.

A benchmark ends with one call of `report`. It prints; and where `anabranch bench all`
runs the benchmark, it also writes a record that becomes a part of docs/results.md:

    report("name", results, claims=[Claim("what", 1.7, 1.6, 1.8, at_least=1.8)])

Results are any data that JSON can hold. A claim is one line of the page. Where no
claims are given, each result that `ratio` made becomes one.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

RECORDS = "ANABRANCH_RESULTS"  # the variable that names the directory of records
MOST_OFF = 0.15  # of a model, where it can be compared with a measurement
ROOT = Path(__file__).resolve().parents[2]
KEPT = ("bench/records", "docs/results.md")  # what benchmarks write themselves
QUICK = "ANABRANCH_QUICK"  # set: fewer and smaller runs, to see that all of it works


@dataclass(frozen=True)
class Claim:
    """One line of docs/results.md.

    `paper` is what a paper reports, as its text says it; `at_least` and `at_most` are
    our target; `remark` is an honest word about how it was measured or why it fails.
    `measured` is None for what is claimed nowhere because it was not measured.
    """

    what: str
    measured: float | None
    low: float | None = None
    high: float | None = None
    unit: str = "times"
    paper: str = ""
    at_least: float | None = None
    at_most: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Table:
    """The data of a figure: printed, and shown under the claims on the page."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Any]]


def quick() -> bool:
    """Return whether this run is only to see that everything works."""
    return bool(os.environ.get(QUICK))


def sized(full: Any, small: Any) -> Any:
    """Return the size of a full run, or of a quick one."""
    return small if quick() else full


def timed(run: Callable[[], Any], clock: Callable[[], float] = perf_counter) -> float:
    """Return how long a call takes, in seconds; one that returns a float says so itself."""
    started_s = clock()
    took_s = run()
    return took_s if isinstance(took_s, float) else clock() - started_s


def interleaved(
    sides: Mapping[str, Callable[[], Any]],
    repetitions: int = 7,
    clock: Callable[[], float] = perf_counter,
    warm_ups: int = 1,
) -> dict[str, list[float]]:
    """Time all sides in turn, so that whatever else the machine does hits them alike.

    Each turn begins with another side, since what a run leaves behind is met by the
    next one. Some runs of each go before, unmeasured: one, or as many as it takes
    until Java has compiled what runs often. A quick run has two repetitions.
    """
    for _ in range(sized(warm_ups, 1)):
        for run in sides.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in sides}
    order = list(sides)
    for _ in range(sized(repetitions, min(2, repetitions))):
        for name in order:
            times[name].append(timed(sides[name], clock))
        order = [*order[1:], order[0]]
    return times


def ratio(over: Sequence[float], under: Sequence[float]) -> dict[str, float]:
    """Return the ratio of the medians, and the spread of the pairwise ratios."""
    pairs = sorted(a / b for a, b in zip(over, under, strict=True))
    return {
        "ratio": round(statistics.median(over) / statistics.median(under), 3),
        "low": round(pairs[0], 3),
        "high": round(pairs[-1], 3),
    }


def claim(what: str, found: Mapping[str, float], **said: Any) -> Claim:
    """Return a claim about what `ratio` found."""
    return Claim(what, found["ratio"], found["low"], found["high"], **said)


def claims_in(name: str, results: Mapping[str, Any]) -> list[Claim]:
    """Return a claim for everything in the results that `ratio` made."""
    found = []
    for key, value in results.items():
        if not isinstance(value, Mapping):
            continue
        if {"ratio", "low", "high"} <= value.keys():
            found.append(claim(f"{name}: {key}", value))
        else:
            found += claims_in(f"{name}: {key}", value)
    return found


def report(
    name: str,
    results: Mapping[str, Any],
    path: str | None = None,
    *,
    claims: Sequence[Claim] = (),
    tables: Sequence[Table] = (),
) -> None:
    """Print results; write them to a file if one is named; record them if asked."""
    for shown in tables:
        print_table(shown)
    if not tables:
        for key, value in results.items():
            print(f"{name}: {key}: {value}")
    for one in claims:
        print(f"{name}: {one.what}: {said_of(one)}")
    if path is not None:
        Path(path).write_text(json.dumps(results, indent=2), encoding="utf-8")
    record(name, claims or claims_in(name, results), tables)


def said_of(one: Claim) -> str:
    """Return a claim's figures in words."""
    spread = "" if one.low is None else f" ({one.low:.4g} to {one.high:.4g})"
    paper = f"; paper: {one.paper}" if one.paper else ""
    remark = f"; {one.remark}" if one.remark else ""
    if one.measured is None:
        return f"not measured{paper}{remark}"
    return f"{one.measured:.4g} {one.unit}{spread}{paper}{remark}"


def why_not_extrapolated(model: float, seen: float, at: str) -> str | None:
    """Return why a model is not to be believed beyond what was measured, or None.

    >>> why_not_extrapolated(1.9, 1.6, "2 channels")
    'the model is off by 19% at 2 channels (1.9, measured 1.6): not extrapolated'
    >>> why_not_extrapolated(1.7, 1.6, "2 channels") is None
    True
    """
    off = abs(model / seen - 1)
    if off <= MOST_OFF:
        return None
    return (
        f"the model is off by {off:.0%} at {at} ({model:.3g}, measured {seen:.3g}): "
        "not extrapolated"
    )


def describe_error(model: float, seen: float, at: str) -> str:
    """Return how far a model is off where it can be compared with a measurement.

    >>> describe_error(1.7, 1.6, "2 channels")
    'a model, off by 6% at 2 channels (1.7, measured 1.6)'
    """
    off = abs(model / seen - 1)
    return f"a model, off by {off:.0%} at {at} ({model:.3g}, measured {seen:.3g})"


def record(
    name: str, claims: Sequence[Claim] = (), tables: Sequence[Table] = ()
) -> None:
    """Write what was found where `anabranch bench all` collects it, if it runs us.

    One file for each script and name, in the folder of the script: a script may report
    several things.
    """
    if RECORDS not in os.environ:
        return
    bench = name_of(Path(sys.argv[0]))
    kept = {
        "bench": bench,
        "name": name,
        "arguments": sys.argv[1:],
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": find_commit(),
        "quick": quick(),
        "cores": os.cpu_count(),
        "claims": [asdict(one) for one in claims],
        "tables": [asdict(one) for one in tables],
    }
    label = "-".join(name.split()).replace("/", "-")
    path = Path(os.environ[RECORDS]) / f"{bench}-{label}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(kept, indent=2, default=str), encoding="utf-8")


def find_commit(root: Path = ROOT) -> str:
    """Return the commit that is measured, and whether files differ from it.

    Records and their page do not count: each benchmark of a series would find those of
    the ones before it.
    """

    def ask(*words: str) -> str:
        command = ["git", *words]
        found = subprocess.run(
            command, cwd=root, capture_output=True, text=True, check=False
        )
        return found.stdout.strip()

    commit = ask("describe", "--always", "--abbrev=12", "--exclude=*")
    others = [f":(exclude){path}" for path in KEPT]
    changed = ask("status", "--porcelain", "--untracked-files=no", "--", ".", *others)
    return f"{commit or 'unknown'}{', with changes' if changed else ''}"


def name_of(script: Path) -> str:
    """Return the name of a benchmark: its path below bench/.

    >>> name_of(Path("bench/safe/fig7.py")), name_of(Path("bench/peers/__main__.py"))
    ('safe/fig7', 'peers')
    """
    folder = script.parent.name
    return folder if script.name == "__main__.py" else f"{folder}/{script.stem}"


def print_table(shown: Table) -> None:
    """Print a table, its columns aligned."""
    cells = [
        [cell_text(cell) for cell in row] for row in [list(shown.head), *shown.rows]
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    print(shown.title)
    for row in cells:
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))


def cell_text(cell: Any) -> str:
    """Return a cell as it is shown: numbers short, nothing as a dash."""
    if cell is None:
        return "-"
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}"
