"""Claim: what keeping order costs goes to nothing as the work for each item grows.

The microbenchmark of the paper's Figure 9: a region of one operator, its items dealt
out in turn, merged by round robin (the baseline), by sequence numbers (at most 12%
more at the cheap end), and by numbers with pulses (at most 21% more). The clock is
the processor time of the process: what is compared is work, and the interpreter's lock
lets one thread work at a time anyway.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from time import process_time

import anabranch as ab
from anabranch.plan.plan import Plan
from bench.harness.local_run import report, running
from bench.harness.timing import interleaved, ratio

WORK_US = {0: 500_000, 1: 150_000, 10: 30_000, 100: 3_000, 1000: 300}
STRATEGIES = ("round_robin", "seqno", "strict", "relaxed")


def free(n):
    return n


def work(rounds, n):
    for _ in range(rounds):
        n = n * 3 & 0xFFFF
    return n


def ordered_by(strategy: str, plan: Plan) -> Plan:
    regions = tuple(replace(r, ordering=strategy) for r in plan.regions)
    return replace(plan, regions=regions)


def overheads(microseconds: int) -> dict[str, dict[str, float]]:
    items = list(range(WORK_US[microseconds]))
    function = partial(work, microseconds * 20) if microseconds else free
    sides = {
        strategy: running(
            ab.from_iterable(items)
            .map(ab.declare(state="stateless")(function))
            .to_list(),
            degree=2,
            edit=partial(ordered_by, strategy),
        )
        for strategy in STRATEGIES
    }
    times = interleaved(sides, repetitions=7, clock=process_time)
    base = times["round_robin"]
    return {s: ratio(times[s], base) for s in STRATEGIES[1:]}


def main() -> None:
    report("ordering", {f"{us} us of work": overheads(us) for us in WORK_US})


if __name__ == "__main__":
    main()
