"""Delivers batches to sinks, and finishes operators at the end of the stream.

At the end all threads are idle, so one thread runs the whole program once more, on the
states that the replicas left. Operators finish one by one, as on the sequential engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import length_hint
from time import perf_counter
from typing import Any

from anabranch.engines.sinks import Sinks
from anabranch.errors import OutputError
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.metrics.latency import SinkLatencies
from anabranch.operators.clock import is_sign
from anabranch.operators.kernel import Kernel
from anabranch.operators.sinks import ForEach, ToList, WriteFiles
from anabranch.runtime.batch import Batch, Origin
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import END, OnError, failure_at_end, failure_of
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.keys import in_key_order
from anabranch.runtime.program import Program
from anabranch.runtime.state import States


def deliverer(
    op: Op,
    sinks: Sinks,
    on_error: OnError,
    latencies: SinkLatencies,
    *,
    punctuated: bool,
) -> Deliver:
    """Return the function that delivers batches to a sink."""
    one = _one_by_one(op, sinks, on_error)
    in_files = isinstance(op.kind, WriteFiles)

    def at_once(items: list[Any], batch: Batch) -> bool:
        try:
            return sinks.deliver_all(op, items)
        except OutputError as error:  # the file fails, whichever item it is
            on_error(failure_of(op, items[-1], batch.where(len(batch) - 1), error))
            return True

    def deliver(batch: Batch) -> None:
        items = batch.items
        if punctuated:
            items = [item for item in items if not is_sign(item)]
        if not items:
            return
        sinks.refuse_if_abandoned()
        if isinstance(op.kind, ToList):
            op.kind.items.extend(items)
            sinks.delivered[op.name] += len(items)
        elif not (in_files and at_once(items, batch)):
            one(items, batch)
        note(batch.origin, len(items))

    def note(origin: Origin, count: int) -> None:
        """Record the age of outputs: that of the item that completed them."""
        if origin.source is None:  # the end of the stream completed them
            return
        now_s = perf_counter()
        born_s, youngest_s = origin.born_s, origin.youngest_s
        latencies.from_birth.record_between(
            now_s - born_s, now_s - youngest_s, count, at_s=now_s
        )
        latencies.from_reading.record(now_s - origin.read_s, count, at_s=now_s)

    return deliver


def _one_by_one(
    op: Op, sinks: Sinks, on_error: OnError
) -> Callable[[list[Any], Batch], None]:
    if isinstance(op.kind, ForEach):
        function = op.kind.function
        counts = True
    else:

        def function(item: Any) -> None:
            sinks.deliver(op, item)

        counts = False

    def hand_over(items: list[Any], batch: Batch) -> None:
        sinks.under_way[op.name] = items
        left, item, failed = iter(items), None, 0
        try:
            while True:
                try:
                    for item in left:
                        function(item)
                    break
                except Exception as error:  # noqa: BLE001 - the user's code
                    failed += 1
                    batch.failed = _place(batch, items, left)
                    where = batch.where(batch.failed)
                    on_error(failure_of(op, item, where, error))
        finally:
            if counts:
                taken = len(items) - length_hint(left)
                sinks.delivered[op.name] += taken - failed

    return hand_over


def _place(batch: Batch, items: list[Any], left: Any) -> int:
    """Return the index in a batch of the item last taken from it."""
    place = len(items) - length_hint(left) - 1
    if len(items) == len(batch):
        return place
    return [i for i, item in enumerate(batch.items) if not is_sign(item)][place]


def finish(
    graph: Graph,
    states: Mapping[str, dict[Any, Any]],
    deliver: Callable[[Op], Deliver],
    on_error: OnError,
    go_on: Callable[[], bool] = lambda: True,
) -> bool:
    """Finish every operator, producers first, its keys in order.

    `go_on` is asked before each key; returns whether all have finished.
    """
    talkers = [op.name for op in graph if _has_last_word(op)]
    if not talkers:
        return True
    states = {name: _open(graph[name], own) for name, own in states.items()}
    program = Program(
        graph,
        graph.names,
        talkers,
        states=states,
        on_error=on_error,
        describe=lambda _: END,
    )
    sinks = {edge: deliver(graph[edge.consumer.operator]) for edge in program.exits}
    for entry, name in enumerate(talkers):
        kernel = kernel_of(graph[name])
        for key in in_key_order(states[name]):
            if not go_on():
                return False
            outputs = finish_key(graph[name], kernel, states[name], key, on_error)
            try:
                program.run(outputs, None, [entry] * len(outputs))
            finally:  # what preceded a failure counts
                for edge, left in program.exits.items():
                    if left.items:
                        sinks[edge](Batch(left.items[:]))
                        left.clear()
    return True


def _open(op: Op, own: dict[Any, Any]) -> States:
    """Return states that can take new keys: the last outputs may bring some."""
    made = States(op, kernel_of(op), fresh=False)
    made.update(own)
    return made


def _has_last_word(op: Op) -> bool:
    if isinstance(op.kind, SourceKind | SinkKind):
        return False
    kernel = kernel_of(op)
    return kernel.stateful and type(kernel).finish is not Kernel.finish


def finish_key(
    op: Op, kernel: Kernel, states: dict[Any, Any], key: Any, on_error: OnError
) -> list[Any]:
    outputs: list[Any] = []
    for turn in kernel.endings(key, states[key]):
        try:
            outputs += turn.run()
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            on_error(failure_at_end(op, turn.key, error))
    return outputs
