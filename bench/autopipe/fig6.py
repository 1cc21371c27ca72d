"""Figure 6: the speedup that one more thread brings, by what a tuple costs.

    anabranch bench autopipe-fig6 [local|spark] [--full]

The paper: below 1 for cheap tuples, 2 for costly ones, and the larger the tuple the
later the crossover, since a tuple is copied into the port's buffer. Threads of the local
engine hand over references; the workers of Spark copy. On Spark it is the time of whole
epochs that is compared, with what an epoch costs once. Each engine takes about two minutes;
`--full` has more costs and sizes.
"""

from __future__ import annotations

import itertools
import sys

from bench.autopipe.chain import endless, rates_in_turn, spread, started
from bench.autopipe.spark import endless_on_spark, epoch
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report, sized

COUNTS = {"local": (2**4, 2**8, 2**12, 2**16, 2**18), "spark": (2**4, 2**12, 2**16)}
PAYLOADS = {"local": (8, 65536), "spark": (8, 4096)}
ALL_COUNTS = tuple(2**power for power in (4, 8, 10, 12, 14, 16, 18))
ALL_PAYLOADS = (8, 1024, 4096, 65536)
TURNS = 5
ITEM_S = 8 * 1.8e-9  # about, for each multiplication of the eight operators


def local(count: int, payload: int) -> list[float]:
    """Return the ratios of two threads to one, measured in turn."""
    with started(endless(count, payload)) as run:
        found = rates_in_turn(run, [(), ("o5",)], TURNS, seconds=0.35)
    return [two / one for one, two in zip(found[()], found["o5",], strict=True)]


def on_spark(count: int, payload: int) -> list[float]:
    """Return the ratios of uncut epochs to epochs with a cut, measured in turn."""
    items = int(min(sized(20_000, 2000), max(200, 0.5 / (ITEM_S * count))))
    with endless_on_spark(count, payload, items) as run:
        epoch(run, ("o5",))
        epoch(run)
        return [
            epoch(run).seconds / epoch(run, ("o5",)).seconds
            for _ in range(sized(TURNS, 1))
        ]


def measure(engine: str) -> None:
    one = local if engine == "local" else on_spark
    counts, payloads = COUNTS[engine], PAYLOADS[engine]
    if "--full" in sys.argv:
        counts, payloads = ALL_COUNTS, ALL_PAYLOADS
    found = {}
    for count, payload in itertools.product(counts, payloads):
        found[count, payload] = spread(one(count, payload))
        print(count, payload, found[count, payload], file=sys.stderr, flush=True)
    rows = [[count, *(found[count, p][0] for p in payloads)] for count in counts]
    table = Table(
        f"speedup of a second thread at o5, {engine} (paper: below 1, then 2)",
        ["multiplications", *(f"{payload} B tuples" for payload in payloads)],
        rows,
    )
    least, most = found[counts[0], payloads[0]], found[counts[-1], payloads[0]]
    claims = [
        Claim(f"{engine}: cheapest tuples", *least, paper="below 1 (Fig. 6)"),
        Claim(f"{engine}: costliest tuples", *most, paper="2 (Fig. 6)", at_least=1.8),
    ]
    report(
        f"fig6 {engine}",
        {f"{count} {payload}": value for (count, payload), value in found.items()},
        claims=claims,
        tables=[table],
    )
    lines = {
        f"{payload} B tuples": (counts, [row[n + 1] for row in rows])
        for n, payload in enumerate(payloads)
    }
    lines["paper, costly tuples"] = (counts[-2:], [2.0, 2.0])
    plot(
        f"autopipe_fig6_{engine}",
        lines,
        x="multiplications by each operator",
        y="speedup",
        log=("x",),
    )


def main() -> None:
    asked = [one for one in sys.argv[1:] if one != "--full"]
    for engine in asked or ("local", "spark"):
        measure(engine)


if __name__ == "__main__":
    main()
