"""Figure 7: what profiling costs, by sampling rate. Target: below 1%, at 100 Hz and as used.

    anabranch bench autopipe-fig7 [local|spark]

The paper loses 3% of the throughput at 100 Hz; so that is what the target is about. What
the sampler's own thread uses of a core stands beside it. Both are measured with and
without it in turn in one run, in many short pieces, since the speed of the machine changes.
Controllers leave the rate to the sampler ("own rate"): 100 Hz, and down to 50 where it would
use more than half a percent of a core. On Spark the sampler is in the workers, at 100 Hz:
what it uses is compared with the time of its task, and whole epochs with and without it.
`local` takes three minutes.
"""

from __future__ import annotations

import statistics
import sys
from typing import NamedTuple

from anabranch.engines.local.counters import list_watched_threads
from anabranch.engines.local.run import LocalRun
from anabranch.runtime.profile import Sampler
from bench.autopipe.chain import endless, rate, spread, started
from bench.autopipe.spark import endless_on_spark, epoch
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report, sized

RATES_HZ = (None, 100, 10, 1000)  # None: the sampler's own
TOLD = {None: "at its own rate", 100: "at 100 Hz"}  # with a target
PAPER = "3% of the throughput (8.2.2)"
NOT_THE_PAPERS = "not what the paper measures"
COUNT = 2**12
PIECE_S = 0.5
TURNS = {None: 15, 100: 15}  # of the others a few
FEW = 7
KINDS = {
    "1 thread": (COUNT, ()),
    "2 threads": (COUNT, ("o5",)),
    "4 threads": (COUNT, ("o3", "o5", "o7")),
    "1 thread of Python": (0, ()),
}


class Overhead(NamedTuple):
    """In percent what throughput loses, and what the sampler uses; its samples a second."""

    lost: list[float]
    own: list[float]
    looks_per_s: list[float]


def overheads(run: LocalRun, rate_hz: float | None) -> Overhead:
    """Measure pieces with and without the sampler in turn."""
    found = Overhead([], [], [])
    before = rate(run, PIECE_S)
    for _ in range(sized(TURNS.get(rate_hz, FEW), 2)):
        sampler = Sampler(list_watched_threads(run.flow), rate_hz)
        sampler.start()
        during = rate(run, PIECE_S)
        sampler.stop()
        after = rate(run, PIECE_S)
        found.lost.append((1 - 2 * during / (before + after)) * 100)
        found.own.append(sampler.cpu_s / PIECE_S * 100)
        found.looks_per_s.append(sampler.looks / PIECE_S)
        before = after
    return found


def claim_lost(
    what: str, low: float, middle: float, high: float, remark: str = ""
) -> Claim:
    """Return the claim about what is lost: the median and the middle half.

    A program that is faster while it is watched was disturbed by something else.
    """
    if middle < 0:
        why = (
            f"not told apart from nothing: {middle:.1f}%, middle half {low:.1f} to "
            f"{high:.1f}"
        )
        return Claim(what, None, unit="percent", paper=PAPER, remark=why)
    return Claim(
        what,
        middle,
        low,
        high,
        unit="percent",
        paper=PAPER,
        at_most=1.0,
        remark=f"median and middle half{remark}",
    )


def local() -> None:
    rows, claims, lines = [], [], {}
    for kind, (count, ports) in KINDS.items():
        with started(endless(count), ports) as run:
            rate(run, 0.5)
            found = {hz: overheads(run, hz) for hz in RATES_HZ}
        for hz, one in found.items():
            low, _, high = statistics.quantiles(one.lost, n=4)
            looks = statistics.median(one.looks_per_s)
            rows.append(
                [
                    *(kind, hz or "own rate", looks, statistics.median(one.own)),
                    *(statistics.median(one.lost), f"{low:.1f} to {high:.1f}"),
                ]
            )
        fixed = sorted(hz for hz in RATES_HZ if hz)
        lines[kind] = (fixed, [statistics.median(found[hz].own) for hz in fixed])
        for hz, told in TOLD.items():
            one = found[hz]
            seen = f"; {statistics.median(one.looks_per_s):.0f} samples a second"
            claims += [
                claim_lost(
                    f"sampler {told}, {kind}: throughput lost",
                    *statistics.quantiles(one.lost, n=4),
                    seen,
                ),
                Claim(
                    f"sampler {told}, {kind}: share of a core",
                    *spread(one.own),
                    unit="percent",
                    remark=NOT_THE_PAPERS,
                ),
            ]
    table = Table(
        "overhead of the sampler in percent, local (paper: 3% at 100 Hz)",
        ["", "Hz", "samples/s", "sampler's own CPU", "throughput lost", "middle half"],
        rows,
    )
    report("fig7 local", {"rows": rows}, claims=claims, tables=[table])
    lines["paper, at 100 Hz"] = ((100,), (3.0,))
    plot(
        "autopipe_fig7",
        lines,
        x="samples a second",
        y="percent of a core",
        log=("x", "y"),
    )


def on_spark() -> None:
    lost, own = [], []
    with endless_on_spark(COUNT, 8, sized(12_000, 500)) as run:
        for _ in range(3):
            epoch(run)
        for _ in range(sized(9, 1)):
            before, during, after = (
                epoch(run, profiling=profiling) for profiling in (False, True, False)
            )
            unwatched_s = (before.seconds + after.seconds) / 2
            lost.append((during.seconds / unwatched_s - 1) * 100)
            seen = [one for report in during.reports for one in report.samples]
            used_s = sum(one.sampler_s for one in seen)
            own.append(used_s / sum(one.elapsed_s for one in seen) * 100)
    low, middle, high = statistics.quantiles(lost, n=4) if len(lost) > 1 else lost * 3
    claims = [
        Claim(
            "workers' samplers at 100 Hz: share of a core",
            *spread(own),
            unit="percent",
            remark=NOT_THE_PAPERS,
        ),
        claim_lost(
            "workers' samplers at 100 Hz: an epoch takes longer by", low, middle, high
        ),
    ]
    results = {"own CPU %": own, "longer by %": lost}
    report("fig7 spark", results, claims=claims)


def main() -> None:
    for engine in sys.argv[1:2] or ("local", "spark"):
        {"local": local, "spark": on_spark}[engine]()


if __name__ == "__main__":
    main()
