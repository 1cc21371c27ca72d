"""Figure 8 (c): predicate filter. One of n items is significant.

It goes to two operators of 1,000 computations each.
"""

from __future__ import annotations

from typing import Any

import anabranch as ab
from bench.hybrid.events import ITEMS, measure
from bench.hybrid.figure import Figure


def program(one_of: int, first: Any, second: Any) -> ab.Stream:
    heights = ab.from_iterable([float(n * 7919 % one_of) for n in range(ITEMS)], float)
    return heights.filter(lambda height: height == 0.0).map(first).map(second)


def main() -> None:
    figure = Figure(
        "hybrid-fig8c",
        "Predicate filter: hybrid over no-op padding",
        ("inverse selectivity", "times as fast"),
        "4.9 times on 8 cores with 1 of 10",
    )
    measure(figure, program, (1, 10, 100, 1000))
    figure.finish()


if __name__ == "__main__":
    main()
