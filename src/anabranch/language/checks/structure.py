"""Checks of the graph's structure: names, inputs, cycles, sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from anabranch.errors import Fault
from anabranch.graph.graph import Graph, Op, Output
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.graph.site import call_site
from anabranch.operators.blocks import Collect, Deal
from anabranch.operators.fan_in import Barrier, Merge, Union
from anabranch.operators.join import Join

Check: TypeAlias = Callable[["Streams"], Iterator[Fault]]


class Streams:
    """The operators by name; ambiguous names are unknown."""

    def __init__(self, graph: Graph) -> None:
        self.ops = graph.ops
        counts = Counter(op.name for op in graph)
        self._by_name = {op.name: op for op in graph if counts[op.name] == 1}
        self.names = frozenset(counts)

    def producer(self, stream: Output) -> Op | None:
        """Return the operator that a stream comes from, if known."""
        return self._by_name.get(stream.operator)

    def type(self, stream: Output) -> Any | None:
        """Return the item type of a stream, if known."""
        producer = self.producer(stream)
        return None if producer is None else producer.type

    def types(self, op: Op) -> list[Any | None]:
        """Return the types of an operator's inputs."""
        return [self.type(stream) for stream in op.inputs]

    def item_type(self, op: Op) -> Any | None:
        """Return the input type of an operator with one input."""
        return self.type(op.inputs[0]) if len(op.inputs) == 1 else None


def fault(op: Op, text: str, fix: str) -> Fault:
    """Return a fault of an operator, at the line that made it."""
    return Fault(op.name, text, fix, op.site.file, op.site.line)


_FAN_IN = (Union, Merge, Barrier, Collect)
_MANY = 1_000_000


def sinks(streams: Streams) -> Iterator[Fault]:
    """Yield a fault if nothing is written."""
    if not any(isinstance(op.kind, SinkKind) for op in streams.ops):
        site = call_site()
        yield Fault(
            "",
            "a program must end in a sink; there is none",
            "end a stream with .to_list(), .for_each(f) or .write_csv(path), and run that",
            site.file,
            site.line,
        )


def names(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each operator whose name is taken."""
    first: dict[str, Op] = {}
    for op in streams.ops:
        if op.name in first:
            yield fault(
                op,
                f"the name is taken by the operator at {first[op.name].site}",
                "give one of them another name=",
            )
        first.setdefault(op.name, op)


def inputs(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each input that is missing or unknown."""
    for op in streams.ops:
        least, most = _inputs_of(op)
        if not least <= len(op.inputs) <= most:
            count = str(least) if least == most else f"at least {least}"
            yield fault(
                op,
                f"{op.kind.label} must have {count} input streams; it has "
                f"{len(op.inputs)}",
                "connect as many streams as it needs",
            )
        for stream in op.inputs:
            producer = streams.producer(stream)
            if stream.operator not in streams.names:
                yield fault(
                    op,
                    f"it reads from {stream.operator!r}, which is not in the program",
                    "connect it to an operator of the same program",
                )
            elif producer is not None and _beyond(producer, stream.port):
                yield fault(
                    op,
                    f"it reads stream {stream.port} of {producer.name!r}, which has "
                    f"{producer.kind.outputs}",
                    "take a stream that is there; they are counted from 0",
                )


def cycles(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each cycle, at its first operator."""
    done: set[str] = set()
    for op in streams.ops:
        path: list[Op] = []
        on_path: set[str] = set()
        stack: list[tuple[Op, bool]] = [(op, False)]
        while stack:
            at, leaving = stack.pop()
            if leaving:
                path.pop()
                on_path.discard(at.name)
                done.add(at.name)
            elif at.name in on_path:
                yield _cycle(path[[step.name for step in path].index(at.name) :])
            elif at.name not in done:
                path.append(at)
                on_path.add(at.name)
                stack.append((at, True))
                found = map(streams.producer, at.inputs)
                stack.extend((producer, False) for producer in found if producer)


def _cycle(backwards: list[Op]) -> Fault:
    way = " -> ".join(op.name for op in [backwards[0], *reversed(backwards)])
    return fault(
        backwards[0],
        f"it feeds itself: {way}",
        "streams cannot run in a circle; use .iterate(body, rounds=...) for rounds",
    )


def _beyond(producer: Op, port: int) -> bool:
    """Tell whether a port does not exist; the weights of a deal have their own
    check.
    """
    return not isinstance(producer.kind, Deal) and port >= producer.kind.outputs


def _inputs_of(op: Op) -> tuple[int, int]:
    """Return the minimum and maximum number of an operator's inputs."""
    if isinstance(op.kind, SourceKind):
        return 0, 0
    if isinstance(op.kind, _FAN_IN):
        return 1, _MANY
    return (2, 2) if isinstance(op.kind, Join) else (1, 1)
