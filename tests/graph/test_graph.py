"""Which operators lead to which."""

from __future__ import annotations

import anabranch as ab
from anabranch.graph.graph import ancestors
from anabranch.language.drafts import build_graph


def test_all_ways_to_an_operator_count_and_itself_does_not():
    read = ab.from_iterable([1], name="read")
    one, other = read.map(abs, name="one"), read.map(abs, name="other")
    both = ab.union(one, other, name="both").map(abs, name="last")
    graph = build_graph([both.to_list(), read.to_list(name="aside")])

    assert {"read", "one", "other", "both"} == ancestors(graph, "last")
    assert set() == ancestors(graph, "read")
