"""Thread propagation: which threads can reach each operator (Appendix D).

Every source has a thread, and so has every threaded port. A thread goes on through the
operators behind the place where it starts, until it comes to a threaded port, to the
channels of a region, which have threads of their own, or to an operator that needs a
lock. An operator that several threads can reach needs one; ours keeps their order too
(see `anabranch.runtime.ports`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.graph.graph import Edge, Graph, Input
from anabranch.graph.sources import Source

Parts = Mapping[str, str]  # operator -> the region it is replicated with


@dataclass(frozen=True)
class Threads:
    """What thread propagation finds.

    `leader` names for each operator the first operator of the element it is in: those
    that one thread runs by direct calls. `locks` are the operators that several
    threads reach; `threaded` those that begin with a thread of their own.
    """

    leader: Mapping[str, str]
    locks: frozenset[str]
    threaded: frozenset[str]

    def cut(self, edge: Edge) -> bool:
        """Tell whether a stream goes from one element to another."""
        ends = edge.producer.operator, edge.consumer.operator
        return self.leader[ends[0]] != self.leader[ends[1]]


def propagate_threads(
    graph: Graph, ports: frozenset[Input] = frozenset(), parts: Parts | None = None
) -> Threads:
    """Return which operators share a thread, and which need a lock.

    The example of the paper: with a threaded port at o2, two threads reach o3.

    >>> from anabranch.graph.kinds import Kind
    >>> from anabranch.graph.graph import Op, Output
    >>> from anabranch.graph.sources import Source
    >>> g = Graph((Op("o1", Source()), Op("o2", Kind(), (Output("o1"),)),
    ...            Op("o3", Kind(), (Output("o1"), Output("o2")))))
    >>> propagate_threads(g).locks
    frozenset()
    >>> propagate_threads(g, frozenset({Input("o2")})).locks
    frozenset({'o3'})
    """
    parts = parts or {}
    leader: dict[str, str] = {}
    locks: set[str] = set()
    threaded: set[str] = set()
    for op in graph:
        name = op.name
        before = {leader[output.operator] for output in op.inputs}
        own = [Input(name, port) for port in range(len(op.inputs))]
        same_part = all(parts.get(o.operator) == parts.get(name) for o in op.inputs)
        if isinstance(op.kind, Source):
            leader[name] = name
        elif ports.intersection(own) or (name in parts and not same_part):
            leader[name] = name
            threaded.add(name)
        elif len(before) == 1 and same_part:
            (leader[name],) = before
        else:
            leader[name] = name
            locks.add(name)
    return Threads(leader, frozenset(locks), frozenset(threaded))
