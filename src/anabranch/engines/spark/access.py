"""What the engine needs of Spark beside DataFrames, of a classic or a Connect session.

A classic session runs in the driver of its cluster. It has a Spark context, which
broadcasts, labels jobs, counts slots and cancels. Spark Connect is a client: it
sends plans of DataFrames to a server and knows little else. Both give a `SparkAccess`; the
rest of the engine does not ask which one it has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any, Protocol

from pyspark import SparkContext
from pyspark.sql import SparkSession

from anabranch.engines.spark.connect import ConnectAccess, is_connect
from anabranch.engines.spark.session import (
    RESULT_LIMIT,
    check_python,
    describe_python,
    for_queries,
    is_on_this_machine,
    own_python,
    row_by_row,
)

DRIVER = "driver"  # Spark's name for it among the executors


class SharedData(Protocol):
    """A value that every task can read."""

    @property
    def value(self) -> Any:
        """The value, in a task."""

    def destroy(self) -> None:
        """Free it everywhere."""


class SparkAccess(Protocol):
    """A Spark session and what it knows of its cluster; used by the threads of one job."""

    @property
    def spark(self) -> SparkSession:
        """The session of the user's DataFrames."""

    @property
    def context(self) -> SparkContext | None:
        """The Spark context, if there is one: it is needed for resident tasks."""

    @property
    def queries(self) -> SparkSession:
        """A session with the settings of our queries."""

    @property
    def row_by_row(self) -> SparkSession:
        """Like `queries`, but its workers get every row at once."""

    @property
    def cores(self) -> int:
        """The number of tasks that Spark runs at a time."""

    @property
    def is_on_this_machine(self) -> bool:
        """Whether all tasks run on the driver's machine."""

    @property
    def web_address(self) -> str | None:
        """The address of Spark's pages, if known."""

    def why_not_one_host(self) -> str | None:
        """Return what says that tasks run on several hosts, or None."""

    def get_setting(self, name: str) -> str | None:
        """Return a setting of the cluster."""

    def set_property(self, name: str, value: str) -> bool:
        """Set a property of the jobs that this thread starts, if Spark has those."""

    def add_tag(self, tag: str) -> None:
        """Tag the jobs that this thread starts."""

    def cancel(self, tag: str) -> None:
        """Cancel the jobs that have a tag."""

    def find_active_stages(self, tag: str) -> list[bool] | None:
        """Return which stages of the tagged job have tasks, in order; None if unknown."""

    def share(self, value: Any) -> SharedData:
        """Send a value to all hosts."""

    def check_python(self) -> None:
        """Refuse workers that run an incompatible Python, as far as it is known."""

    def describe_python(self, error: Exception) -> Exception | None:
        """Explain a failed first job by the workers' Python, if that is the cause."""

    def own_python(self) -> AbstractContextManager[None]:
        """Return a block in which functions are made for the right Python."""

    def close(self) -> None:
        """Release what this job has on the cluster."""


class ClassicAccess:
    """A session that has a Spark context."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    @property
    def context(self) -> SparkContext:
        return self.spark.sparkContext

    @cached_property
    def queries(self) -> SparkSession:
        return for_queries(self.spark)

    @cached_property
    def row_by_row(self) -> SparkSession:
        return row_by_row(self.queries)

    @property
    def cores(self) -> int:
        cores: int = self.context.defaultParallelism
        return cores

    @property
    def is_on_this_machine(self) -> bool:
        return is_on_this_machine(self.context)

    @property
    def web_address(self) -> str | None:
        address: str | None = self.context.uiWebUrl
        return address

    def why_not_one_host(self) -> str | None:
        hosts = find_hosts(self.spark)
        if len(hosts) < 2:  # noqa: PLR2004 - several
            return None
        return f"this cluster has {len(hosts)} hosts ({', '.join(sorted(hosts)[:3])})"

    def get_setting(self, name: str) -> str | None:
        conf = self.context._conf  # noqa: SLF001 - `getConf` copies all of it, one by one
        value: str | None = conf.get(name)
        return value

    def set_property(self, name: str, value: str) -> bool:
        self.context.setLocalProperty(name, value)
        return True

    def add_tag(self, tag: str) -> None:
        self.context.addJobTag(tag)

    def cancel(self, tag: str) -> None:
        self.context.cancelJobsWithTag(tag)

    def find_active_stages(self, tag: str) -> list[bool] | None:
        tracker = self.context.statusTracker()
        java = self.context._jsc.sc().statusTracker()  # noqa: SLF001 - knows tags
        for job in java.getJobIdsForTag(tag):
            info = tracker.getJobInfo(job)
            if info is not None and info.status == "RUNNING":
                stages = map(tracker.getStageInfo, sorted(info.stageIds))
                return [bool(one and one.numActiveTasks) for one in stages]
        return []

    def share(self, value: Any) -> SharedData:
        shared: SharedData = self.context.broadcast(value)
        return shared

    def check_python(self) -> None:
        check_python(self.spark)

    def describe_python(self, error: Exception) -> Exception | None:
        return describe_python(self.spark, error)

    def own_python(self) -> AbstractContextManager[None]:
        return own_python(self.spark)

    def close(self) -> None:
        """Leave everything: broadcasts go with the objects that hold them."""


def access_of(spark: SparkSession) -> SparkAccess:
    """Return what the engine needs of a session."""
    make: Callable[[Any], SparkAccess]
    make = ConnectAccess if is_connect(spark) else ClassicAccess
    return make(spark)


def find_hosts(spark: SparkSession) -> set[str]:
    """Return the hosts that run the tasks of a classic session."""
    context = spark.sparkContext
    if is_on_this_machine(context):
        return {"this machine"}
    java = context._jsc.sc()  # noqa: SLF001 - nothing else of PySpark knows them
    found = java.statusStore().executorList(True)
    executors = [found.apply(number) for number in range(found.size())]
    return {
        one.hostPort().rpartition(":")[0] for one in executors if one.id() != DRIVER
    }


def find_result_limit(access: SparkAccess) -> float:
    """Return the maximum result size of a Spark job in bytes."""
    return read_size(access.get_setting(RESULT_LIMIT) or "1g")


_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def read_size(text: str) -> float:
    """Return the bytes of a Spark size; 0 means no limit.

    >>> read_size("1g") == read_size("1024MB") == 1 << 30, read_size("0")
    (True, inf)
    """
    found = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", text.strip().lower())
    if found is None or int(found[1]) == 0:
        return math.inf
    return int(found[1]) * _UNITS[found[2]]
