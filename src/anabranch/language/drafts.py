"""Operators as written, and the graph they form.

A chain of calls builds drafts that point back to their inputs; nothing is global and
nothing runs. `build_graph` walks back from the sinks and returns the `Graph`.

It also tells each clock which of its advances matter: time windows use it at their
ends only.
"""

from __future__ import annotations

import itertools
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.errors import ArgumentError
from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.kind import Kind
from anabranch.graph.site import Site
from anabranch.operators.clock import Duration, EventTime, Timing, has_idle
from anabranch.operators.fan_in import Union
from anabranch.operators.sinks import ToList
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


LONGEST_CHAIN = 6  # operators that are shown

_NO_TYPES = (str, bytes, numbers.Number, list, tuple, dict, set)  # mistaken for one
_serial = itertools.count()


@dataclass(eq=False)
class Draft:
    """An operator that is not in a graph yet."""

    kind: Kind
    inputs: tuple[tuple[Draft, int], ...]
    key: tuple[str, ...]
    type: Any
    site: Site
    name: str | None
    serial: int = field(default_factory=lambda: next(_serial))
    fuse_with: Draft | None = None
    timing: Timing | None = None

    def __post_init__(self) -> None:
        if isinstance(self.type, _NO_TYPES):
            msg = (
                f"{self.site}: type of {self.kind.label} must be the type of the items; "
                f"got {self.type!r}"
            )
            raise ArgumentError(msg)
        if self.name is not None and not _is_name(self.name):
            msg = (
                f"{self.site}: name of {self.kind.label} must be a text of one line; "
                f"got {self.name!r}"
            )
            raise ArgumentError(msg)

    def __repr__(self) -> str:
        return f"<Draft {self.title}, {self.chain}>"

    @property
    def title(self) -> str:
        """Its kind, and its name if the user gave it one."""
        label = self.kind.label
        return label if self.name is None else f"{label} {self.name!r}"

    @property
    def chain(self) -> str:
        """The operators that lead to it, in a few words; of several inputs the first.

        >>> import anabranch as ab
        >>> ab.from_iterable([1, 2]).map(abs).draft.chain
        'from_iterable -> map'
        """
        at, labels = self, [self.kind.label]
        while at.inputs:
            (at, _), *others = at.inputs
            more = f" and {len(others)} more" if others else ""
            labels.append(at.kind.label + more)
        labels.reverse()
        if len(labels) > LONGEST_CHAIN:
            labels[2:-2] = ["..."]
        return " -> ".join(labels)


@dataclass(frozen=True, eq=False)
class Result:
    """The end of a stream, as taken by `ab.run` and `ab.compile`.

    >>> import anabranch as ab
    >>> out = ab.from_iterable([1, 2]).to_list()
    >>> _ = ab.run(out, on="sequential")
    >>> out.items
    [1, 2]
    """

    draft: Draft

    def __repr__(self) -> str:
        return f"<Result {self.draft.title}, {self.draft.chain}>"

    @property
    def items(self) -> list[Any]:
        """The items that a `to_list` sink has collected, in order."""
        if not isinstance(self.draft.kind, ToList):
            msg = f"only a to_list sink has items; this is {self.draft.kind.label}"
            raise AttributeError(msg)  # noqa: TRY004 - as for any object without it
        return self.draft.kind.items


def _is_name(given: object) -> bool:
    return isinstance(given, str) and given.isprintable() and given.strip() != ""


def build_graph(sinks: Sequence[Result]) -> Graph:
    """Return the graph that leads to `sinks`, its operators in the order written."""
    reached: dict[int, Draft] = {}
    waiting = [sink.draft for sink in sinks]
    while waiting:
        draft = waiting.pop()
        if draft.serial not in reached:
            reached[draft.serial] = draft
            waiting.extend(producer for producer, _ in draft.inputs)
    drafts = [reached[serial] for serial in sorted(reached)]
    names = _names(drafts)
    graph = Graph(
        tuple(
            Op(
                name=names[draft.serial],
                kind=draft.kind,
                inputs=tuple(Output(names[d.serial], port) for d, port in draft.inputs),
                key=draft.key,
                type=draft.type,
                site=draft.site,
                fuse_with=None
                if draft.fuse_with is None
                else names.get(draft.fuse_with.serial),
                timing=draft.timing,
            )
            for draft in drafts
        )
    )
    ops = [replace(op, kind=tell_steps(graph, op)) for op in graph]
    return Graph(tuple(ops))


def _names(drafts: Sequence[Draft]) -> dict[int, str]:
    """Name the operators that the user left unnamed: map, map_2, map_3."""
    taken = {draft.name for draft in drafts if draft.name is not None}
    counts: dict[str, int] = {}
    names: dict[int, str] = {}
    for draft in drafts:
        name = draft.name
        while name is None or (draft.name is None and name in taken):
            label = draft.kind.label
            counts[label] = counts.get(label, 0) + 1
            name = label if counts[label] == 1 else f"{label}_{counts[label]}"
        names[draft.serial] = name
    return names
