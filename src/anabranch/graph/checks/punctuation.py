"""Do window punctuations reach the windows that wait for them.

An operator that brings streams together, or gives items at a pace of its own, takes
punctuations out: there is no place left where they would mean what they meant.
"""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.errors import Fault
from anabranch.graph.checks.streams import Streams, fault
from anabranch.graph.custom import Apply, Scan
from anabranch.graph.graph import Op
from anabranch.graph.iterate import Iterate
from anabranch.graph.kinds import Filter, FlatMap, Map, Punctuate, Split
from anabranch.graph.windows import Aggregate

_LET_THROUGH = (Map, Filter, FlatMap, Scan, Apply, Split, Iterate)


def punctuation(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each window that waits for punctuations in vain."""
    for op in streams.ops:
        if isinstance(op.kind, Aggregate) and op.kind.window.punctuation:
            yield from _awaited(op, streams)


def _awaited(op: Op, streams: Streams) -> Iterator[Fault]:
    stopped_at = _stopped_at(op, streams)
    if stopped_at is None:
        return
    lost = _nearest(stopped_at, streams)
    if lost is None:
        yield fault(
            op,
            "its windows end at punctuations, but nothing puts any into its stream",
            "put .punctuate(when) before .window(punctuation=True)",
        )
    else:
        yield fault(
            op,
            f"its windows end at punctuations; those of {lost.name!r} ({lost.site}) "
            f"are lost at {stopped_at.name!r} ({stopped_at.site})",
            f"put .punctuate(when) behind {stopped_at.name!r}, or window before it",
        )


def _stopped_at(op: Op, streams: Streams) -> Op | None:
    """Return the operator beyond which no punctuation comes; None: one may come."""
    seen = {op.name}
    while len(op.inputs) == 1:
        producer = streams.producer(op.inputs[0])
        if producer is None or producer.name in seen:
            return None  # a graph that is broken in another way
        if isinstance(producer.kind, Punctuate):
            return None
        if not isinstance(producer.kind, _LET_THROUGH):
            return producer
        seen.add(producer.name)
        op = producer
    return None


def _nearest(op: Op, streams: Streams) -> Op | None:
    """Return the nearest operator before `op` that puts punctuations in."""
    seen = {op.name}
    waiting = [op]
    for at in waiting:  # grows as it goes
        for stream in at.inputs:
            producer = streams.producer(stream)
            if producer is None or producer.name in seen:
                continue
            if isinstance(producer.kind, Punctuate):
                return producer
            seen.add(producer.name)
            waiting.append(producer)
    return None
