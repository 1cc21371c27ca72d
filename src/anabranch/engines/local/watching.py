"""Which threads a flow has, and where they are now."""

from __future__ import annotations

import threading
from functools import cache
from types import CodeType, FrameType

from anabranch.engines.engine import Places
from anabranch.engines.local.delivery import deliverer, finish_key
from anabranch.engines.local.flow import LocalFlow
from anabranch.engines.local.reading import Gate, SourceThread
from anabranch.engines.sinks import Sinks
from anabranch.graph.graph import Op, ancestors
from anabranch.graph.kind import SourceKind
from anabranch.metrics.load import Route
from anabranch.runtime.element import Replica
from anabranch.runtime.ports import Inlet
from anabranch.runtime.profile import Watched


def _op(frame: FrameType) -> str | None:
    name: str = frame.f_locals["op"].name
    return name


def _source(frame: FrameType) -> str | None:
    name: str = frame.f_locals["self"].op.name
    return name


def _nowhere(_: FrameType) -> str | None:
    return None


# The code of the function that hands items over to a sink.
(DELIVER,) = (
    code
    for code in deliverer.__code__.co_consts
    if isinstance(code, CodeType) and code.co_name == "deliver"
)


PLACES: Places = {
    DELIVER: _op,
    finish_key.__code__: _op,
    Sinks._flush.__code__: _op,  # noqa: SLF001
    SourceThread._drive.__code__: _source,  # noqa: SLF001
    # A source that waits for others is not at work.
    Inlet.await_room.__code__: _nowhere,
    Gate.__enter__.__code__: _nowhere,
}


def list_watched_threads(flow: LocalFlow) -> list[Watched]:
    """Return the threads of the sources and of all ports, as they are now."""
    network = flow.network
    found = []
    for source in flow.sources:
        (replica,) = network.replicas[source.op.name]
        found.append(_describe_thread(flow, source.thread, source.op.name, replica))
    threads = network.threads
    found += [
        _describe_thread(flow, threads[replica.name], name, replica)
        for name, replicas in network.replicas.items()
        for replica in replicas
        if replica.name in threads
    ]
    return found


def _describe_thread(
    flow: LocalFlow, thread: threading.Thread, begin: str, replica: Replica
) -> Watched:
    """Tell what a thread runs: its own replica, and those behind locks."""
    network, graph = flow.network, flow.graph
    run = network.run_by_thread_of(replica)
    head_of = {
        one.name: name for name, ones in network.replicas.items() for one in ones
    }
    elements = [network.layout.elements[head_of[one.name]] for one in run]
    operators = {name for element in elements for name in element.operators}

    def leading_to(name: str) -> Route:
        before = ancestors(graph, name) & operators
        return tuple(one for one in graph.names if one in before)

    @cache
    def way_to(sink: str) -> Route:
        return (*leading_to(sink), sink)

    def at_sink(frame: FrameType) -> Route:
        op: Op = frame.f_locals["op"]
        return way_to(op.name)

    return Watched(
        thread,
        begin,
        programs=[one.program for one in run if one.program is not None],
        before={
            part.filename: leading_to(head_of[one.name])
            for one in run
            if one.program is not None
            for part in one.program.parts
        },
        elsewhere={DELIVER: at_sink},
        reads=isinstance(graph[begin].kind, SourceKind),
    )
