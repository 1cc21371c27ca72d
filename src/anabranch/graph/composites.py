"""Composites: functions from stream to stream that are built from others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from anabranch.graph.blocks import Collect, Deal, Duplicate, RoundRobin
from anabranch.graph.drafts import Draft
from anabranch.graph.site import call_site
from anabranch.graph.stream import Stream

Composite: TypeAlias = Callable[[Stream], Stream]


def pipeline(*stages: Composite) -> Composite:
    """Return the composite that puts `stages` one behind the other.

    >>> import anabranch as ab
    >>> twice = ab.pipeline(lambda s: s.map(lambda n: n + 1),
    ...                     lambda s: s.map(lambda n: n * 2))
    >>> ab.testing.outputs(ab.from_iterable([1, 2]).pipe(twice))
    [4, 6]
    """

    def composite(stream: Stream) -> Stream:
        for stage in stages:
            stream = stage(stream)
        return stream

    return composite


def split_join(
    splitter: Duplicate | RoundRobin,
    branches: Sequence[Composite],
    joiner: RoundRobin | Duplicate,
    *,
    name: str | None = None,
) -> Composite:
    """Return the composite that runs `branches` side by side and joins them in turn.

    >>> import anabranch as ab
    >>> both = ab.split_join(ab.duplicate(),
    ...                      [lambda s: s.map(lambda n: n), lambda s: s.map(str)],
    ...                      ab.round_robin())
    >>> ab.testing.outputs(ab.from_iterable([1, 2]).pipe(both))
    [1, '1', 2, '2']
    """
    if isinstance(joiner, Duplicate):
        msg = (
            "the joiner of a split_join must be ab.round_robin(...); got "
            "ab.duplicate(); an item cannot come from several branches at once"
        )
        raise TypeError(msg)
    collect = Collect(_weights(joiner, len(branches)))

    def composite(stream: Stream) -> Stream:
        site = call_site()
        inputs = [stream] * len(branches)
        if isinstance(splitter, RoundRobin):
            deal = Deal(_weights(splitter, len(branches)))
            draft = Draft(
                deal,
                ((stream.draft, stream.port),),
                (),
                stream.type,
                site,
                None if name is None else f"{name}_deal",
            )
            inputs = [
                Stream(draft, port, stream.key, stream.type)
                for port in range(len(branches))
            ]
        outputs = [branch(s) for branch, s in zip(branches, inputs, strict=True)]
        types = {output.type for output in outputs}
        made = types.pop() if len(types) == 1 else None
        joined = tuple((output.draft, output.port) for output in outputs)
        draft = Draft(collect, joined, (), made, site, name)
        return Stream(draft, key=stream.key, type=made)

    return composite


def _weights(turn: RoundRobin, branches: int) -> tuple[int, ...]:
    """Spread the weights over the branches; validation checks that they fit."""
    if not turn.weights:
        return (1,) * branches
    return turn.weights * branches if len(turn.weights) == 1 else turn.weights
