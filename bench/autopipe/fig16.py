"""Figure 16: what the optimizer's search costs on reverse trees of 8 to 64 operators.

The paper: exponential without pruning, an order of magnitude less with it; sorting adds
a little for small trees. Each leaf of the tree is a source with a thread of its own,
whose path leads to the root. Without pruning the cost depends on the shape alone: a
tree of shared operators has one leaf more than the product of those of its two parts.

What is claimed is about light loads, of which every case has a solution. Of 32 operators
under heavy load no case has one, so that pruning only finds out that there is none.
"""

from __future__ import annotations

import random
import statistics

from anabranch.control.throughput.pipelining import choose_ports
from anabranch.metrics.pipeline import ThreadLoad
from bench.autopipe.search import RUNS, loads, nodes
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report

SIZES = (8, 16, 32, 64)
CASES = 200  # that are looked at for a solution
PAPER = "an order of magnitude (App. F)"
SEARCHED = 32  # larger ones are computed: searching 64 takes half a minute


def reverse_tree(size: int, seed: int, *, heavy: bool) -> tuple[ThreadLoad, ...]:
    paths = []
    for leaf in range(size // 2, size):
        path, at = [], leaf // 2
        while at >= 1:
            path.append(f"o{at}")
            at //= 2
        paths.append(path)
    return loads(paths, random.Random(seed), heavy=heavy)


def without_pruning(size: int) -> int:
    leaves, operators = 2, 2
    while 2 * operators < size:
        leaves, operators = leaves**2 + 1, 2 * operators
    return 2 * leaves - 1


def mean_nodes(size: int, way: str, *, heavy: bool) -> int:
    found = [nodes(reverse_tree(size, seed, heavy=heavy), way) for seed in range(RUNS)]
    return round(statistics.fmean(found))


def main() -> None:
    rows = []
    for size in SIZES:
        basic = without_pruning(size)
        if size <= SEARCHED:
            assert basic == nodes(reverse_tree(size, 0, heavy=True), "basic")
        pruned = [
            mean_nodes(size, way, heavy=heavy)
            for heavy in (False, True)
            for way in ("pruning", "both")
        ]
        rows.append([size, basic, *pruned])
    head = ["pruning, light", "both, light", "pruning, heavy", "both, heavy"]
    shown = Table(
        "tree nodes visited on reverse trees (paper: exponential; pruning a tenth)",
        ["operators", "basic", *head],
        rows,
    )
    _, basic, pruning, both, _, hopeless = next(r for r in rows if r[0] == SEARCHED)
    solved = sum(
        choose_ports(reverse_tree(SEARCHED, seed, heavy=True), beta=0) is not None
        for seed in range(CASES)
    )
    claims = [
        Claim(
            "32 operators, cases with a solution: pruning and sorting over basic",
            basic / both,
            paper=PAPER,
            at_least=10,
            remark="sorting costs more than it saves here",
        ),
        Claim(
            "32 operators, cases with a solution: pruning alone over basic",
            basic / pruning,
            paper=PAPER,
            at_least=10,
        ),
        Claim(
            "32 operators, heavy load: pruning and sorting over basic",
            basic / hopeless,
            remark=f"{solved} of {CASES} such cases have a solution; no target counts",
        ),
    ]
    report("fig16", {"rows": rows}, claims=claims, tables=[shown])
    lines = {
        name: (SIZES[:3], [row[n + 1] for row in rows[:3]])
        for n, name in enumerate(["basic", *head])
    }
    lines["paper, pruning a tenth"] = (SIZES[:3], [row[1] / 10 for row in rows[:3]])
    plot("autopipe_fig16", lines, x="operators", y="tree nodes visited", log=("y",))


if __name__ == "__main__":
    main()
