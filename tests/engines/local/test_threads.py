"""Thread propagation: which operators share a thread, and where locks are on."""

from __future__ import annotations

import pytest

from anabranch.engines.local.layout import propagate_threads
from anabranch.graph.graph import Graph, Input, Op, Output
from anabranch.graph.kind import Kind, SourceKind


def graph(text: str) -> Graph:
    """Return the graph of `a; b < a; c < a b`: an operator, and what it takes from."""
    ops = []
    for part in text.split(";"):
        name, _, inputs = (piece.strip() for piece in part.partition("<"))
        outputs = tuple(Output(producer) for producer in inputs.split())
        ops.append(Op(name, Kind() if outputs else SourceKind(), outputs))
    return Graph(tuple(ops))


def shown(threads) -> str:
    """Return the elements in order, those that need a lock in brackets."""
    members: dict[str, str] = {}
    for name, leader in threads.leader.items():
        members[leader] = members.get(leader, "") + name
    return " | ".join(
        f"[{names}]" if leader in threads.locks else names
        for leader, names in members.items()
    )


CASES = {
    "one thread runs a chain": ("s; a < s; b < a", "", {}, "sab"),
    "a threaded port begins another": ("s; a < s; b < a", "b", {}, "sa | b"),
    "one thread may reach an operator by two ways": (
        "s; a < s; b < s a",
        "",
        {},
        "sab",
    ),
    "two threads need a lock": ("s; a < s; b < s a", "a", {}, "s | a | [b]"),
    "two sources need a lock": ("s; t; a < s t; b < a", "", {}, "s | t | [ab]"),
    "a port where threads meet is the lock": (
        "s; a < s; b < s a",
        "a b",
        {},
        "s | a | b",
    ),
    "what follows a lock is behind it": (
        "s; a < s; b < s a; c < b",
        "a",
        {},
        "s | a | [bc]",
    ),
    "channels have threads and a merger has a lock": (
        "s; a < s; b < a; c < b",
        "",
        {"a": "r", "b": "r"},
        "s | ab | [c]",
    ),
    "a shuffle needs no lock": (
        "s; a < s; b < a; c < b",
        "",
        {"a": "r0", "b": "r1"},
        "s | a | b | [c]",
    ),
}


@pytest.mark.parametrize(("text", "ports", "parts", "after"), CASES.values(), ids=CASES)
def test_propagation(text, ports, parts, after):
    places = frozenset(Input(name) for name in ports.split())

    assert after == shown(propagate_threads(graph(text), places, parts))


def test_appendix_d_a_port_at_o2_turns_the_lock_of_o3_on_and_its_removal_turns_it_off():
    """
    o1 feeds o2 and o3, and o2 feeds o3. One thread runs all of them. With a threaded
    port at o2 there are two threads that execute o3.
    """
    example = graph("o0; o1 < o0; o2 < o1; o3 < o1 o2")
    port = Input("o2")

    before = propagate_threads(example)
    inserted = propagate_threads(example, frozenset({port}))
    removed = propagate_threads(example, frozenset())

    assert frozenset() == before.locks
    assert frozenset({"o3"}) == inserted.locks
    assert frozenset() == removed.locks
