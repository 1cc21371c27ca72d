"""A job's files on the hosts of a cluster.

States are local files. On several hosts a task may run where its states are not; with a
checkpoint they are restored there, without one that is impossible. So a stateful
program is refused on several hosts before it has read a row, unless it has a
checkpoint.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable

import pyarrow as pa

from anabranch.engines.spark.access import SparkAccess
from anabranch.epochs.layout import EpochLayout
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.unit.runner import remembers_nothing
from anabranch.errors import EngineError
from anabranch.runtime.interpreter import kernel_of

SHARED_S = 0.1  # that a task stays, so that none runs all of them


def refuse_states_on_several_hosts(layout: EpochLayout, several: str | None) -> None:
    """Refuse a stateful program without a checkpoint on several hosts.

    `several` is what says that there are several, or None.
    """
    stateful = find_stored(layout)
    if several is None or not stateful:
        return
    op = layout.graph[stateful[0]]
    msg = (
        f"the state of {op.name} ({op.site}) must be where its tasks run; {several}, "
        f"and without a checkpoint states cannot move; run it with checkpoint=DIR, a "
        f"directory that all hosts reach"
    )
    raise EngineError(msg)


def find_stored(layout: EpochLayout) -> list[str]:
    """Return the operators whose states are files on the hosts."""
    return [
        name
        for unit in layout.units
        if not unit.in_driver and unit.period == 1
        for name in unit.operators
        if (op := layout.graph[name]).inputs
        and kernel_of(op).stateful
        and not remembers_nothing(unit, op)
    ]


def clear_hosts(access: SparkAccess, scratch: str, identity: str | None) -> None:
    """Remove a job's files from the hosts that run tasks, as far as they answer.

    These are its scratch directory, and the states of the checkpoint `identity`, if
    given.
    """

    def clear(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        shutil.rmtree(scratch, ignore_errors=True)
        if identity is not None:
            shutil.rmtree(local_directory(identity), ignore_errors=True)
        time.sleep(SHARED_S)
        return batches

    with contextlib.suppress(Exception), access.own_python():  # Spark may be gone
        slots = access.cores
        tasks = access.queries.range(0, slots, 1, slots)
        tasks.mapInArrow(clear, "id long").toArrow()
