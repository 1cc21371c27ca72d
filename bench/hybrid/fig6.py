"""Figure 6: how a queue in front of it bounds what parallelism gives.

Three operators: 100 (a) or 1,000 (b) computations, identity, and 900 or 9,000. Static:
all fused, and all of it data-parallel. Dynamic: a queue behind the first operator, and
only the third is data-parallel. The computations release the interpreter's lock, as the
paper's hold none. *Compiled* is what we make of the static program: Numba over a batch,
its firings shared by the threads.
"""

from __future__ import annotations

import os

from bench.hybrid.figure import Figure, over, speeds
from bench.hybrid.schedulers import hybrid
from bench.hybrid.work import floats, identity, pipeline, work, work_in_python

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
    row = pipeline(floats(items), work(first), identity, work(third))
    plain = pipeline(
        floats(items), work_in_python(first), identity, work_in_python(third)
    )
    sides = {}
    for threads in (1, 2, 4):
        sides["static", threads] = hybrid.make(row, [3], 1000, threads)
        sides["dynamic", threads] = hybrid.make(row, [1, 2], 1000, threads)
        sides["compiled", threads] = hybrid.make(
            plain, [3], 1000, threads, compiled=True
        )
    found = speeds(sides, items)
    for (line, threads), values in found.items():
        figure.point(line, threads, over(values, found["static", 1]))
    figure.note(f"on {os.cpu_count()} cores, which bound every gain")
    figure.finish()


def main() -> None:
    measure("a", 100, 900, 20_000)
    measure("b", 1000, 9000, 4000)


if __name__ == "__main__":
    main()
