"""Do rounds end, and can what a round gives go into the next."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.errors import Fault
from anabranch.graph.attributes import may_be
from anabranch.graph.checks.streams import Streams, fault
from anabranch.graph.graph import Op
from anabranch.graph.iterate import Iterate
from anabranch.graph.sources import Given
from anabranch.graph.types import type_name


def rounds(streams: Streams) -> Iterator[Fault]:
    """Yield the faults of each iterate, apart from those inside its body."""
    for op in streams.ops:
        if isinstance(op.kind, Iterate):
            yield from _ends(op, op.kind)
            yield from _body(op, op.kind, streams)


def strays(streams: Streams) -> Iterator[Fault]:
    """Yield a fault where the stream inside an iterate is used outside of it."""
    for op in streams.ops:
        if isinstance(op.kind, Given):
            yield fault(
                op,
                "the stream inside an iterate is used outside of it",
                "use only what iterate returns",
            )


def _ends(op: Op, kind: Iterate) -> Iterator[Fault]:
    if kind.rounds is None and kind.until is None:
        yield fault(
            op,
            "iterate must end; it has neither rounds nor until",
            "give rounds=, the number of rounds, or until=, when to stop",
        )
    elif kind.rounds is not None and (
        not isinstance(kind.rounds, int) or kind.rounds < 1
    ):
        yield fault(
            op,
            f"rounds must be a whole number of 1 or more; got {kind.rounds!r}",
            "give rounds= a positive number, or leave the iterate out",
        )


def _body(op: Op, kind: Iterate, streams: Streams) -> Iterator[Fault]:
    sources = kind.body.sources
    given = [source for source in sources if isinstance(source.kind, Given)]
    if len(sources) != 1 or not given:
        others = [source for source in sources if source not in given[:1]]
        read = ", ".join(f"{other.name!r} ({other.site})" for other in others)
        yield fault(
            op,
            "the body of iterate must make its stream from the one it is given, and "
            f"from that alone; it reads {read or 'nothing'}",
            "bring other streams in before the iterate",
        )
    taken, made = streams.item_type(op), op.type
    if kind.rounds != 1 and not may_be(made, taken):
        yield fault(
            op,
            f"a round takes {type_name(taken)} but gives {type_name(made)}, which "
            f"the next round cannot take",
            "let the body give what it takes, and map behind the iterate",
        )
