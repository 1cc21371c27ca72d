"""Figure 7 (a): hybrid against one operating-system thread for every operator.

A pipeline of operators that do nothing, on one core. As in the paper, all communication
is through queues and each operator has a thread of its own, on both sides: on the local
engine with a threaded port before each operator, and in the baseline with Python's
fastest queue (`schedulers/os_threads.py`), item by item. *As users run it* is `ab.run`:
all operators take items one by one, so no queue is needed and all are fused. That is
another system than the paper's, so it has no target. There are enough items for the start
(threads, and batches that grow) to be a small part, as in a throughput.
"""

from __future__ import annotations

from functools import partial

from bench.harness.cores import on_cores
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds, spread
from bench.hybrid.schedulers import os_threads
from bench.hybrid.work import (
    floats,
    identity,
    pipeline,
    run_by_users,
    run_with_queues,
)


def main() -> None:
    figure = Figure(
        "hybrid-fig7a",
        "Hybrid over one thread for every operator",
        ("operators", "times as fast"),
        "3.1 times as fast with 8 operators, 10.5 times with 32",
    )
    with on_cores(1):
        for operators in (2, 8, 32):
            row = pipeline(floats(sized(400_000, 2000)), *[identity] * operators)
            queues = row.names[1:]
            found = speeds(
                {
                    "threads": partial(os_threads.run, row),
                    "queues, batch 100": run_with_queues(row, queues, batch=100),
                    "queues": run_with_queues(row, queues),
                    "as users run it": run_by_users(row),
                },
                len(row.items),
            )
            for line in list(found)[1:]:
                ratio = over(found[line], found["threads"])
                figure.point(line, operators, ratio, spread(found[line]))
            if operators in (8, 32):
                what = f"hybrid over OS threads, {operators} operators"
                least = {8: 3.1, 32: 10.0}[operators]
                figure.claim(
                    f"{what}, queues between all",
                    found["queues"],
                    found["threads"],
                    at_least=least,
                )
                figure.claim(
                    f"{what}, as users run it",
                    found["as users run it"],
                    found["threads"],
                    paper="",
                    remark="without queues: another system than the paper's",
                )
    figure.finish()


if __name__ == "__main__":
    main()
