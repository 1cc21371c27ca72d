"""Figure 7 (b): hybrid against demand-driven scheduling with fusion and batching.

Three operators: 1,000 computations, identity, 1,000 computations, the same functions on
both sides. Demand-driven, with as many threads: a box for the first and one for the other
two, nothing data-parallel. Hybrid is `ab.run` on the local engine; it chooses its batches,
so only the baseline's batch varies. *Compiled* is `ab.run` of the program in plain Python.
"""

from __future__ import annotations

from functools import partial

from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import demand
from bench.hybrid.work import (
    floats,
    identity,
    pipeline,
    run_by_users,
    work,
    work_in_python,
)


def main() -> None:
    figure = Figure(
        "hybrid-fig7b",
        "Hybrid over demand-driven",
        ("batch of demand-driven", "times as fast"),
        "1.2 times on 4 cores, 1.3 on 8",
    )
    items = floats(sized(60_000, 600))
    row = pipeline(items, work(1000), identity, work(1000))
    plain = pipeline(items, work_in_python(1000), identity, work_in_python(1000))
    for batch in (10, 100, 1000):
        for threads in (1, 2):
            found = speeds(
                {
                    "demand": partial(demand.run, row, [1, 2], batch, threads),
                    "hybrid": run_by_users(row, threads),
                    "compiled": run_by_users(plain, threads),
                },
                len(items),
            )
            for line in ("hybrid", "compiled"):
                ratio = over(found[line], found["demand"])
                name = f"{line}, {threads} threads"
                figure.point(name, batch, ratio, spread(found[line]))
            if (batch, threads) == (100, 2):
                what = "over demand-driven, batch 100, 2 threads"
                figure.claim(
                    f"hybrid {what}", found["hybrid"], found["demand"], at_least=1.2
                )
                figure.claim(
                    f"compiled {what}",
                    found["compiled"],
                    found["demand"],
                    paper="",
                    remark="other code than the baseline's: whole batches at once",
                )
    figure.finish()


if __name__ == "__main__":
    main()
