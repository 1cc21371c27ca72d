"""Figure 7 (b): hybrid against demand-driven scheduling with fusion and batching.

Three operators: 1,000 computations, identity, 1,000 computations. Demand-driven, with as
many threads: a box for the first and one for the other two, nothing data-parallel. The
paper's compiler makes C of the operators on both sides, so here they are the same on both
sides, too, in two ways:

- *called*: functions at machine speed that Python calls item by item; they release the
  interpreter's lock for a microsecond at a time.
- *compiled*: the program in plain Python, of which our compiler makes kernels over batches;
  the boxes of the baseline run those kernels on their trains.

Hybrid is the local engine as `ab.run` starts it, on a program compiled before. It chooses
its batches, so only the baseline's batch varies.
"""

from __future__ import annotations

from functools import partial

from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import demand
from bench.hybrid.work import (
    compile_boxes,
    floats,
    identity,
    pipeline,
    run_compiled,
    work,
    work_in_python,
)

BOXES = [1, 2]


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
    boxes = compile_boxes(plain, BOXES)
    for batch in (10, 100, 1000):
        for threads in (1, 2):
            by_demand = partial(demand.run, row, BOXES, batch, threads)
            found = speeds(
                {
                    ("demand", "called"): by_demand,
                    ("hybrid", "called"): run_compiled(row, threads),
                    ("demand", "compiled"): partial(by_demand, boxes),
                    ("hybrid", "compiled"): run_compiled(plain, threads),
                },
                len(items),
            )
            for line in ("called", "compiled"):
                hybrid, base = found["hybrid", line], found["demand", line]
                name = f"{line}, {threads} threads"
                figure.point(name, batch, over(hybrid, base), spread(hybrid))
                if (batch, threads) == (100, 2):
                    what = "hybrid over demand-driven, batch 100, 2 threads"
                    figure.claim(f"{what}, {line}", hybrid, base, at_least=1.2)
    figure.note(
        "on 2 cores either side has work for both: the paper's gain is that of cores "
        "beyond the two boxes"
    )
    figure.finish()


if __name__ == "__main__":
    main()
