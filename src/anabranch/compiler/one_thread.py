"""Finds programs whose parts must alternate item by item because they share state.

Operators that share something stay together in one element, which nothing divides: an
item goes through all of them before the next one comes. That is the order of one
thread. If that is impossible, the whole program runs as one thread: a source reads
ahead of its consumers, a sink lags behind, a region and a second entry have an order of
their own, and at the end of the stream operators finish one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from anabranch.graph.graph import Graph, Op, ancestors, descendants
from anabranch.graph.kind import SinkKind, SourceKind, Traits
from anabranch.operators.clock import EventTime
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.join import Lookup
from anabranch.operators.stateless import Filter, FlatMap, Map, Split
from anabranch.plan.plan import Element, Reason
from anabranch.python.sharing import Sharing
from anabranch.python.values import Effect


class OneThread(NamedTuple):
    """Why a whole program runs as one thread."""

    text: str
    reason: Reason
    advice: str = ""


REWRITE = "Kept as the state of a scan or an Operator, it would not keep the rest from running in parallel."


def find_changed_items(
    graph: Graph, traits: Mapping[str, Traits]
) -> tuple[Sharing, ...]:
    """Return who receives, on another branch, items that an operator changes."""
    found = []
    for op in graph:
        evidence = traits[op.name].evidence
        how = next((e for e in evidence if e.cause == "input"), None)
        if how is not None:
            before = ancestors(graph, op.name)
            reached = set().union(*(descendants(graph, name) for name in before))
            others = reached - before - {op.name} - descendants(graph, op.name)
            text = f"gets items that {op.name} changes"
            found += [
                Sharing(name, op.name, text, how.file, how.line)
                for name in graph.names
                if name in others
            ]
    return tuple(found)


def find_together(sharing: Sequence[Sharing]) -> tuple[tuple[str, ...], ...]:
    """Return the groups of parts that share something, directly or indirectly.

    >>> pairs = ["ba", "cb", "ed"]
    >>> find_together([Sharing(*pair, "reads it", "f.py", 1) for pair in pairs])
    (('a', 'b', 'c'), ('d', 'e'))
    """
    groups: list[set[str]] = []
    for shared in sharing:
        pair = {shared.reader, shared.writer}
        joined = pair.union(*(group for group in groups if group & pair))
        groups = [group for group in groups if not group & pair] + [joined]
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def why_one_for_silence(graph: Graph) -> OneThread | None:
    """Return why a program whose clocks may be idle runs as one thread, or None.

    All operators behind a clock must learn of a silent input at the same place of the
    stream. On an engine that works in epochs, that is between two of them.
    """
    for op in graph:
        if isinstance(op.kind, EventTime) and op.kind.idle:
            text = (
                f"{op.name} has idle=, and only between two epochs of Spark can many "
                f"threads learn at the same place of a stream that it is silent"
            )
            return OneThread(text, Reason("order", text, op.site.file, op.site.line))
    return None


def why_one_for_identity(identity: Mapping[str, Effect]) -> OneThread | None:
    """Return why a program that asks for identity runs as one thread, or None.

    On an engine with several processes, items are copies and so are states from epoch
    to epoch. One thread of this process has no copies.

    >>> asked = Effect("identity", "x is END asks for identity", "f.py", 3)
    >>> why_one_for_identity({"filter": asked}).text
    'filter must not be given copies: x is END asks for identity'
    """
    for name, effect in identity.items():
        text = f"{name} must not be given copies: {effect.text}"
        return OneThread(text, Reason("state", text, effect.file, effect.line))
    return None


def why_one_thread(
    graph: Graph, elements: Sequence[Element], sharing: Sequence[Sharing]
) -> OneThread | None:
    """Return why no element can hold all parts that share something, or None."""
    for group in find_together(sharing):
        why = _why_not_together(graph, elements, group)
        if why is not None:
            shared = next(each for each in sharing if each.reader in group)
            text = f"{shared.reader} {shared.text}; {why}"
            reason = Reason("state", text, shared.file, shared.line)
            return OneThread(text, reason, REWRITE)
    return None


def _why_not_together(
    graph: Graph, elements: Sequence[Element], group: Sequence[str]
) -> str | None:
    for name in group:
        if name not in graph:
            return "failures are taken wherever they happen"
        why = _why_not_by_turns(graph[name])
        if why is not None:
            return why
    element = next(e for e in elements if group[0] in e.operators)
    if element.region is not None or not set(group) <= set(element.operators):
        return "other operators run between them, or beside them, in parallel"
    if len(list(_count_entries(graph, element))) > 1:
        return "several streams lead to them, each with a pace of its own"
    return None


def _why_not_by_turns(op: Op) -> str | None:
    """Return why an operator does not do all its work when an item comes, or None."""
    match op.kind:
        case SourceKind():
            return f"{op.name} is read ahead"
        case SinkKind():
            return f"{op.name} is written behind"
        case Map() | Filter() | FlatMap() | Lookup() | Scan() | Split():
            return None
        case Apply() if not (
            any(map(op.kind.overrides, ("punctuation", "finish", "on_time")))
        ):
            return None
    return f"{op.name} also works at the end of a window or of the stream"


def _count_entries(graph: Graph, element: Element) -> Iterator[object]:
    for name in element.operators:
        if isinstance(graph[name].kind, SourceKind):
            yield name
    for edge in graph.edges:
        inside = edge.consumer.operator in element.operators
        if inside and edge.producer.operator not in element.operators:
            yield edge
