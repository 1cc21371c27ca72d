"""Whole generated programs as one fused program: same outputs, ascending positions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pytest

from anabranch.graph.graph import Graph
from anabranch.graph.kind import Kind, SinkKind, SourceKind
from anabranch.language.drafts import build_graph
from anabranch.operators.custom import Scan
from anabranch.operators.fan_in import Union
from anabranch.operators.sources import FromIterable
from anabranch.operators.stateless import WINDOW, Filter, Map
from anabranch.operators.windows import Aggregate
from anabranch.runtime import program as fused
from anabranch.runtime.failures import policy
from anabranch.runtime.positions import positions_of
from tests import needs
from tests.programs.generate import (
    Program,
    first_difference,
    program,
    run_sequential,
)

Turn = tuple[int, int, Any]  # round, number of the source, item


def may_give_several(kind: Kind) -> bool:
    """Tell whether an operator may give several outputs for one item."""
    if isinstance(kind, Aggregate):
        return kind.window.count is None
    return not isinstance(kind, Map | Filter | Union | Scan | SourceKind | SinkKind)


def turns(graph: Graph) -> Iterator[Turn]:
    """Yield the items of the sources, which take turns."""
    items = [
        list(op.kind.items if isinstance(op.kind, FromIterable) else op.kind.factory())
        for op in graph.sources
    ]
    for turn in range(max(map(len, items))):
        for number, mine in enumerate(items):
            if turn < len(mine):
                yield turn, number, mine[turn]


def run_fused(generated: Program) -> list[list[Any]]:
    graph = build_graph(generated.build())
    entries = [op.name for op in graph if not isinstance(op.kind, SinkKind)]
    number_of = {name: number for number, name in enumerate(entries)}
    on_error = policy("skip" if generated.failing else "stop")
    whole = fused.Program(graph, graph.names, entries, on_error=on_error)
    for _, source, item in turns(graph):
        whole.run([item], None, [number_of[graph.sources[source].name]])
    for name in entries:
        if name in whole.states and graph[name].kind.outputs == 1:
            for _, outputs in sorted(whole.finish(name), key=itemgetter(0)):
                for output in outputs:
                    whole.run([output], None, [number_of[name]])
    left = {edge.consumer.operator: out.items for edge, out in whole.exits.items()}
    return [
        [item for item in left.get(op.name, ()) if item is not WINDOW]
        for op in graph.sinks
    ]


@pytest.mark.parametrize("failing", [False, True], ids=["", "failing"])
def test_a_fused_program_gives_what_the_interpreter_gives(failing):
    for seed in range(needs.count_examples(35, 100)):
        generated = program(seed, failing=failing)
        expected, actual = run_sequential(generated), run_fused(generated)

        for left, right in zip(expected, actual, strict=True):
            difference = first_difference(left, right)
            assert difference is None, f"{difference}\n\n{generated}"


def test_what_leaves_a_fused_program_has_ascending_positions():
    """
    Even with all the numbers left out that cannot make a difference.
    """
    compared = 0
    for seed in range(needs.count_examples(35, 100)):
        graph = build_graph(program(seed).build())
        prolific = {op.name for op in graph if may_give_several(op.kind)}
        positions = positions_of(graph, frozenset(prolific))
        sources = [op.name for op in graph.sources]
        whole = fused.Program(graph, graph.names, sources, positions=positions)
        taken = list(turns(graph))
        columns = [[turn for turn, _, _ in taken], [source for _, source, _ in taken]]
        whole.run(
            [item for _, _, item in taken],
            columns if len(sources) > 1 else columns[:1],
            columns[1],
        )
        for out in whole.exits.values():
            placed = list(zip(*out.positions, strict=True))
            compared += len(placed)
            assert all(one < two for one, two in pairwise(placed)), program(seed)

    assert compared > 1000
