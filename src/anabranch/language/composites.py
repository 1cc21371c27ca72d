"""Functions from streams to streams: fan-in, pipelines and split-joins."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from anabranch.errors import ArgumentError
from anabranch.graph.site import call_site
from anabranch.graph.types import find_made_type
from anabranch.language.drafts import Draft
from anabranch.language.stream import Stream, gather, name_of, names_of, stream_of
from anabranch.operators.blocks import Collect, Deal, Duplicate, RoundRobin
from anabranch.operators.fan_in import Barrier, Merge, Union

Composite: TypeAlias = Callable[[Stream], Stream]


def pipeline(*stages: Composite) -> Composite:
    """Return the composite that applies `stages` in sequence.

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
        raise ArgumentError(msg)
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
        outputs = [
            stream_of(branch(s), "the result of a branch of a split_join")
            for branch, s in zip(branches, inputs, strict=True)
        ]
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


def union(*streams: Stream, name: str | None = None) -> Stream:
    """Combine streams in order of arrival.

    >>> import anabranch as ab
    >>> both = ab.union(ab.from_iterable([1, 2]), ab.from_iterable([10]))
    >>> ab.testing.outputs(both)
    [1, 10, 2]
    """
    return gather(Union(), streams, _common_type(streams), name)


def merge(
    *streams: Stream,
    by: str,
    on: str | Sequence[str] = (),
    name: str | None = None,
) -> Stream:
    """Combine streams by ascending attribute `by`.

    With `on` the items of each key are merged separately: an item waits for items of
    its own key only, and keys run in parallel.

    >>> import anabranch as ab
    >>> from typing import NamedTuple
    >>> class Tick(NamedTuple):
    ...     ts: int
    >>> one, two = [ab.from_iterable([Tick(n), Tick(n + 2)], Tick) for n in (2, 1)]
    >>> [t.ts for t in ab.testing.outputs(ab.merge(one, two, by="ts"))]
    [1, 2, 3, 4]
    """
    kind = Merge(name_of(by, "by"), names_of(on))
    return gather(kind, streams, _common_type(streams), name, kind.on)


def barrier(
    *streams: Stream,
    into: Callable[..., Any] | None = None,
    on: str | Sequence[str] = (),
    name: str | None = None,
) -> Stream:
    """Wait for one item of each stream and emit them together.

    With `on` these items have the same key, and keys run in parallel.

    >>> import anabranch as ab
    >>> both = ab.barrier(ab.from_iterable("ab"), ab.from_iterable([1, 2]))
    >>> ab.testing.outputs(both)
    [('a', 1), ('b', 2)]
    """
    kind = Barrier(into, names_of(on))
    return gather(kind, streams, find_made_type(into), name, kind.on)


def fuse(*streams: Stream) -> None:
    """Declare that operators must run in the same element.

    >>> import anabranch as ab
    >>> a = ab.from_iterable([1]).map(abs, name="a")
    >>> b = a.map(abs, name="b")
    >>> ab.fuse(a, b)
    """
    for one, two in itertools.pairwise(streams):
        two.draft.fuse_with = one.draft


def _common_type(streams: Sequence[Stream]) -> Any:
    types = {stream_of(stream, "each input").type for stream in streams}
    return types.pop() if len(types) == 1 else None
