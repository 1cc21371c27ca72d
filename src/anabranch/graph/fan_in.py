"""Streams brought together: by arrival, by attribute, or one of each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.graph.kinds import Barrier, Merge, Union
from anabranch.graph.stream import Stream, gather
from anabranch.graph.types import made_by


def union(*streams: Stream, name: str | None = None) -> Stream:
    """Bring streams together in the order in which their items arrive.

    >>> import anabranch as ab
    >>> both = ab.union(ab.from_iterable([1, 2]), ab.from_iterable([10]))
    >>> ab.testing.outputs(both)
    [1, 10, 2]
    """
    return gather(Union(), streams, _common_type(streams), name)


def merge(*streams: Stream, by: str, name: str | None = None) -> Stream:
    """Bring streams together by ascending attribute `by`.

    >>> import anabranch as ab
    >>> from typing import NamedTuple
    >>> class Tick(NamedTuple):
    ...     ts: int
    >>> one, two = [ab.from_iterable([Tick(n), Tick(n + 2)], Tick) for n in (2, 1)]
    >>> [t.ts for t in ab.testing.outputs(ab.merge(one, two, by="ts"))]
    [1, 2, 3, 4]
    """
    return gather(Merge(by), streams, _common_type(streams), name)


def barrier(
    *streams: Stream,
    into: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Stream:
    """Wait for one item of each stream and give them together.

    >>> import anabranch as ab
    >>> both = ab.barrier(ab.from_iterable("ab"), ab.from_iterable([1, 2]))
    >>> ab.testing.outputs(both)
    [('a', 1), ('b', 2)]
    """
    return gather(Barrier(into), streams, made_by(into), name)


def fuse(*streams: Stream) -> None:
    """Declare that operators must run in the same processing element.

    >>> import anabranch as ab
    >>> a = ab.from_iterable([1]).map(abs, name="a")
    >>> b = a.map(abs, name="b")
    >>> ab.fuse(a, b)
    """
    for one, two in itertools.pairwise(streams):
        two.draft.fuse_with = one.draft


def _common_type(streams: Sequence[Stream]) -> Any:
    types = {stream.type for stream in streams}
    return types.pop() if len(types) == 1 else None
