"""Hand batches over to sinks, and measure how long their items were on the way."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from anabranch.engines.sinks import Sinks
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import ForEach, ToList, WriteFiles
from anabranch.metrics.latency import Latencies
from anabranch.runtime.batch import Batch
from anabranch.runtime.element import Deliver
from anabranch.runtime.failures import OnError, failure_of
from anabranch.runtime.punctuation import WINDOW


def deliverer(
    op: Op,
    sinks: Sinks,
    on_error: OnError,
    latencies: Latencies,
    *,
    punctuated: bool,
) -> Deliver:
    """Return the function that hands batches over to a sink."""
    one = _one_by_one(op, sinks, on_error)
    in_files = isinstance(op.kind, WriteFiles)

    def at_once(items: list[Any], batch: Batch) -> bool:
        try:
            return sinks.deliver_all(op, items)
        except OutputError as error:  # the file fails, whichever item it is
            on_error(failure_of(op, items[-1], batch.origin.text, error))
            return True

    def deliver(batch: Batch) -> None:
        items = batch.items
        if punctuated:
            items = [item for item in items if item is not WINDOW]
        if not items:
            return
        if isinstance(op.kind, ToList):
            op.kind.items.extend(items)
            sinks.delivered[op.name] += len(items)
        elif not (in_files and at_once(items, batch)):
            one(items, batch)
        latencies.record(perf_counter() - batch.origin.born_s, len(items))

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
        left, item, failed = iter(items), None, 0
        while True:
            try:
                for item in left:
                    function(item)
                break
            except Exception as error:  # noqa: BLE001 - the user's code may raise anything
                failed += 1
                on_error(failure_of(op, item, batch.origin.text, error))
        if counts:
            sinks.delivered[op.name] += len(items) - failed

    return hand_over
