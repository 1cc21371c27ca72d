"""Checks whether an operator changes its outputs after it has emitted them.

An item keeps the value that it had when it was emitted: the analysis says whose outputs must be copied
for that (see `Traits.copied`). Of the first items of a program, and of a source, each
output is compared with what it is when the next item has been processed. Nobody else
has it by then, since a batch is sent on as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final, Protocol

from anabranch.errors import RefutedError
from anabranch.graph.graph import Edge, Graph, Op
from anabranch.operators.copied import copy_output
from anabranch.runtime.verify.describe import (
    OpaqueError,
    Outcome,
    describe_value,
    show_outcome,
)

_FIRST: Final = 8  # items that are watched
_AT_REST: Final = (list, tuple, range, str, dict)  # reading them runs no code


class StreamOutputs(Protocol):
    """The outputs on one stream, in the order in which they came."""

    @property
    def items(self) -> list[Any]:
        """The outputs."""


class GivenWatch:
    """Watches the outputs of a program for its first items."""

    def __init__(self, graph: Graph, exits: Mapping[Edge, StreamOutputs]) -> None:
        self._graph = graph
        self._exits = exits
        self._left = _FIRST
        self._error: RefutedError | None = None

    def iterate(self, items: Iterable[Any]) -> Iterable[Any]:
        """Return the items of a batch; reading them compares the outputs."""
        if not self._left:
            return items
        each = iter(items)
        return chain(self._compare(islice(each, self._left)), each)

    def check(self) -> None:
        """Raise if an output has changed."""
        if self._error is not None:
            raise self._error

    def _compare(self, items: Iterable[Any]) -> Iterator[Any]:
        begun = {edge: len(exit_.items) for edge, exit_ in self._exits.items()}
        given: list[tuple[Edge, Any, Outcome]] = []
        for item in items:
            self._left -= 1
            yield item
            for edge, value, before in given:
                after = _describe(value)
                if after is not None and after != before and self._error is None:
                    self._error = refute_given(
                        self._graph[edge.producer.operator], before, after
                    )
            given = []
            for edge, exit_ in self._exits.items():
                for value in exit_.items[begun[edge] :]:
                    now = _describe(value)
                    if now is not None:
                        given.append((edge, value, now))
                begun[edge] = len(exit_.items)


def iterate_given(op: Op, items: Iterable[Any]) -> Iterator[Any]:
    """Iterate over the items of a source as they were given; raise if one has changed
    when the next one has been made.
    """
    if op.copied:
        return map(copy_output, items)
    return iter(items) if type(items) in _AT_REST else SourceWatch(op).iterate(items)


class SourceWatch:
    """Watches the first items that a source makes, however often it is read on."""

    def __init__(self, op: Op) -> None:
        self._op = op
        self._left = _FIRST

    def iterate(self, items: Iterable[Any]) -> Iterator[Any]:
        """Iterate over items; raise if one has changed when the next one is made."""
        each = iter(items)
        if not self._left:
            return each
        return chain(self._compare(islice(each, self._left)), each)

    def _compare(self, items: Iterator[Any]) -> Iterator[Any]:
        last: Any = None
        before: Outcome | None = None
        for item in items:
            self._left -= 1
            after = None if before is None else _describe(last)
            if before is not None and after is not None and after != before:
                raise refute_given(self._op, before, after)
            yield item
            last, before = item, _describe(item)


def _describe(value: Any) -> Outcome | None:
    try:
        return describe_value(value)
    except OpaqueError:
        return None


def refute_given(op: Op, before: Outcome, after: Outcome) -> RefutedError:
    """Return the error for an output that has changed; no other order would help."""
    return RefutedError(
        f"an item must stay as it was given; {op.name!r} ({op.site}) has given "
        f"{show_outcome(before)}, which later was {show_outcome(after)}; give a new "
        f"object each time"
    )
