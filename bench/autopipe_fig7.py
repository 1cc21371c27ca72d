"""Figure 7: what profiling costs, by sampling rate. Target: below 1% at 100 Hz.

    anabranch bench autopipe-fig7 [local|spark]

The paper has 3% at 100 Hz. Two measures: what the sampler's own thread uses of a core,
and the throughput that is lost, with and without it in turn in one run. On Spark the
sampler is in the workers, at 100 Hz: what it uses is compared with the time of its task,
and whole epochs with and without it.
"""

from __future__ import annotations

import statistics
import sys

from anabranch.engines.local.run import LocalRun
from anabranch.engines.local.watching import watched_threads
from anabranch.runtime.profile import Sampler
from autopipe_common import endless, plot, rate, spread, started
from autopipe_spark import endless_on_spark, epoch
from timing import Claim, Table, report, sized

RATES_HZ = (10, 100, 1000)
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
        sampler = Sampler(watched_threads(run.flow), rate_hz)
        sampler.start()
        during = rate(run, PIECE_S)
        sampler.stop()
        own.append(sampler.cpu_s / PIECE_S * 100)
        after = rate(run, PIECE_S)
        lost.append((1 - 2 * during / (before + after)) * 100)
    return lost, own


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
        claims.append(
            Claim(
                f"sampler at 100 Hz, {kind}: share of a core",
                *spread(found[100][1]),
                unit="percent",
                paper="3% of the throughput (8.2.2)",
                at_most=1.0,
            )
        )
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
            paper="3% of the throughput (8.2.2)",
            at_most=1.0,
        ),
        Claim(
            "workers' samplers at 100 Hz: an epoch takes longer by",
            middle,
            low,
            high,
            unit="percent",
            remark="median and middle half; it scatters by more than the target",
        ),
    ]
    results = {"own CPU %": own, "longer by %": lost}
    report("fig7 spark", results, claims=claims)


def main() -> None:
    for engine in sys.argv[1:2] or ("local", "spark"):
        {"local": local, "spark": on_spark}[engine]()


if __name__ == "__main__":
    main()
