"""docs/results.md from the records that benchmarks left.

A line for each claim: what the paper reports, what we measure, and whether the target
is met, which is computed here and nowhere written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from results_runs import GROUPS, SAID
from timing import cell_text

INTRO = """\
# Results

Written by `anabranch bench all`. Each line is one claim: what a paper reports about it, what we measure, the spread (the
lowest and the highest of the runs, which take turns), and our target. *Missed* is computed from the measurement.
All of it ran on {cores} cores; "in the model" is a simulation from costs that were measured here, and no measurement.
One part can be run again by `anabranch bench NAME`, or by `anabranch bench all --only NAME`, which replaces its part here.
"""
FAILED = "FAILED"  # the last line of what a benchmark printed that did
HEAD = ("what", "paper", "measured", "spread", "target", "remark")


def write_page(page: Path, kept: Path, words: Path, benches: Sequence[str]) -> None:
    """Write the page from the records of one folder and the printed words of another.

    It also says which `benches` have left nothing.
    """
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(kept.glob("*.json"))
    ]
    records = [one for one in records if one["claims"] or one["tables"]]
    recorded = {record["bench"] for record in records}
    cores = max((record["cores"] for record in records), default=0)
    parts = [INTRO.format(cores=cores)]
    missed = sum(is_missed(claim) for one in records for claim in claims_of(one))
    all_claims = sum(has_target(claim) for one in records for claim in claims_of(one))
    parts.append(f"Of {all_claims} claims with a target {missed} are missed.\n")
    if any(record["quick"] for record in records):
        parts.append("**A quick run: the figures mean nothing.**\n")
    for prefix, heading in GROUPS.items():
        mine = [one for one in records if group_of(one["bench"]) == prefix]
        printed = [
            path
            for path in sorted(words.glob("*.txt"))
            if group_of(path.stem) == prefix and is_wanted(path, recorded)
        ]
        if mine or printed:
            parts.append(f"## {heading}\n")
            parts += [section(record) for record in mine]
            parts += [as_printed(path) for path in printed]
    printing = {path.stem.split("-")[0] for path in words.glob("*.txt")}
    if missing := [one for one in benches if one not in recorded | printing]:
        names = ", ".join(f"`{one.replace('_', '-')}`" for one in missing)
        parts.append(f"## Not run for this page\n\n{names}.\n")
    page.write_text("\n".join(parts), encoding="utf-8")


def is_wanted(printed: Path, recorded: set[str]) -> bool:
    """Tell whether to show what was printed: nothing is recorded, or it failed."""
    text = printed.read_text(encoding="utf-8")
    return FAILED in text or bool(
        text.strip() and printed.stem.split("-")[0] not in recorded
    )


def group_of(bench: str) -> str:
    """Return the group that a benchmark belongs to, by what its name begins with."""
    return next(prefix for prefix in GROUPS if bench.startswith(prefix))


def section(record: Mapping[str, Any]) -> str:
    """Return the part of the page for one record."""
    command = " ".join(["anabranch bench", record["bench"], *record["arguments"]])
    day = record["when"][:10]
    lines = [f"`{command}`, {day}:\n"]
    claims = claims_of(record)
    if claims:
        lines.append(table(HEAD, [row(claim) for claim in claims]))
    for shown in record["tables"]:
        lines.append(f"{shown['title']}:\n")
        lines.append(table(shown["head"], shown["rows"]))
    return "\n".join(lines)


def claims_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the claims of a record, with what is said about them elsewhere."""
    return [{**claim, **SAID.get(claim["what"], {})} for claim in record["claims"]]


def has_target(claim: Mapping[str, Any]) -> bool:
    """Tell whether there is anything to miss."""
    return claim["at_least"] is not None or claim["at_most"] is not None


def is_missed(claim: Mapping[str, Any]) -> bool:
    """Tell whether the measurement misses the target."""
    low, high = claim["at_least"], claim["at_most"]
    return (low is not None and claim["measured"] < low) or (
        high is not None and claim["measured"] > high
    )


def row(claim: Mapping[str, Any]) -> list[str]:
    """Return a claim as cells."""
    unit = "" if claim["unit"] == "times" else f" {claim['unit']}"
    spread = ""
    if claim["low"] is not None:
        spread = f"{claim['low']:.3g} to {claim['high']:.3g}"
    target = ""
    if claim["at_least"] is not None:
        target = f"at least {claim['at_least']:g}"
    elif claim["at_most"] is not None:
        target = f"at most {claim['at_most']:g}"
    if target:
        target += ": **missed**" if is_missed(claim) else ": met"
    measured = f"{claim['measured']:.3g}{unit}"
    return [claim["what"], claim["paper"], measured, spread, target, claim["remark"]]


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    shown = ["| " + " | ".join(cell_text(cell) for cell in one) + " |" for one in lines]
    return "\n".join(shown) + "\n"


def as_printed(path: Path) -> str:
    """Return what a benchmark without a record printed."""
    bench, _, rest = path.stem.partition("-")
    given = "" if rest == "printed" else f" {rest}"
    text = path.read_text(encoding="utf-8").strip()
    return f"`anabranch bench {bench}{given}` printed:\n\n```text\n{text}\n```\n"
