"""Figure 11 of safe data parallelism: what punctuations cost in a parallel region.

A punctuation goes to all channels, and no tuple overtakes it: with one behind every
tuple there is nothing left to do at the same time. The paper gives no figures in its
text, but says that overhead is high there, except for the costliest tuples, and that
with fewer punctuations the speedup becomes that of the stateless region.
"""

from __future__ import annotations

import statistics

import anabranch as ab
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report, sized
from bench.safe.programs import count_for, some, speedups, stateless

EVERY = sized((1, 4, 16, 64, 256), (1, 256))  # tuples for a punctuation
WORK = sized((100, 10_000, 100_000, 1_000_000), (100_000,))


def main() -> None:
    rows, results = [], {}
    for every in EVERY:
        found = {work: speedup(work, every) for work in WORK}
        rows.append([every, *(statistics.median(one) for one in found.values())])
        results[every] = found
    without = {work: speedup(work, None) for work in WORK}
    rows.append(["none", *(statistics.median(one) for one in without.values())])
    results["none"] = without
    table = Table(
        "speedup of 2 channels over 1, by tuples for each punctuation",
        ["tuples", *(f"{work:,} multiplications" for work in WORK)],
        rows,
    )
    work = 100_000
    rare, often = results[256][work], results[1][work]
    paper = "high overhead at 1, as without at 256 (no figures in the text)"
    claims = [
        Claim(
            f"2 channels over 1, a punctuation for each {n}, {work:,} multiplications",
            statistics.median(found),
            min(found),
            max(found),
            paper=paper,
        )
        for n, found in (("tuple", often), ("256 tuples", rare))
    ]
    lines = {
        f"{work} multiplications": (
            [row[0] for row in rows],
            [row[n + 1] for row in rows],
        )
        for n, work in enumerate(WORK)
    }
    plot("safe_fig11", lines, x="tuples for each punctuation", y="speedup")
    report("safe_fig11", results, claims=claims, tables=[table])


def speedup(work: int, every: int | None) -> list[float]:
    """Return the speedups of two channels where tuples are punctuated so often."""
    items = some(count_for(work))

    def sink() -> ab.Result:
        source = ab.from_iterable(items, type(items[0]))
        if every is not None:
            source = source.punctuate(lambda item: item.n % every == every - 1)
        return stateless(work, source).to_list()

    return speedups(sink, (2,))[2]


if __name__ == "__main__":
    main()
