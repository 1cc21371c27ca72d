"""Which streams may carry window punctuations; all others need not look for them."""

from __future__ import annotations

from anabranch.graph.graph import Graph
from anabranch.graph.kinds import Punctuate
from anabranch.graph.sinks import SinkKind
from anabranch.graph.sources import Source
from anabranch.runtime.interpreter import kernel_of


def punctuated_operators(graph: Graph) -> frozenset[str]:
    """Return the operators whose outputs may carry punctuations.

    >>> from anabranch.graph.reading import from_iterable
    >>> from anabranch.graph.drafts import build_graph
    >>> marked = from_iterable([1]).punctuate(bool, name="mark").map(abs, name="next")
    >>> sorted(punctuated_operators(build_graph([marked.to_list()])))
    ['mark', 'next']
    """
    found: set[str] = set()
    for op in graph:
        if isinstance(op.kind, Punctuate) or (
            not isinstance(op.kind, Source | SinkKind)
            and found.intersection(graph.producers(op.name))
            and kernel_of(op).forwards_punctuation
        ):
            found.add(op.name)
    return frozenset(found)
