"""The hosts of a cluster: their number, and a job's files on them.

States are local files. On several hosts a task may run where its states are not; with a
checkpoint they are restored there, without one that is impossible. So a stateful
program is refused on several hosts before it has read a row, unless it has a
checkpoint.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Collection, Iterable

from pyspark.sql import SparkSession

from anabranch.engines.spark.session import is_on_this_machine, own_python
from anabranch.epochs.layout import SparkLayout
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.unit.runner import remembers_nothing
from anabranch.errors import EngineError
from anabranch.runtime.interpreter import kernel_of

DRIVER = "driver"  # Spark's name for it among the executors
SHARED_S = 0.1  # that a task stays, so that none runs all of them


def find_hosts(spark: SparkSession) -> set[str]:
    """Return the hosts that run tasks."""
    context = spark.sparkContext
    if is_on_this_machine(context):
        return {"this machine"}
    java = context._jsc.sc()  # noqa: SLF001 - nothing else of PySpark knows them
    found = java.statusStore().executorList(True)
    executors = [found.apply(number) for number in range(found.size())]
    return {
        one.hostPort().rpartition(":")[0] for one in executors if one.id() != DRIVER
    }


def refuse_states_on_several_hosts(layout: SparkLayout, hosts: Collection[str]) -> None:
    """Refuse a stateful program without a checkpoint on several hosts."""
    stateful = find_stored(layout)
    if len(hosts) < 2 or not stateful:  # noqa: PLR2004 - several
        return
    op = layout.graph[stateful[0]]
    msg = (
        f"the state of {op.name} ({op.site}) must be where its tasks run; this cluster "
        f"has {len(hosts)} hosts ({', '.join(sorted(hosts)[:3])}), and without a "
        f"checkpoint states cannot move; run it with checkpoint=DIR, a directory that "
        f"all hosts reach"
    )
    raise EngineError(msg)


def find_stored(layout: SparkLayout) -> list[str]:
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


def clear_hosts(spark: SparkSession, scratch: str, identity: str | None) -> None:
    """Remove a job's files from the hosts that run tasks, as far as they answer.

    These are its scratch directory, and the states of the checkpoint `identity`, if
    given.
    """
    context = spark.sparkContext

    def clear(_: Iterable[int]) -> Iterable[int]:
        shutil.rmtree(scratch, ignore_errors=True)
        if identity is not None:
            shutil.rmtree(local_directory(identity), ignore_errors=True)
        time.sleep(SHARED_S)
        return ()

    slots = context.defaultParallelism
    with contextlib.suppress(Exception), own_python(spark):  # Spark may be gone already
        context.parallelize(range(slots), slots).mapPartitions(clear).collect()
