"""Which advances of a clock matter: time windows use it at their ends only."""

from __future__ import annotations

from dataclasses import replace

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import Kind
from anabranch.operators.clock import EventTime, has_idle
from anabranch.operators.stateless import Union
from anabranch.operators.timescale import Duration
from anabranch.operators.windows import Aggregate


def tell_steps(graph: Graph, op: Op) -> Kind:
    """Return the kind of an operator; a clock knows when nothing can happen.

    >>> import anabranch as ab
    >>> clock = ab.from_iterable([1, 2]).event_time("real", name="clock")
    >>> windows = clock.window(time=10).aggregate(n=ab.count()).to_list()
    >>> from anabranch.language.drafts import build_graph
    >>> build_graph([windows])["clock"].kind.steps
    (10,)
    """
    if not isinstance(op.kind, EventTime) or has_idle(graph):
        return op.kind  # a clock that meets an idle one may move at any advance
    steps: dict[Duration, None] = {}
    seen: set[str] = set()
    waiting = list(graph.consumers(op.name))
    while waiting:
        follower = graph[waiting.pop()]
        if follower.name in seen or isinstance(follower.kind, EventTime):
            continue
        seen.add(follower.name)
        waiting += graph.consumers(follower.name)
        if follower.timing is None or isinstance(follower.kind, Union):
            continue
        step = _step_of(follower.kind)
        if step is None:
            return replace(op.kind, steps=())
        steps[step] = None
    return replace(op.kind, steps=tuple(steps))


def _step_of(kind: Kind) -> Duration | None:
    if not isinstance(kind, Aggregate) or kind.window.time is None:
        return None
    return kind.window.time if kind.window.every is None else kind.window.every
