"""A kit for testing stream programs."""

from __future__ import annotations

from typing import Any

from anabranch.engines.engine import Options
from anabranch.engines.sequential import SequentialEngine
from anabranch.graph.drafts import build_graph
from anabranch.graph.stream import Stream
from anabranch.plan.plan import Plan

_NO_PLAN = Plan((), (), (), (), ())


def outputs(stream: Stream) -> list[Any]:
    """Return the items of a stream, as the sequential engine gives them.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.from_iterable([1, 2]).map(lambda n: -n))
    [-1, -2]
    """
    sink = stream.to_list()
    engine = SequentialEngine()
    engine.start(build_graph([sink]), _NO_PLAN, Options()).wait()
    return sink.items
