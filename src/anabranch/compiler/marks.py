"""Where punctuations come from and where they are awaited.

Replicas of a region that makes punctuations would each make their own, so nothing
outside the region may await them; and punctuations that enter a region are copied to
every replica, so nothing inside it may act on them.
"""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.analysis.traits import Traits
from anabranch.graph.graph import Graph


def passes_marks(traits: Traits) -> bool:
    """Tell whether punctuations of the input are in the output too."""
    return traits.punctuation != "free"


def find_marked(graph: Graph, traits: Mapping[str, Traits]) -> frozenset[str]:
    """Return the operators whose input has punctuations.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> a, b = Op("a", Kind()), Op("b", Kind(), (Output("a"),))
    >>> made = {"a": Traits("stateless", punctuation="generating"),
    ...         "b": Traits("stateless")}
    >>> find_marked(Graph((a, b)), made)
    frozenset({'b'})
    """
    marked: set[str] = set()
    giving: set[str] = set()
    for op in graph:
        if not giving.isdisjoint(graph.producers(op.name)):
            marked.add(op.name)
        punctuation = traits[op.name].punctuation
        if punctuation == "generating" or (
            punctuation == "preserving" and op.name in marked
        ):
            giving.add(op.name)
    return frozenset(marked)


def find_awaited(graph: Graph, traits: Mapping[str, Traits]) -> frozenset[str]:
    """Return the operators whose output must carry its punctuations on to another.

    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.kinds import Kind
    >>> a, b = Op("a", Kind()), Op("b", Kind(), (Output("a"),))
    >>> made = {"a": Traits("stateless"),
    ...         "b": Traits("global", expects_punctuation=True)}
    >>> find_awaited(Graph((a, b)), made)
    frozenset({'a'})
    """
    awaited: set[str] = set()
    for op in reversed(graph.ops):
        of_op = traits[op.name]
        if of_op.expects_punctuation or (passes_marks(of_op) and op.name in awaited):
            awaited.update(graph.producers(op.name))
    return frozenset(awaited)
