"""Fused programs follow the same rules as the kernels that they stand in for."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from anabranch.graph.graph import Edge, Input, Output
from anabranch.language.drafts import build_graph
from anabranch.runtime.interpreter import Interpreter
from anabranch.runtime.program import Program

NO_PAIRS = {
    "a list of two": lambda total, n: [total + n, n],
    "a text of two": lambda total, n: "ab",
    "a dict of two": lambda total, n: {total: n, "more": n},
    "a generator of two": lambda total, n: (each for each in (total, n)),
    "a tuple of three": lambda total, n: (total, n, n),
    "a tuple of one": lambda total, n: (total,),
    "nothing": lambda total, n: None,
}


class Pair(NamedTuple):
    state: int
    output: int


def graph_of(step):
    return build_graph([ab.from_iterable([1]).scan(step, 0).to_list()])


@pytest.mark.parametrize("step", NO_PAIRS.values(), ids=list(NO_PAIRS))
def test_a_step_must_return_a_tuple_of_two_fused_and_interpreted(step):
    graph = graph_of(step)
    fused = Program(graph, ("from_iterable", "scan"), ["from_iterable"])
    interpreter = Interpreter(graph, lambda op, item: None)

    with pytest.raises(OperatorError, match="a tuple of two"):
        fused.run([1])
    with pytest.raises(OperatorError, match="a tuple of two"):
        interpreter.push("from_iterable", 1)


def test_a_flat_map_must_return_outputs_fused_and_interpreted():
    graph = build_graph([ab.from_iterable([1]).flat_map(lambda _: None).to_list()])
    fused = Program(graph, ("from_iterable", "flat_map"), ["from_iterable"])
    interpreter = Interpreter(graph, lambda op, item: None)

    with pytest.raises(OperatorError, match="an iterable of outputs; got None"):
        fused.run([1])
    with pytest.raises(OperatorError, match="an iterable of outputs; got None"):
        interpreter.push("from_iterable", 1)


def test_a_step_may_return_a_named_tuple_of_two():
    graph = graph_of(lambda total, n: Pair(total + n, total + n))
    fused = Program(graph, ("from_iterable", "scan"), ["from_iterable"])

    fused.run([5, 6])

    assert [5, 11] == fused.exits[Edge(Output("scan"), Input("to_list", 0))].items


def selective_program():
    stream = ab.from_iterable([1], name="read").filter(rare, name="rare")
    graph = build_graph([stream.flat_map(twice, name="twice").to_list(name="out")])
    return Program(graph, ("read", "rare", "twice"), ["read"])


def rare(n):
    return n % 100 == 0


def twice(n):
    return [n, 1 // (n - 700)]


def test_batches_that_are_counted_tell_the_items_of_each_stream():
    counting, plain = selective_program(), selective_program()

    counting.count_next(1)
    for program in (counting, plain):
        program.run(range(300))
        program.run(range(300))

    names = {edge.consumer.operator: n for edge, n in counting.counts.items()}
    assert {"rare": 300, "twice": 3, "out": 6} == names
    assert 300 == counting.counted
    assert [one.items for one in plain.exits.values()] == [
        one.items for one in counting.exits.values()
    ]


def test_a_batch_that_is_counted_fails_where_another_one_does():
    program, failures = selective_program(), []

    for counted in (0, 1):
        program.count_next(counted)
        with pytest.raises(OperatorError) as caught:
            program.run(range(600, 800))
        failures.append(str(caught.value))

    assert failures[0] == failures[1]
    assert "twice" in failures[0]
    assert "700" in failures[0]


def test_a_chain_may_be_as_long_as_one_likes():
    stream = ab.from_iterable([1, 2], int)
    for _ in range(400):
        stream = stream.map(abs)
    out = stream.to_list()
    ab.run(out, on="local")

    assert [1, 2] == out.items
