"""Figure 7 (a): hybrid against one operating-system thread for every operator.

A pipeline of operators that do nothing, all communication through queues, on one core.
*No queue needed* is what we really make of it: all of them take items one by one, so by
the finer rule nothing has to wait for anything, whatever the rates are; and since they
are of fixed rates and of numbers, they are compiled.
"""

from __future__ import annotations

from anabranch.runtime.element import batch_that_fits
from bench.harness.cores import on_cores
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import hybrid, os_threads
from bench.hybrid.work import floats, identity, pipeline


def main() -> None:
    figure = Figure(
        "hybrid-fig7a",
        "Hybrid over one thread for every operator",
        ("operators", "times as fast"),
        "3.1 times as fast with 8 operators, 10.5 times with 32",
    )
    with on_cores(1):
        for operators in (2, 8, 32):
            row = pipeline(floats(20_000), *[identity] * operators)
            parts = [1] * operators
            fitting = min(8192, batch_that_fits(row.items))
            found = speeds(
                {
                    "threads": lambda row=row: os_threads.run(row),
                    "batch 1": hybrid.make(row, parts, batch=1),
                    "batch 100": hybrid.make(row, parts, batch=100),
                    "batch by the cache": hybrid.make(row, parts, batch=fitting),
                    "no queue needed": hybrid.make(row, [operators], batch=fitting),
                    "and compiled": hybrid.make(
                        row, [operators], batch=fitting, compiled=True
                    ),
                },
                len(row.items),
            )
            for line in list(found)[1:]:
                ratio = over(found[line], found["threads"])
                figure.point(line, operators, ratio, spread(found[line]))
            if operators == 32:
                what = "hybrid over OS threads, 32 operators"
                figure.claim(
                    what, found["and compiled"], found["threads"], at_least=10.0
                )
                figure.claim(
                    f"{what}, in Python, queues by the batch",
                    found["batch by the cache"],
                    found["threads"],
                    remark="SimpleQueue hands over in C, and a thread keeps the lock "
                    "for 5 ms, so that threads work in batches too",
                )
    figure.finish()


if __name__ == "__main__":
    main()
