"""The threads of a flow, their positions, and the rates of its streams.

Streams between elements are counted batch by batch. A fused operator has no counter of
its own, which would cost something per item: from time to time a few batches run
through a program that counts every stream, which gives each operator's share of its
element's items.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from types import CodeType, FrameType

from anabranch.engines.local.delivery import deliverer, finish_key
from anabranch.engines.local.flow import LocalFlow
from anabranch.engines.local.network import Network
from anabranch.engines.local.source_thread import Gate, SourceThread
from anabranch.engines.sinks import Sinks
from anabranch.graph.graph import Edge, Op, ancestors
from anabranch.graph.kind import SourceKind
from anabranch.metrics.load import ThreadSamples
from anabranch.metrics.pipeline import InputLoad, RegionShape, Route, ServiceTime
from anabranch.runtime.element import Replica
from anabranch.runtime.ports import Inlet
from anabranch.runtime.profile import Watched, fill_rates, in_edges
from anabranch.runtime.thread import Places


def _op(frame: FrameType) -> str | None:
    name: str = frame.f_locals["op"].name
    return name


def _source(frame: FrameType) -> str | None:
    name: str = frame.f_locals["self"].op.name
    return name


def _nowhere(_: FrameType) -> str | None:
    return None


# The code of the function that delivers items to a sink.
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
    """Return the current threads of the sources and of all ports."""
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
    """Return what a thread runs: its own replica, and those behind locks."""
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


COUNTED = 2000  # items counted by stream, for one answer
LITTLE_COUNTED = 20  # items: fewer say less than all counted before


@dataclass(frozen=True)
class Work:
    """The work of a replica: items that came in, those `done`, and the time for these."""

    items: int = 0
    busy_s: float = 0.0
    done: int = 0

    def since(self, before: Work) -> Work:
        """Return the work since an earlier reading."""
        return Work(
            self.items - before.items,
            self.busy_s - before.busy_s,
            self.done - before.done,
        )


@dataclass(frozen=True)
class Counters:
    """The counters of a network at a moment."""

    at_s: float
    works: Mapping[str, tuple[Work, ...]]  # element -> replicas
    given: Mapping[Edge, int]  # streams between elements, and to sinks
    inside: Mapping[Edge, int]  # streams inside elements, in counted batches
    counted: Mapping[str, int]  # element -> items of these batches

    def since(self, before: Counters) -> Counters:
        """Return the counts between two readings of one network; `at_s` is the time
        between.
        """
        recent = {
            name: count - before.counted.get(name, 0)
            for name, count in self.counted.items()
        }
        enough = {name for name, count in recent.items() if count >= LITTLE_COUNTED}
        return Counters(
            self.at_s - before.at_s,
            {
                name: tuple(
                    now.since(then)
                    for now, then in zip(works, before.works[name], strict=True)
                )
                for name, works in self.works.items()
            },
            {e: count - before.given.get(e, 0) for e, count in self.given.items()},
            {
                edge: count - before.inside.get(edge, 0) if recent_only else count
                for edge, count in self.inside.items()
                for recent_only in (enough == set(self.counted),)
            },
            recent if enough == set(self.counted) else self.counted,
        )


def count_items(network: Network) -> Counters:
    """Return the counters of a network, and count its next items by stream."""
    given: dict[Edge, int] = {}
    inside: dict[Edge, int] = {}
    counted: dict[str, int] = {}
    for name, replicas in network.replicas.items():
        for replica in replicas:
            for edge, count in tuple(replica.given.items()):
                given[edge] = given.get(edge, 0) + count
        program = replicas[0].program
        if program is not None:
            counted[name] = program.counted
            inside.update(program.counts)
            program.count_next(COUNTED)
    return Counters(
        perf_counter(),
        {
            name: tuple(Work(one.received, one.busy_s, one.done) for one in replicas)
            for name, replicas in network.replicas.items()
        },
        given,
        inside,
        counted,
    )


def find_stream_rates(flow: LocalFlow, done: Counters) -> dict[Edge, float]:
    """Return the items per second on every stream, between two readings.

    Streams between elements are counted. So are those that lead to them through maps
    alone, which preserve the number of items. Others have the share found in counted
    batches; without any, an operator is assumed to give one output per item.
    """
    graph, took_s = flow.graph, max(done.at_s, 1e-9)
    rates = {edge: count / took_s for edge, count in done.given.items()}
    for name, element in flow.network.layout.elements.items():
        came = sum(work.items for work in done.works[name]) / took_s
        counted = done.counted.get(name, 0)
        shares = {
            edge: done.inside.get(edge, 0) / counted
            for operator in element.operators
            for edge in graph.out_edges(operator)
            if counted
        }
        fill_rates(graph, element.operators, rates, came, shares)
    return rates


def shapes_of(flow: LocalFlow) -> dict[str, RegionShape]:
    """Return the regions of a flow, with their active replicas."""
    degrees = flow.configuration.degrees
    return {
        one.name: RegionShape(one.operators, degrees.get(one.name, 1), bool(one.key))
        for one in flow.plan.regions
    }


def list_inputs(
    flow: LocalFlow, done: Counters, rates: Mapping[Edge, float]
) -> Iterator[InputLoad]:
    """Yield all inputs with their rates, by element, without costs."""
    graph, shapes = flow.graph, shapes_of(flow)
    took_s = max(done.at_s, 1e-9)
    for name, element in flow.network.layout.elements.items():
        works = done.works[name]
        busy_s = [work.busy_s for work in works]
        replicas = 1
        if element.part is not None:
            replicas = min(shapes[element.part].degree, len(works))
        share = max(busy_s) / sum(busy_s) if sum(busy_s) > 0 else 1 / replicas
        inside = frozenset(element.operators)
        for operator in element.operators:
            before = (ancestors(graph, operator) & inside) - {operator}
            route = (*(one for one in graph.names if one in before), operator)
            out_per_s = max((rates[e] for e in graph.out_edges(operator)), default=0.0)
            into = [
                (edge.consumer.port, rates.get(edge, 0.0), edge.producer.operator)
                for edge in in_edges(graph, operator)
            ] or [(0, sum(work.items for work in works) / took_s, "")]
            for port, in_per_s, producer in into:
                yield InputLoad(
                    operator,
                    route,
                    ServiceTime(),
                    in_per_s,
                    out_per_s / len(into),
                    replicas,
                    share,
                    port,
                    producer,
                )


def find_weights(samples: Iterable[ThreadSamples]) -> dict[str, float]:
    """Return the number of samples at each operator, on a core or not."""
    found: dict[str, float] = {}
    for one in samples:
        for route, looks in one.stood.items():
            at = route[-1] if route else one.begin
            found[at] = found.get(at, 0.0) + looks
    return found


def fill_elements(
    inputs: Sequence[InputLoad],
    done: Counters,
    weights: Mapping[str, float],
    on_core: float,
) -> Iterator[InputLoad]:
    """Yield inputs with the wall-clock cost of an item.

    `weights` divide the work of an element among its operators, and `on_core` is the
    share that needed a core.
    """
    alike: dict[str, list[InputLoad]] = {}
    for one in inputs:
        alike.setdefault(one.thread, []).append(one)
    took_s = max(done.at_s, 1e-9)
    for name, group in alike.items():
        busy_s = _find_work_s(group, done.works[name], took_s) / took_s
        own = [weights.get(one.operator, 0.0) for one in group]
        if not sum(own):
            own = [1.0] * len(group)
        for one, weight in zip(group, own, strict=True):
            several = sum(each.operator == one.operator for each in group)
            part = busy_s * weight / several / sum(_once(group, own))
            each_s = part / one.in_per_s if one.in_per_s > 0 else 0.0
            yield replace(
                one,
                service=ServiceTime(
                    cpu_s=each_s * on_core, blocked_s=each_s * (1 - on_core)
                ),
            )


def _find_work_s(
    group: Sequence[InputLoad], works: Sequence[Work], took_s: float
) -> float:
    """Return the work that the items that came to an element bring.

    Its replicas know the time for those that they have done. The others, which are
    still in a queue or being worked on, cost the same.
    """
    busy_s, finished = sum(work.busy_s for work in works), sum(w.done for w in works)
    inside = {one.operator for one in group}
    came = took_s * sum(one.in_per_s for one in group if one.producer not in inside)
    if not finished or not came:
        return busy_s
    return busy_s * came / finished


def _once(group: Sequence[InputLoad], weights: Sequence[float]) -> Iterator[float]:
    """Yield the weight of each operator once, whatever the number of its inputs."""
    found = {one.operator: weight for one, weight in zip(group, weights, strict=True)}
    yield from found.values()
