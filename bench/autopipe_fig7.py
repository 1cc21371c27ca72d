"""Figure 7: what profiling costs, by sampling rate. Target: below 1% at 100 Hz.

The paper has 3% at 100 Hz. Two measures, neither of which counts what other programs do
on the machine: the CPU time that an item costs more while the sampler looks (pieces
with and without it alternate within one run; the median, with the middle half), and the
CPU time of the sampler's own thread.
"""

from __future__ import annotations

import statistics
import time

from anabranch.engines.local.watching import watched_threads
from anabranch.runtime.profile import Sampler
from autopipe_common import chain, keep, rate, read_by, started, table

RATES_HZ = (10, 100, 1000)
THREADS = {1: (), 2: ("o5",), 4: ("o3", "o5", "o7")}
PIECE_S = 0.25
TURNS = 12


def cpu_of_item(run, sampler: Sampler | None) -> float:
    """Return the CPU seconds of an item, while a sampler looks or not."""
    if sampler is not None:
        sampler.start()
    before, began_s = read_by(run), time.process_time()
    time.sleep(PIECE_S)
    used_s, items = time.process_time() - began_s, read_by(run) - before
    if sampler is not None:
        sampler.stop()
    return used_s / max(items, 1)


def overheads(run, rate_hz: float) -> tuple[float, str, float]:
    """Return the cost in percent: of an item, its spread, and of the sampler alone."""
    ratios, own = [], []
    for _ in range(TURNS):
        without_s = cpu_of_item(run, None)
        sampler = Sampler(watched_threads(run.flow), rate_hz)
        ratios.append((cpu_of_item(run, sampler) / without_s - 1) * 100)
        own.append(sampler.cpu_s / PIECE_S * 100)
    low, middle, high = statistics.quantiles(ratios, n=4)
    return middle, f"{low:.1f} to {high:.1f}", statistics.median(own)


def main() -> None:
    rows = []
    for threads, ports in THREADS.items():
        with started(chain(2**14), ports) as run:
            rate(run, 0.5)
            rows += [[threads, hz, *overheads(run, hz)] for hz in RATES_HZ]
    table(
        "overhead of the sampler in percent (paper: 3% at 100 Hz)",
        ["threads", "Hz", "of an item", "middle half", "sampler's own CPU"],
        rows,
    )
    lines = {
        f"{threads} threads": (RATES_HZ, [r[4] for r in rows if r[0] == threads])
        for threads in THREADS
    }
    keep("autopipe_fig7", {"rows": rows}, lines)


if __name__ == "__main__":
    main()
