"""Figure 10 of safe data parallelism: a keyed region and a shuffle at 100 channels.

The paper ran them on 14 machines: 104 cores for the regions, 8 for source and sink. We
have 2 cores, so this is a model, fed with costs that are measured here; it knows of the
hand-over of tuples and of keys that hash unevenly, and of no network. What it says
about 2 channels stands beside what is measured with 2; where the two differ by more
than 15%, it says nothing about more channels.
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
    why_not_extrapolated,
)
from bench.safe.model import balanced_table, hashed, measured, simulated
from bench.safe.programs import KEYS, count_for, shuffle, some, speedups, stateful

WORK = 100_000  # multiplications
CORES = 112
CHANNELS = {"stateful": (2, 10, 25, 50, 100), "shuffle": (2, 5, 10, 25, 50)}
PAPER = {"stateful": (100, "93"), "shuffle": (50, "42")}
MANY_KEYS = 100 * KEYS


def main() -> None:
    results, tables, claims = {}, [], []
    for name, program in {"stateful": stateful, "shuffle": shuffle}.items():
        costs, regions = measured(partial(program, WORK))
        seen = two_channels(program)
        rows = []
        for channels in CHANNELS[name]:
            few, moved, many = (
                simulated(costs, regions, channels, CORES, shares)
                for shares in shares_of(channels)
            )
            at_two = statistics.median(seen) if channels == 2 else None
            largest, said = PAPER[name]
            paper = said if channels == largest else None
            rows.append([channels, at_two, few, moved, many, paper])
        head = [
            "channels",
            "measured",
            "1,000 keys",
            "1,000 keys, buckets moved",
            "100,000 keys",
            "paper",
        ]
        results[name] = {"rows": rows, "measured at 2": seen}
        title = f"speedup, {name}, {WORK:,} multiplications"
        tables.append(Table(title, head, believable(rows)))
        claims.append(claim_of(name, rows))
        shown = {label: n for n, label in enumerate(head) if n in {2, 3, 4}}
        lines = {
            label: (CHANNELS[name], [row[n] for row in rows])
            for label, n in shown.items()
        }
        plot(f"safe_fig10_{name}", lines, x="channels", y="speedup")
    report("safe_fig10", results, claims=claims, tables=tables)


def two_channels(program) -> list[float]:
    """Return the speedup that two channels have here."""
    items = some(count_for(WORK))
    return speedups(
        lambda: program(WORK, ab.from_iterable(items, type(items[0]))).to_list(), (2,)
    )[2]


def shares_of(channels: int) -> list[list[dict[int, float]]]:
    """Return what channels get: few keys, few keys with their buckets moved, many."""
    few = dict.fromkeys(range(KEYS), 1.0)
    many = dict.fromkeys(range(MANY_KEYS), 1.0)
    table = balanced_table(few, channels)
    return [
        [hashed(few, channels)] * 2,
        [hashed(few, channels, table)] * 2,
        [hashed(many, channels)] * 2,
    ]


def why_not_believed(rows: list) -> str | None:
    """Return why the model says nothing about more channels than were measured."""
    channels, seen, _, moved, *_ = rows[0]
    return why_not_extrapolated(moved, seen, f"{channels} channels")


def believable(rows: list) -> list:
    """Return the rows without what the model says beyond what it was found to know."""
    if why_not_believed(rows) is None:
        return rows
    first, *_, (channels, *_, paper) = rows
    return [first, [channels, *[None] * 4, paper]]


def claim_of(name: str, rows: list) -> Claim:
    channels, _, few, moved, many, paper = rows[-1]
    what = f"{name}: {channels} channels over 1"
    said = f"{paper} at {channels} channels, on 14 machines"
    why_not = why_not_believed(rows)
    if why_not is not None:
        return Claim(what, None, paper=said, remark=why_not)
    return Claim(
        f"{what}, in the model",
        moved,
        min(few, moved),
        max(many, moved),
        paper=said,
        remark=f"{describe_error(rows[0][3], rows[0][1], '2 channels')}; 1,000 keys, "
        "buckets moved; spread: not moved, 100,000 keys",
    )


if __name__ == "__main__":
    main()
