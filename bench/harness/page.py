"""docs/results.md from the records that benchmarks left.

A line for each claim: what the paper reports, what we measure, and whether the target
is met, which is computed here and nowhere written by hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.harness.runs import GROUPS, NOT_MEASURED, SAID
from bench.harness.timing import Claim, cell_text

INTRO = """\
# Results

Written by `anabranch bench all`. A row is a claim: what the paper reports, what we measured, the spread (the lowest and the highest
of interleaved runs) and our target. Whether a target is met is computed from the measurement; *not decided* means that nothing
was measured. A row with the target *none* claims nothing: it puts our figure beside the paper's, or explains another row.
Everything ran on {cores} cores. *In the model* marks a simulation from costs that were measured here; its error on this machine is
given beside it, and a model that is off by more than 15% is not extrapolated.
`anabranch bench NAME` repeats one benchmark; `anabranch bench all --only NAME` also replaces its part of this page.
"""
FAILED = "FAILED"  # the last line of what a benchmark printed that did
HEAD = ("what", "paper", "measured", "spread", "target", "remark")


def write_page(page: Path, kept: Path, words: Path, benches: Sequence[str]) -> None:
    """Write the page from the records of one folder and the printed words of another.

    It also says which `benches` have left nothing.
    """
    records = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(kept.rglob("*.json"))
    ]
    records = [one for one in records if one["claims"] or one["tables"]]
    recorded = {record["bench"] for record in records}
    cores = max((record["cores"] for record in records), default=0)
    parts = [INTRO.format(cores=cores)]
    everything = [claim for one in records for claim in claims_of(one)]
    everything += [
        asdict(claim)
        for group in NOT_MEASURED
        for claim in find_lacking(group, records)
    ]
    missed, with_target = (
        sum(map(is_missed, everything)),
        sum(map(has_target, everything)),
    )
    without = sum(claim["measured"] is None for claim in everything)
    parts.append(
        f"Of {with_target} claims with a target {missed} are missed. {without} rows are "
        "not measured, and say why.\n"
    )
    if any(record["quick"] for record in records):
        parts.append("**A quick run: the figures mean nothing.**\n")
    texts = {
        path.relative_to(words).with_suffix("").as_posix(): path.read_text("utf-8")
        for path in sorted(words.rglob("*.txt"))
    }
    for group, heading in GROUPS.items():
        mine = [one for one in records if group_of(one["bench"]) == group]
        printed = {
            label: text
            for label, text in texts.items()
            if group_of(label) == group and is_wanted(label, text, recorded)
        }
        lacking = find_lacking(group, records)
        if mine or printed or lacking:
            parts.append(f"## {heading}\n")
            parts += [section(record) for record in mine]
            parts += [as_printed(label, text) for label, text in printed.items()]
        if lacking:
            rows = [row(asdict(claim)) for claim in lacking]
            parts.append("Without a record:\n\n" + table(HEAD, rows))
    printing = {label.partition("-")[0] for label in texts}
    if missing := [one for one in benches if one not in recorded | printing]:
        rows = [[f"`{one}`", "not measured"] for one in missing]
        parts.append("## Not run for this page\n")
        parts.append(table(("benchmark", "measured"), rows))
    page.write_text("\n".join(parts), encoding="utf-8")


def find_lacking(group: str, records: Sequence[Mapping[str, Any]]) -> list[Claim]:
    """Return what is not measured: a claim that names its `command` goes with the record."""
    run = [f"{' '.join([one['bench'], *one['arguments']])} " for one in records]
    lacking = []
    for claim in NOT_MEASURED.get(group, ()):
        _, _, command = claim.what.rstrip("`").rpartition("`")
        if not (
            claim.what.endswith("`") and any(r.startswith(f"{command} ") for r in run)
        ):
            lacking.append(claim)
    return lacking


def is_wanted(label: str, text: str, recorded: set[str]) -> bool:
    """Tell whether to show what was printed: nothing is recorded, or it failed."""
    bench = label.partition("-")[0]
    return FAILED in text or bool(text.strip() and bench not in recorded)


def group_of(bench: str) -> str:
    """Return the group of a benchmark: its own, or else that of its folder."""
    name = bench.partition("-")[0]
    return name if name in GROUPS else name.partition("/")[0]


def section(record: Mapping[str, Any]) -> str:
    """Return the part of the page for one record."""
    command = " ".join(["anabranch bench", record["bench"], *record["arguments"]])
    day = record["when"][:10]
    if "restated" in record:
        day += f" ({record['restated']})"
    lines = [f"`{command}`, {day}, commit {record['commit']}:\n"]
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
    """Tell whether there is a target, and a measurement that decides about it."""
    if claim["measured"] is None:
        return False
    return claim["at_least"] is not None or claim["at_most"] is not None


def is_missed(claim: Mapping[str, Any]) -> bool:
    """Tell whether the measurement misses the target."""
    low, high = claim["at_least"], claim["at_most"]
    if claim["measured"] is None:
        return False
    return (low is not None and claim["measured"] < low) or (
        high is not None and claim["measured"] > high
    )


def row(claim: Mapping[str, Any]) -> list[str]:
    """Return a claim as cells."""
    unit = "" if claim["unit"] in ("times", "") else f" {claim['unit']}"
    spread = ""
    if claim["low"] is not None:
        spread = f"{claim['low']:.3g} to {claim['high']:.3g}"
    target = "none"
    if claim["at_least"] is not None:
        target = f"at least {claim['at_least']:g}"
    elif claim["at_most"] is not None:
        target = f"at most {claim['at_most']:g}"
    if is_missed(claim):
        target += ": **missed**"
    elif target != "none":
        target += ": met" if has_target(claim) else ": not decided"
    measured = "not measured"
    if claim["measured"] is not None:
        measured = f"{claim['measured']:.3g}{unit}"
    return [claim["what"], claim["paper"], measured, spread, target, claim["remark"]]


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table as Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    shown = ["| " + " | ".join(cell_text(cell) for cell in one) + " |" for one in lines]
    return "\n".join(shown) + "\n"


def as_printed(label: str, text: str) -> str:
    """Return what a benchmark without a record printed."""
    bench, _, rest = label.partition("-")
    given = "" if rest == "printed" else f" {rest}"
    said = f"`anabranch bench {bench}{given}` printed:"
    return f"{said}\n\n```text\n{text.strip()}\n```\n"
