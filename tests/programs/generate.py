"""Whole programs, generated: what all engines are compared on.

    for seed in range(100):
        assert_same(program(seed), lambda sinks: ab.run(*sinks, on="local", degree=3))

With `failing=True` some operators refuse some items; run these with `on_error="skip"`.

A program is Python text. What runs is what is printed when engines differ, so a
failure is reproduced by pasting it into a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

from anabranch.engines.sequential import SequentialEngine
from anabranch.language.drafts import Result, build_graph
from anabranch.plan.plan import Plan
from anabranch.runtime.failures import policy
from anabranch.runtime.thread import Options
from tests.programs.steps import FRAGILE, GRAPHS, MARKED, PARTING, STEPS
from tests.programs.timed_steps import FRAGILE_TIMED, TIMED
from tests.programs.writer import Var, Writer

HEADER = """\
import anabranch as ab
from tests.programs.functions import *
"""
FRAGILE_HEADER = "from tests.programs.fragile import *\n"
TIMED_HEADER = "from tests.programs.timed import *\n"


@dataclass(frozen=True)
class Program:
    """A program as Python text; `build` gives fresh streams each time."""

    text: str
    failing: bool = False

    def __str__(self) -> str:
        return self.text

    def build(self) -> list[Result]:
        """Return the sinks, all of them `to_list`."""
        names: dict[str, Any] = {}
        exec(compile(self.text, "<generated program>", "exec"), names)
        return names["sinks"]


def program(
    seed: int,
    *,
    without: Collection[str] = (),
    failing: bool = False,
    timed: bool = False,
    graphs: bool = False,
    marked: bool = False,
) -> Program:
    """Return the program of a seed; `without` leaves out steps (names in `STEPS`).

    With `timed` it has streams with a clock, out of order, and what follows a clock. With
    `graphs` its streams part and meet more often than not. A `marked` one is full of
    punctuations, and shows where they are in its results.
    """
    rng = Random(seed)
    return write(
        rng, without, failing=failing, timed=timed, graphs=graphs, marked=marked
    )


def programs(*, without: Collection[str] = ()) -> st.SearchStrategy[Program]:
    """Return the strategy for Hypothesis; it shrinks to short programs."""
    randoms = st.randoms(use_true_random=False)
    return randoms.map(lambda rng: write(rng, without))


def write(
    rng: Random,
    without: Collection[str] = (),
    *,
    failing: bool = False,
    timed: bool = False,
    graphs: bool = False,
    marked: bool = False,
) -> Program:
    """Write a program: up to three sources, a dozen steps, and sinks at the ends."""
    w = Writer(rng)
    steps = {**STEPS, **(FRAGILE if failing else {}), **(TIMED if timed else {})}
    steps |= FRAGILE_TIMED if failing and timed else {}
    steps |= PARTING if graphs else {}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        _source(w)
    names = [name for name in steps if name not in without]
    weights = [steps[name][1] for name in names]
    if graphs or marked:
        chosen = GRAPHS if graphs else MARKED
        weights = [chosen.get(name, 0) for name in names]
    for _ in range(rng.randint(2, 14)):
        (name,) = rng.choices(names, weights)
        steps[name][0](w)
    ends = [var for var in w.leaves() if rng.random() < 0.8]
    ends += [var for var in w.streams if var not in ends and rng.random() < 0.1]
    ends = ends or w.streams[-1:]
    shown = ".apply(Bells)" if marked else ""
    sinks = ", ".join(f"{var.name}{shown}.to_list()" for var in ends)
    header = HEADER + FRAGILE_HEADER if failing else HEADER
    header += TIMED_HEADER if timed else ""
    text = "\n".join((header, *w.lines, f"sinks = [{sinks}]", ""))
    return Program(text, failing)


def _source(w: Writer) -> None:
    n = w.rng.choice((0, 1, 5, 12, 30, 60, 60, 60))
    seed = w.rng.randrange(1000)
    expression = w.rng.choice(
        (
            f"ab.from_iterable(events({seed}, {n}), Event)",
            f"ab.from_iterable(events({seed}, {n}), Event)",
            f"ab.from_iterable(events({seed}, {n}))",
            f"ab.generate(Replay({seed}, {n}), Event)",
        )
    )
    w.let(expression, Var(""), items=n)


def run_sequential(program: Program) -> list[list[Any]]:
    """Return what each sink of a program gets on the sequential engine."""
    sinks = program.build()
    no_plan = Plan((), (), (), (), ())
    options = Options(on_error=policy("skip" if program.failing else "stop"))
    SequentialEngine().start(build_graph(sinks), no_plan, options).wait()
    return [sink.items for sink in sinks]


def assert_same(program: Program, run: Callable[[list[Result]], Any]) -> None:
    """Check that `run(sinks)` gives every sink what the sequential engine gives it."""
    expected = run_sequential(program)
    sinks = program.build()
    try:
        run(sinks)
    except Exception as error:
        error.add_note(f"in the generated program\n\n{program}")
        raise
    for number, (left, sink) in enumerate(zip(expected, sinks, strict=True)):
        difference = first_difference(left, sink.items)
        assert difference is None, f"sinks[{number}]: {difference}\n\n{program}"


def first_difference(expected: list[Any], actual: list[Any]) -> str | None:
    """Return where two outputs part, or None; the types of values count too."""
    for place, (left, right) in enumerate(zip(expected, actual, strict=False)):
        if repr(left) != repr(right):
            return f"item {place}: expected {left!r}, got {right!r}"
    if len(expected) != len(actual):
        return f"expected {len(expected)} items, got {len(actual)}"
    return None
