"""Figure 6: the speedup that one more thread brings, by what a tuple costs.

The paper: below 1 for cheap tuples, 2 for costly ones, and the larger the tuple the
later the crossover, since a tuple is copied into the port's buffer. Here threads hand
over references, so the size of a tuple does not matter on the local engine.
"""

from __future__ import annotations

import statistics

from autopipe_common import chain, keep, rate, started, table

COSTS = (0, 2**12, 2**14, 2**16, 2**18)  # bytes hashed by each of 8 operators
PAYLOADS = (8, 1024, 65536)
SECONDS = 0.6
TURNS = 3


def speedup(size: int, payload: int) -> float:
    """Return the median ratio of two threads to one, measured in turn."""
    ratios = []
    for _ in range(TURNS):
        found = []
        for ports in ((), ("o5",)):
            with started(chain(size, payload), ports) as run:
                rate(run, 0.2)
                found.append(rate(run, SECONDS))
        ratios.append(found[1] / found[0])
    return statistics.median(ratios)


def main() -> None:
    rows = [[size, *(speedup(size, one) for one in PAYLOADS)] for size in COSTS]
    table(
        "speedup of a second thread at o5 (paper: < 1 for cheap tuples, 2 for costly)",
        ["bytes/operator", *(f"{payload} B tuples" for payload in PAYLOADS)],
        rows,
    )
    lines = {
        f"{payload} B": ([row[0] for row in rows], [row[n + 1] for row in rows])
        for n, payload in enumerate(PAYLOADS)
    }
    keep("autopipe_fig6", {"rows": rows}, lines)


if __name__ == "__main__":
    main()
