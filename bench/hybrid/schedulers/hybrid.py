"""Hybrid scheduling: static subgraphs as fused programs, run in the order of the data.

Section 5 of the paper on our own runtime. A subgraph runs `batch` items and hands what
comes of them straight to the next one; there is no master. A queue between two is a list
that grows with what an operator gives and is empty again afterwards. What an operator
has begun (half a run of equal items, a window) stays in its state until more items come.
One subgraph, the last unless another is named, may be data-parallel: each thread has a
contiguous part of a batch. Where no operator keeps anything all subgraphs may be, also
those of dynamic rates: then a thread takes the next batch through all of them, and what
comes of the batches is laid end to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from typing import Any

from anabranch.compiler.compile import compile_graph
from anabranch.runtime.compiled.program import NOTHING, choice_of, make_program
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.program import Program
from bench.hybrid.schedulers.stages import Row, stage_of


def run(
    row: Row,
    subgraphs: Sequence[int],
    batch: int = 100,
    replicas: int = 1,
    *,
    parallel: int = -1,
    compiled: bool = False,
) -> list[Any]:
    """Return what reaches the sink; `subgraphs` are the numbers of their operators."""
    return make(row, subgraphs, batch, replicas, parallel=parallel, compiled=compiled)()


def make(
    row: Row,
    subgraphs: Sequence[int],
    batch: int = 100,
    replicas: int = 1,
    *,
    parallel: int = -1,
    compiled: bool = False,
) -> Any:
    """Return a function that runs the program; its code is generated before."""
    wide = range(len(subgraphs))[parallel]
    chain = _Chain(row, subgraphs, {wide: replicas}, compiled=compiled)

    def run() -> list[Any]:
        return chain.run(batch)

    return run


def make_whole(
    row: Row, subgraphs: Sequence[int], batch: int = 100, threads: int = 1
) -> Any:
    """Return a function that runs a program without state, every part data-parallel."""
    assert not any(kernel_of(row.graph[name]).stateful for name in row.names)
    replicas = dict.fromkeys(range(len(subgraphs)), threads)
    chain = _Chain(row, subgraphs, replicas, compiled=False)

    def run() -> list[Any]:
        return chain.run_whole(batch)

    return run


class _Chain:
    def __init__(
        self,
        row: Row,
        sizes: Sequence[int],
        replicas: Mapping[int, int],
        *,
        compiled: bool,
    ) -> None:
        self.row = row
        self.replicas = replicas
        self.threads = max(replicas.values())
        self.choice = NOTHING
        if compiled:
            choice = choice_of(compile_graph(row.graph).plan, threads=self.threads)
            self.choice = replace(choice, when="at once")
        names = list(row.names)
        self.parts: list[list[str]] = []
        for size in sizes:
            self.parts.append(names[:size])
            names = names[size:]
        assert not names
        (source,) = row.graph.sources
        self.before = [source.name, *(part[-1] for part in self.parts[:-1])]

    def _programs(self) -> list[list[Program]]:
        made = []
        for number, part in enumerate(self.parts):
            before = self.before[number]
            share = self.choice.kernels.keys().isdisjoint(part)
            count = self.replicas.get(number, 1) if share else 1
            made.append([self._program(before, part) for _ in range(count)])
        return made

    def _program(self, before: str, part: list[str]) -> Program:
        return make_program(self.row.graph, part, [before], self.choice)

    def run(self, batch: int) -> list[Any]:
        programs = self._programs()
        results: list[Any] = []
        items = self.row.items
        pool = ThreadPoolExecutor(self.threads) if self.threads > 1 else None
        try:
            for start in range(0, len(items), batch):
                self._through(programs, items[start : start + batch], results, pool)
            self._finish(programs, results)
        finally:
            if pool is not None:
                pool.shutdown()
        return results

    def run_whole(self, batch: int) -> list[Any]:
        programs = self._programs()
        items = self.row.items
        starts = range(0, len(items), batch)
        made: list[list[Any]] = [[] for _ in starts]
        waiting = iter(enumerate(starts))  # next() of it is one step for all threads

        def work(thread: int) -> None:
            own = [replicas[thread : thread + 1] for replicas in programs]
            for number, start in waiting:
                taken = items[start : start + batch]
                self._through(own, taken, made[number], None)

        if self.threads == 1:
            work(0)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(work, range(self.threads)))
        return [item for part in made for item in part]

    def _through(
        self,
        programs: Sequence[list[Program]],
        items: list[Any],
        results: list[Any],
        pool: ThreadPoolExecutor | None,
    ) -> None:
        for replicas in programs:
            if not items:
                return
            items = _ran(replicas, items, pool)
        results += items

    def _finish(self, programs: list[list[Program]], results: list[Any]) -> None:
        """End the stream: operators finish from the left."""
        graph = self.row.graph
        for number, part in enumerate(self.parts):
            for place, name in enumerate(part):
                if not kernel_of(graph[name]).finishes:
                    continue
                rest = [x for _, xs in programs[number][0].finish(name) for x in xs]
                for later in part[place + 1 :]:
                    stage = stage_of(graph[later])
                    rest = [y for x in rest for y in stage.process(x)]
                self._through(programs[number + 1 :], rest, results, None)


def _ran(
    replicas: list[Program], items: list[Any], pool: ThreadPoolExecutor | None
) -> list[Any]:
    if len(replicas) == 1 or pool is None:
        return _one(replicas[0], items)
    count = len(replicas)
    ends = [len(items) * n // count for n in range(count + 1)]
    parts = [items[a:b] for a, b in pairwise(ends)]
    return [x for made in pool.map(_one, replicas, parts) for x in made]


def _one(program: Program, items: list[Any]) -> list[Any]:
    program.run(items)
    (left,) = program.exits.values()
    made = left.items[:]
    left.clear()
    return made
