"""Figure 6: how a queue in front of it bounds what parallelism gives.

Three operators: 100 (a) or 1,000 (b) computations, identity, and 900 or 9,000, on the
local engine. Static: `ab.run` with a degree, so that all of it is data-parallel. Dynamic:
a threaded port behind the first operator, which may not be replicated. The computations
release the interpreter's lock, as the paper's hold none. *Compiled* is what `ab.run`
makes of the static program in plain Python.
"""

from __future__ import annotations

import os

from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.schedulers.stages import Row
from bench.hybrid.work import (
    floats,
    identity,
    pipeline,
    run_by_users,
    run_with_queues,
    work,
    work_in_python,
    work_in_turn,
)

PAPER = {
    "a": "little gain from parallelism for 100 + 900 computations; static is ahead",
    "b": "17 times faster in parallel when static, 6.8 times when dynamic (32 cores)",
}


def measure(name: str, first: int, third: int, items: int) -> None:
    figure = Figure(
        f"hybrid-fig6{name}",
        f"{first} and {third} computations",
        ("threads", "throughput / static with one thread"),
        PAPER[name],
    )

    def row(of_first, of_third) -> Row:
        return pipeline(floats(items), of_first(first), identity, of_third(third))

    static, plain = row(work, work), row(work_in_python, work_in_python)
    dynamic = row(work_in_turn, work)
    queue = dynamic.names[1:2]
    sides = {}
    for threads in (1, 2, 4):
        sides["static", threads] = run_by_users(static, threads)
        sides["dynamic", threads] = run_with_queues(dynamic, queue, degree=threads)
        sides["compiled", threads] = run_by_users(plain, threads)
    found = speeds(sides, items)
    for (line, threads), values in found.items():
        figure.point(line, threads, over(values, found["static", 1]))
    for line in ("static", "dynamic"):
        what = f"({name}) {line}: 2 threads over 1"
        figure.claim(what, found[line, 2], found[line, 1])
    figure.note(f"on {os.cpu_count()} cores, which bound every gain")
    figure.finish()


def main() -> None:
    measure("a", 100, 900, sized(200_000, 2000))
    measure("b", 1000, 9000, sized(40_000, 400))


if __name__ == "__main__":
    main()
