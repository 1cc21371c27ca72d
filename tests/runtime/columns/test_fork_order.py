"""Streams that part and do not meet again: which of them one thread reaches first."""

from __future__ import annotations

import anabranch as ab
from anabranch.compiler.columns.choose_columns import find_columns
from anabranch.errors import OperatorError
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.operators.stateless import WINDOW
from anabranch.runtime.columns.fork_order import ForkOrder
from anabranch.runtime.columns.program_segments import ProgramSegments
from anabranch.runtime.compiled.program import CompileChoice, make_program
from anabranch.runtime.positions import positions_of


def is_even(n: int) -> bool:
    return n % 2 == 0


def divide(n: int) -> int:
    return 12 // n


def edge_between(graph, one, other):
    (edge,) = (e for e in graph.out_edges(one) if e.consumer.operator == other)
    return edge


def order_of(graph, *prolific):
    return ForkOrder(graph, positions_of(graph, frozenset(prolific)))


def test_branches_come_in_the_order_in_which_they_were_written():
    source = ab.from_iterable([], int)
    words = source.flat_map(lambda n: [n, n], name="twice")
    inner = words.map(divide, name="inner")
    sinks = [inner.map(divide, name="deep").to_list(), words.map(divide).to_list()]
    graph = build_graph([*sinks, source.map(divide, name="late").to_list()])
    order = order_of(graph, "twice")

    assert order.is_before("deep", "map")
    assert not order.is_before("map", "deep")
    assert order.is_before("map", "late")
    assert 2 == order.find_width("deep", "map")
    assert 1 == order.find_width("deep", "late")


def test_the_order_is_that_of_the_last_fork_not_of_the_first_source():
    """`meet` is reached first from the first source, but last from the second."""
    first, second = ab.from_iterable([], int), ab.from_iterable([], int)
    graph = build_graph(
        [
            second.map(divide, name="own").to_list(),
            ab.union(first, second, name="meet").map(divide, name="behind").to_list(),
        ]
    )
    edges = [
        edge_between(graph, second_name := graph["own"].inputs[0].operator, "own"),
        edge_between(graph, second_name, "meet"),
    ]
    order = order_of(graph)

    assert order.is_before("own", "behind")
    assert order.is_before(*edges)
    ranks = [one.tolist() for one in order.rank_streams(edges, 2)]
    assert [[0, 0], [0, 0], [0, 1]] == ranks


def test_streams_of_one_source_stay_together():
    """`deep` has an operator of the second source before it, and `early` none."""
    first, second = ab.from_iterable([], int), ab.from_iterable([], int)
    parted, own = second.map(divide, name="parted"), first.map(divide, name="own")
    sinks = [own.map(divide, name="deep").to_list()]
    sinks += [parted.map(divide, name=name).to_list() for name in ("one", "two")]
    graph = build_graph([*sinks, first.map(divide, name="last").to_list()])
    pairs = [("parted", "one"), (graph["last"].inputs[0].operator, "last")]
    pairs += [("own", "deep"), ("parted", "two")]
    edges = [edge_between(graph, *pair) for pair in pairs]

    _, after_one, after_two = order_of(graph).rank_streams(edges, 2)

    assert [0, 2] == sorted({*after_one.tolist()})
    assert after_two[2] < after_two[1]
    assert after_two[0] < after_two[3]


def test_a_failing_branch_leaves_out_nothing_of_an_earlier_branch(monkeypatch):
    """Item 0 leads to a number and a sign on the first branch, and fails on the other."""
    monkeypatch.setattr(ProgramSegments, "fewest", 1)
    source = ab.from_iterable([], int).punctuate(lambda n: n == 9)
    marked = source.punctuate(lambda n: n == 0)
    kept = marked.filter(is_even, name="kept").to_list()
    graph = build_graph([kept, source.map(divide, name="failing").to_list()])
    known = {op.name: Traits("stateless") for op in graph}
    kernels = {r.operator: r.kernel for r in find_columns(graph, known) if r.kernel}
    names = [op.name for op in graph if op.kind.outputs]
    form = positions_of(graph, frozenset({"punctuate", "punctuate_2"}))
    choice = CompileChoice(when="at once", columns=kernels)
    program = make_program(graph, names, names[:1], choice, positions=form)

    message = ""
    try:
        program.run(iter([2, 3, 0, 4]), [[0, 1, 2, 3]])
    except OperatorError as error:
        message = str(error)

    assert {"kept", "failing"} == set(kernels)
    assert "on position 2" in message
    (edge,) = graph.out_edges("kept")
    left = program.exits[edge]
    assert [2, 0, WINDOW] == left.items
