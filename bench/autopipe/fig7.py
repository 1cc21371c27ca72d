"""Figure 7: what profiling costs, by sampling rate. Target: below 1% at 100 Hz.

    anabranch bench autopipe-fig7 [local|spark]

The paper loses 3% of the throughput at 100 Hz; so that is what the target is about. What
the sampler's own thread uses of a core stands beside it. Both are measured with and
without it in turn in one run. On Spark the
sampler is in the workers, at 100 Hz: what it uses is compared with the time of its task,
and whole epochs with and without it.
"""

from __future__ import annotations

import statistics
import sys

from anabranch.engines.local.counters import list_watched_threads
from anabranch.engines.local.run import LocalRun
from anabranch.runtime.profile import Sampler
from bench.autopipe.chain import endless, rate, spread, started
from bench.autopipe.spark import endless_on_spark, epoch
from bench.harness.plots import plot
from bench.harness.timing import Claim, Table, report, sized

RATES_HZ = (10, 100, 1000)
PAPER = "3% of the throughput (8.2.2)"
NOT_THE_PAPERS = "not what the paper measures"
COUNT = 2**12
PIECE_S = 0.3
TURNS = 9
KINDS = {
    "1 thread": (COUNT, ()),
    "2 threads": (COUNT, ("o5",)),
    "4 threads": (COUNT, ("o3", "o5", "o7")),
    "1 thread of Python": (0, ()),
}


def overheads(run: LocalRun, rate_hz: float) -> tuple[list[float], list[float]]:
    """Return in percent what throughput loses, and what the sampler itself uses."""
    lost, own = [], []
    for _ in range(sized(TURNS, 2)):
        before = rate(run, PIECE_S)
        sampler = Sampler(list_watched_threads(run.flow), rate_hz)
        sampler.start()
        during = rate(run, PIECE_S)
        sampler.stop()
        own.append(sampler.cpu_s / PIECE_S * 100)
        after = rate(run, PIECE_S)
        lost.append((1 - 2 * during / (before + after)) * 100)
    return lost, own


def claim_lost(what: str, low: float, middle: float, high: float) -> Claim:
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
        remark="median and middle half",
    )


def local() -> None:
    rows, claims, lines = [], [], {}
    for kind, (count, ports) in KINDS.items():
        with started(endless(count), ports) as run:
            rate(run, 0.5)
            found = {hz: overheads(run, hz) for hz in RATES_HZ}
        for hz, (lost, own) in found.items():
            low, _, high = statistics.quantiles(lost, n=4)
            middle = statistics.median(lost)
            rows.append(
                [kind, hz, statistics.median(own), middle, f"{low:.1f} to {high:.1f}"]
            )
        lines[kind] = (RATES_HZ, [statistics.median(own) for _, own in found.values()])
        claims += [
            claim_lost(
                f"sampler at 100 Hz, {kind}: throughput lost",
                *statistics.quantiles(found[100][0], n=4),
            ),
            Claim(
                f"sampler at 100 Hz, {kind}: share of a core",
                *spread(found[100][1]),
                unit="percent",
                remark=NOT_THE_PAPERS,
            ),
        ]
    table = Table(
        "overhead of the sampler in percent, local (paper: 3% at 100 Hz)",
        ["", "Hz", "sampler's own CPU", "throughput lost", "middle half"],
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
        for _ in range(sized(TURNS, 1)):
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
