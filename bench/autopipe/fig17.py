"""Figure 17: what the optimizer's search costs on random graphs.

Each of n threads runs m operators drawn from d; the sampled ratio n*m/d says how much
they share. The paper: about linear in the number of operators at ratios of 0.5 (a) and
2 (b); as a function of the ratio (c) it rises and falls again; pruning is often an
order of magnitude cheaper. The paper does not tell m; here it is 4.

What is claimed is about light loads, of which nearly every case has a solution.
"""

from __future__ import annotations

import random
import statistics

from anabranch.control.throughput.pipelining import choose_ports
from anabranch.metrics.pipeline import ThreadLoad
from bench.autopipe.search import RUNS, WAYS, loads, nodes
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report

CASES = 200  # that are looked at for a solution
PAPER = "often an order of magnitude (App. F)"
LENGTH = 4  # operators of a thread
COUNTS = (8, 16, 24, 32)  # operators to draw from
RATIOS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def random_graph(
    operators: int, ratio: float, seed: int, *, heavy: bool
) -> tuple[ThreadLoad, ...]:
    pick = random.Random(seed)
    names = [f"o{number}" for number in range(operators)]
    count = max(1, round(ratio * operators / LENGTH))
    paths = [pick.sample(names, LENGTH) for _ in range(count)]
    return loads(paths, pick, heavy=heavy)


def costs(operators: int, ratio: float, *, heavy: bool) -> list[int]:
    """Return the mean number of nodes for each way to search."""
    return [
        round(
            statistics.fmean(
                nodes(random_graph(operators, ratio, seed, heavy=heavy), way)
                for seed in range(RUNS)
            )
        )
        for way in WAYS
    ]


def solvable(operators: int, ratio: float, *, heavy: bool) -> int:
    """Return how many of the random cases have a solution."""
    made = (random_graph(operators, ratio, n, heavy=heavy) for n in range(CASES))
    return sum(choose_ports(profile, beta=0) is not None for profile in made)


def row(operators: int, ratio: float) -> list[int]:
    light = costs(operators, ratio, heavy=False)
    return [*light, *costs(operators, ratio, heavy=True)[1:]]


HEAD = ["basic", "pruning, light", "both, light", "pruning, heavy", "both, heavy"]


def main() -> None:
    results, lines, tables = {}, {}, []
    for title, ratio in (("a", 0.5), ("b", 2.0)):
        rows = [[count, *row(count, ratio)] for count in COUNTS]
        shown = f"{title}) sampled ratio {ratio}"
        tables.append(Table(shown, ["operators", *HEAD], rows))
        results[title] = rows
        for n, name in enumerate(HEAD):
            lines[f"{name}, {ratio}"] = (COUNTS, [one[n + 1] for one in rows])
    rows = [[ratio, *row(16, ratio)] for ratio in RATIOS]
    tables.append(Table("c) 16 operators", ["sampled ratio", *HEAD], rows))
    results["c"] = rows
    at_2 = next(row for row in rows if row[0] == 2.0)
    _, basic, pruning, both, _, hopeless = at_2
    solved = {heavy: solvable(16, 2.0, heavy=heavy) for heavy in (False, True)}
    where = "16 operators at a ratio of 2"
    claims = [
        Claim(
            f"{where}, light load: pruning and sorting over basic",
            basic / both,
            paper=PAPER,
            at_least=10,
            remark=f"{solved[False]} of {CASES} such cases have a solution",
        ),
        Claim(
            f"{where}, light load: pruning alone over basic",
            basic / pruning,
            paper=PAPER,
            at_least=10,
        ),
        Claim(
            f"{where}, heavy load: pruning and sorting over basic",
            basic / hopeless,
            remark=f"{solved[True]} of {CASES} such cases have a solution; no target "
            "counts",
        ),
    ]
    report("fig17", results, claims=claims, tables=tables)
    plot("autopipe_fig17", lines, x="operators", y="tree nodes visited", log=("y",))
    lines = {
        name: (RATIOS, [one[n + 1] for one in rows]) for n, name in enumerate(HEAD)
    }
    plot(
        "autopipe_fig17c", lines, x="sampled ratio", y="tree nodes visited", log=("y",)
    )


if __name__ == "__main__":
    main()
