"""The chain of the figures on Spark, where a threaded port is a cut between workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anabranch as ab
from anabranch.epochs.epoch_run import EpochRun
from anabranch.epochs.log import Seen
from anabranch.job import compile_sinks, engine_named
from anabranch.runtime.thread import Options
from bench.autopipe.chain import chain


@contextmanager
def endless_on_spark(count: int, payload: int, epoch_items: int) -> Iterator[EpochRun]:
    """Run the chain in one task for each epoch; nothing comes out of it."""
    sink = chain(count, payload).filter(_never, name="none").to_list()
    made = compile_sinks(sink, on="spark")
    options = Options(degree=1, epoch_items=epoch_items)
    run: Any = engine_named("spark").start(made.graph, made.plan, options)
    try:
        yield run
    finally:
        run.stop()


def epoch(
    run: EpochRun, cuts: tuple[str, ...] = (), *, profiling: bool = False
) -> Seen:
    """Return the next epoch that has these cuts."""
    run.set_cuts(cuts)
    run._epoch_log.profiling = profiling  # noqa: SLF001 - what the actuator does
    seen = run._epoch_log.next(1, run.ended)  # noqa: SLF001
    assert seen is not None
    return seen[0]


def _never(item: Any) -> bool:
    return item is None


ab.trust(__name__)
