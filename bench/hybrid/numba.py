"""Claim: compiled chains of fixed rates run at least 30 times as fast as interpreted ones.

Both sides are the same program, with lists of floats at both ends: the generated Python,
and Numba over arrays including the way from lists to arrays and back. The hand-written
NumPy is given and gives arrays; beside it stands our compiled part on arrays alone.
NumPy adds in another order, so it is compared by closeness; Python must agree exactly.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import numpy as np

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.language.drafts import build_graph
from anabranch.runtime.compiled.part import Part
from anabranch.runtime.compiled.program import choice_of, make_program
from anabranch.runtime.compiled.shape import find_shape
from anabranch.runtime.program import Program
from bench.harness.timing import sized
from bench.hybrid.figure import Figure, over
from bench.hybrid.programs import PROGRAMS

BATCH = 8192
BATCHES = 6


def main() -> None:
    figure = Figure(
        "hybrid-numba",
        "Compiled chains of fixed rates",
        ("program", "times"),
        "no figure; the issue asks for 30 times interpreted and 0.5 of NumPy",
    )
    chance = np.random.default_rng(1)
    for name, (make, by_hand) in PROGRAMS.items():
        items = chance.normal(size=BATCH * BATCHES).tolist()
        measure(figure, name, make, by_hand, items)
    figure.finish()


def measure(figure, name, make, by_hand, items) -> None:
    sink = make(ab.from_iterable(items[:1], float, name="source")).to_list(name="out")
    graph = build_graph([sink])
    choice = replace(choice_of(compile_graph(graph).plan), when="at once")
    inside = [n for n in graph.names if n != "out"]

    def made(*, compiled: bool) -> Program:
        if compiled:
            return make_program(graph, inside, ["source"], choice)
        return Program(graph, inside, ["source"])

    def ran(program: Program) -> list[float]:
        (left,) = program.exits.values()
        for start in range(0, len(items), BATCH):
            program.run(items[start : start + BATCH])
        outputs = left.items[:]
        left.clear()
        return outputs

    shape = find_shape(graph, inside, ["source"], choice.kernels, frozenset())
    assert shape is not None
    began_s = time.perf_counter()
    part = Part(graph, shape, choice.kernels)
    compiling_s = time.perf_counter() - began_s
    x = np.array(items)

    def over_arrays(states) -> np.ndarray:
        out = []
        for start in range(0, len(x), BATCH):
            batch = [x[start : start + BATCH]]
            flow, stream = part.run_arrays(batch, states, triggers=False)
            for change in flow.changes:
                change()
            out.append(stream.arrays[0])
        return np.concatenate(out)

    programs = {
        "interpreted": made(compiled=False),
        "compiled": made(compiled=True),
        "on arrays": made(compiled=False),
    }
    sides = {
        "interpreted": lambda: ran(programs["interpreted"]),
        "compiled": lambda: ran(programs["compiled"]),
        "on arrays": lambda: over_arrays(programs["on arrays"].states),
        "NumPy": lambda: by_hand(x),
    }
    results = {side: run() for side, run in sides.items()}
    assert results["interpreted"] == results["compiled"]
    assert results["interpreted"] == results["on arrays"].tolist()
    hand = results["NumPy"]
    assert np.allclose(results["compiled"], hand[: len(results["compiled"])])
    times = timed(name, sides, len(items))
    figure.note(f"{name}: compiled in {compiling_s:.1f} s (or found compiled)")
    ratios = {
        "compiled over interpreted, lists": ("interpreted", "compiled", 30.0),
        "compiled over interpreted, arrays": ("interpreted", "on arrays", 30.0),
        "compiled over NumPy, arrays": ("NumPy", "on arrays", 0.5),
    }
    for what, (slow, fast, least) in ratios.items():
        figure.point(what, name, over(times[slow], times[fast]))
        figure.claim(
            f"{name}: {what}", times[slow], times[fast], at_least=least, paper=""
        )


def timed(name, sides, count) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {side: [] for side in sides}
    for _ in range(sized(5, 2)):
        for side, run in sides.items():
            began_s = time.perf_counter()
            run()
            times[side].append(time.perf_counter() - began_s)
    scale = 1e9 / count
    for side, values in times.items():
        middle = statistics.median(values) * scale
        print(
            f"{name}: {side}: {middle:.1f} ns an item "
            f"({min(values) * scale:.1f} to {max(values) * scale:.1f})"
        )
    return times


if __name__ == "__main__":
    main()
