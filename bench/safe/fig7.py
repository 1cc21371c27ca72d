"""Figure 7 of safe data parallelism: speedup by channels and by the work for a tuple.

Two channels are measured on the local engine; up to 32 channels on 32 cores are the
model of safe/model.py, fed with costs that were measured in the same run.
"""

from __future__ import annotations

import statistics
from functools import partial

import anabranch as ab
from bench.harness.plots import plot
from bench.harness.timing import (
    Claim,
    Table,
    describe_error,
    report,
    sized,
    why_not_extrapolated,
)
from bench.safe.model import hashed, measured, simulated
from bench.safe.programs import KEYS, PROGRAMS, count_for, some, speedups

WORK = sized((1, 1_000, 10_000, 100_000), (1, 100_000))  # multiplications
CHANNELS = (2, 4, 8, 16, 32)
PAPER = {
    "stateless": "32 at 32 channels; more channels do no harm where work is cheap",
    "stateful": "31.3 at 32 channels; never below 2 (32 channels: 1.4)",
    "shuffle": "15.3 at 16 channels, 22.6 at 32 (64 processes on 32 cores)",
}


def main() -> None:
    results, tables, claims = {}, [], []
    for name, program in PROGRAMS.items():
        rows, found = [], {}
        for work in WORK:
            seen, model = speedup(program, work)
            rows.append(believable([work, statistics.median(seen), *model]))
            found[work] = {
                "measured at 2": seen,
                "model": dict(zip(CHANNELS, model, strict=True)),
            }
        results[name] = found
        head = [
            "multiplications",
            "2 measured",
            *(f"{n} in the model" for n in CHANNELS),
        ]
        tables.append(Table(f"speedup, {name}; paper: {PAPER[name]}", head, rows))
        claims += claims_of(name, found)
        lines = {f"{row[0]} multiplications": (CHANNELS, row[2:]) for row in rows} | {
            "measured": ((2,), (rows[-1][1],))
        }
        plot(f"safe_fig7_{name}", lines, x="channels", y="speedup")
    report("safe_fig7", results, claims=claims, tables=tables)


def speedup(program, work: int) -> tuple[list[float], list[float]]:
    """Return the measured speedups at 2 channels, and those of the model."""
    items = some(count_for(work))

    def sink() -> ab.Result:
        return program(work, ab.from_iterable(items, type(items[0]))).to_list()

    seen = speedups(sink, (2,))[2]
    keyed = program is not PROGRAMS["stateless"]
    costs, regions = measured(partial(program, work), keyed=keyed)
    model = []
    for channels in CHANNELS:
        shares = (
            []
            if not keyed
            else [
                hashed(dict.fromkeys(range(count), 1.0), channels)
                for count in (KEYS, 997)
            ]
        )
        model.append(simulated(costs, regions, channels, 32, shares))
    return seen, model


def claims_of(name: str, found: dict) -> list[Claim]:
    work = WORK[-1]
    seen = found[work]["measured at 2"]
    cheap = found[WORK[0]]["measured at 2"]
    model = found[work]["model"]
    return [
        Claim(
            f"{name}: 2 channels over 1, {work:,} multiplications",
            statistics.median(seen),
            min(seen),
            max(seen),
            paper="2 (linear)",
            at_least=1.8,
            remark="local engine, 2 cores",
        ),
        Claim(
            f"{name}: 2 channels over 1, {WORK[0]} multiplication",
            statistics.median(cheap),
            min(cheap),
            max(cheap),
            paper=PAPER[name],
            remark="in Python a hand-over costs more than such a tuple",
        ),
        claim_beyond(name, statistics.median(seen), model),
    ]


def believable(row: list) -> list:
    """Return a row without what the model says beyond what it was found to know."""
    _, seen, model, *_ = row
    if why_not_extrapolated(model, seen, "2 channels") is None:
        return row
    return [*row[:3], *[None] * (len(row) - 3)]


def claim_beyond(name: str, seen: float, model: dict) -> Claim:
    """Return the claim about 32 channels, where the model may be believed."""
    what = f"{name}: 32 channels over 1, {WORK[-1]:,} multiplications"
    why_not = why_not_extrapolated(model[2], seen, "2 channels")
    if why_not is not None:
        return Claim(what, None, paper=PAPER[name], remark=why_not)
    return Claim(
        f"{what}, in the model",
        model[32],
        paper=PAPER[name],
        remark=describe_error(model[2], seen, "2 channels"),
    )


if __name__ == "__main__":
    main()
