"""Figure 16: what the optimizer's search costs on reverse trees of 8 to 64 operators.

The paper: exponential without pruning, an order of magnitude less with it; sorting adds
a little for small trees. Each leaf of the tree is a source with a thread of its own,
whose path leads to the root. Without pruning the cost depends on the shape alone: a
tree of shared operators has one leaf more than the product of those of its two parts.
"""

from __future__ import annotations

import random
import statistics

from anabranch.metrics.load import Profile
from autopipe_common import plot
from autopipe_search import RUNS, loads, nodes
from timing import Claim, Table, report

SIZES = (8, 16, 32, 64)
SEARCHED = 32  # larger ones are computed: searching 64 takes half a minute


def reverse_tree(size: int, seed: int, *, heavy: bool) -> Profile:
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
            mean_nodes(size, way, heavy=heavy) if size <= SEARCHED or heavy else "-"
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
    at_32 = next(row for row in rows if row[0] == SEARCHED)
    claim = Claim(
        "32 operators: pruning and sorting over basic",
        at_32[1] / at_32[5],
        paper="an order of magnitude (App. F)",
        at_least=10,
    )
    report("fig16", {"rows": rows}, claims=[claim], tables=[shown])
    lines = {
        name: (SIZES[:3], [row[n + 1] for row in rows[:3]])
        for n, name in enumerate(["basic", *head])
    }
    lines["paper, pruning a tenth"] = (SIZES[:3], [row[1] / 10 for row in rows[:3]])
    plot("autopipe_fig16", lines, x="operators", y="tree nodes visited", log=("y",))


if __name__ == "__main__":
    main()
