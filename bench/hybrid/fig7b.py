"""Figure 7 (b): hybrid against demand-driven scheduling with fusion and batching.

Three operators: 1,000 computations, identity, 1,000 computations. Demand-driven, with as
many threads: a box for the first and one for the other two, nothing data-parallel.
Hybrid, every thread takes batches through all of it; or, as in the paper, only the part
behind the queue is data-parallel.
"""

from __future__ import annotations

from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import demand, hybrid
from bench.hybrid.work import floats, identity, pipeline, work, work_in_python


def main() -> None:
    figure = Figure(
        "hybrid-fig7b",
        "Hybrid over demand-driven",
        ("batch", "times as fast"),
        "1.2 times on 4 cores, 1.3 on 8",
    )
    items = floats(6000)
    row = pipeline(items, work(1000), identity, work(1000))
    plain = pipeline(items, work_in_python(1000), identity, work_in_python(1000))
    for batch in (10, 100, 1000):
        for threads in (1, 2):
            found = speeds(
                {
                    "demand": lambda b=batch, t=threads: demand.run(row, [1, 2], b, t),
                    "hybrid": hybrid.make_whole(row, [1, 2], batch, threads),
                    "last part parallel": hybrid.make(row, [1, 2], batch, threads),
                    "compiled": hybrid.make(
                        plain, [1, 2], batch, threads, compiled=True
                    ),
                },
                len(items),
            )
            for line in ("hybrid", "last part parallel", "compiled"):
                ratio = over(found[line], found["demand"])
                name = f"{line}, {threads} threads"
                figure.point(name, batch, ratio, spread(found[line]))
                if (batch, threads) == (100, 2):
                    what = f"{line} over demand-driven, batch 100, 2 threads"
                    figure.claim(what, found[line], found["demand"], at_least=1.2)
    figure.finish()


if __name__ == "__main__":
    main()
