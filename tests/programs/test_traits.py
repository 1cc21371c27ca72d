"""What analysis says about generated programs, against what they do.

Positions rest on it: an operator that is said to give one output at most has no number
for its outputs in the positions behind it.
"""

from __future__ import annotations

from collections import defaultdict

from anabranch.graph.graph import Graph
from anabranch.language.drafts import build_graph
from anabranch.operators.blocks import Block
from anabranch.operators.sources import FromIterable
from anabranch.python.analyze import analyze
from anabranch.runtime.interpreter import Interpreter
from tests import needs
from tests.programs.generate import program


class Counting(Interpreter):
    """Notes how many outputs each operator gives for an item, and for a punctuation."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, lambda _, item: None)
        self.for_items: dict[str, set[int]] = defaultdict(set)
        self.for_marks: dict[str, set[int]] = defaultdict(set)

    def _at_item(self, cell, item, port):
        outputs = super()._at_item(cell, item, port)
        self.for_items[cell.op.name].add(len(outputs))
        return outputs

    def _at_punctuation(self, cell):
        outputs = super()._at_punctuation(cell)
        self.for_marks[cell.op.name].add(len(outputs))
        return outputs


def counted(graph: Graph) -> Counting:
    interpreter = Counting(graph)
    for op in graph.sources:
        kind = op.kind
        items = kind.items if isinstance(kind, FromIterable) else kind.factory()
        for item in items:
            interpreter.push(op.name, item)
    return interpreter


def test_no_operator_gives_more_or_less_than_its_push_range():
    for seed in range(needs.count_examples(20, 60)):
        generated = program(seed)
        graph = build_graph(generated.build())
        traits = analyze(graph)
        seen = counted(graph)
        for op in graph:
            push, name = traits[op.name].push, op.name
            most = float("inf") if push.most is None else push.most
            least = 0 if isinstance(op.kind, Block) else push.least  # it may wait
            for n in seen.for_items[name]:
                assert least <= n <= most, f"{name} gave {n}, not {push}\n\n{generated}"
            for n in seen.for_marks[name]:
                assert n <= max(1, most), f"{name} gave {n} at a mark\n\n{generated}"
