"""The work loop of the paper on hybrid scheduling, pipelines of it, and how they run.

Our side of every figure runs on the local engine: as `ab.run` starts it, or with the
queues of the figure, which are threaded ports, as its controller would place them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numba

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.graph.graph import Edge, Input
from anabranch.job import compile_sinks
from anabranch.runtime.compiled.program import choice_of, make_program
from anabranch.runtime.program import Program
from anabranch.runtime.thread import Options
from bench.hybrid.schedulers.stages import Row, row_of


@numba.njit("float64(float64, int64)", nogil=True, cache=True)
def computed(x, count):  # the work unit of section 6 of the paper
    for i in range(count):
        x += i * 3.0 - 1.0
    return x


def work(count: int) -> Callable[[float], float]:
    """Return an operator that does `count` computations, at machine speed."""

    @ab.declare(state="stateless")
    def worked(x: float) -> float:
        return computed(x, count)

    return identity if count == 0 else worked


def work_in_turn(count: int) -> Callable[[float], float]:
    """Return the same operator as one that may not be replicated."""

    @ab.declare(state="global")
    def worked(x: float) -> float:
        return computed(x, count)

    return worked


def work_in_python(count: int) -> Callable[[float], float]:
    """Return the same operator as a user would write it."""

    def worked(x: float) -> float:
        for i in range(count):
            x += i * 3.0 - 1.0
        return x

    return worked


def identity(x: float) -> float:
    """Return an item as it is."""
    return x


def pipeline(items: Sequence[float], *functions: Callable[[float], float]) -> Row:
    """Return a row of maps."""
    stream = ab.from_iterable(list(items), float)
    for function in functions:
        stream = stream.map(function)
    return row_of(stream.to_list())


def floats(count: int) -> list[float]:
    """Return items for a benchmark."""
    return [float(n % 1000) for n in range(count)]


def run_by_users(row: Row, degree: int = 1) -> Callable[[], list[Any]]:
    """Return a call that runs a program as a user does, compilation included."""

    def run() -> list[Any]:
        ab.run(row.sink, on="local", degree=degree)
        return row.sink.items

    return run


def run_compiled(row: Row, degree: int = 1) -> Callable[[], list[Any]]:
    """Return a call that runs a program as `ab.run` does once it has compiled it.

    The paper's figures are throughputs of programs that are compiled before.
    """
    made = compile_sinks(row.sink, on="local")

    def run() -> list[Any]:
        LocalEngine().start(made.graph, made.plan, Options(degree=degree)).wait()
        return row.sink.items

    return run


def compile_boxes(row: Row, sizes: Sequence[int]) -> list[Callable[[Any], list[Any]]]:
    """Return the operators of a row in boxes of these sizes, compiled as ours are."""
    made = compile_sinks(row.sink, on="local")
    choice = replace(choice_of(made.plan), when="at once")
    boxes, names = [], row.names
    for size in sizes:
        inside, names = names[:size], names[size:]
        entry = Edge(made.graph[inside[0]].inputs[0], Input(inside[0]))
        boxes.append(_box(make_program(made.graph, inside, [entry], choice)))
    return boxes


def _box(program: Program) -> Callable[[Any], list[Any]]:
    def run(items: Any) -> list[Any]:
        program.run(items)
        (left,) = program.exits.values()
        outputs = left.items[:]
        left.clear()
        return outputs

    return run


def run_with_queues(
    row: Row, queues: Sequence[str] = (), *, batch: int | None = None, degree: int = 1
) -> Callable[[], list[Any]]:
    """Return a call that runs a program with queues before the operators of these names.

    It is compiled before. A queue is a threaded port; `batch` items are handed over at a
    time, or as many as the engine finds fit.
    """
    made = compile_sinks(row.sink, on="local")
    configuration = Configuration(
        ports=frozenset(map(Input, queues)),
        degrees={region.name: degree for region in made.plan.regions},
        batch=batch,
    )

    def run() -> list[Any]:
        LocalEngine(configuration).start(made.graph, made.plan, Options()).wait()
        return row.sink.items

    return run
