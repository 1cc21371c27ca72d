"""Labels of a program's Spark jobs: group, pool, description and tag.

Spark's pages list jobs and stages by these. A group, a pool and a description that the
user has set for the thread that starts a program apply to its jobs too; they run in our
threads, to which Spark does not pass them on. A tag of our own finds the jobs to
cancel, whatever group they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark import SparkContext

from anabranch.graph.graph import Graph

GROUP = "spark.jobGroup.id"
POOL = "spark.scheduler.pool"
DESCRIPTION = "spark.job.description"
INTERRUPT = "spark.job.interruptOnCancel"
_MODE = "spark.scheduler.mode"
_MOST = 8  # operators named in a description


@dataclass(frozen=True)
class JobLabels:
    """The labels of a program's jobs; `given` ones come from the user's thread."""

    program: str
    given_group: str | None = None
    given_pool: str | None = None
    given_description: str | None = None

    def set_in_thread(self, context: SparkContext, tag: str) -> None:
        """Label the jobs that this thread starts from now on."""
        pool = self.given_pool
        if pool is None and context.getConf().get(_MODE) == "FAIR":
            pool = self.program  # a share of its own beside other programs
        context.setLocalProperty(GROUP, self.given_group or f"{self.program} {tag}")
        if pool is not None:
            context.setLocalProperty(POOL, pool)
        context.setLocalProperty(DESCRIPTION, self.describe("reading", ()))
        context.setLocalProperty(INTERRUPT, "true")
        context.addJobTag(tag)

    def describe(self, step: str, operators: Sequence[str]) -> str:
        """Return the description of a job.

        >>> JobLabels("trades.py").describe("epoch 3", ["parse", "count"])
        'trades.py, epoch 3: parse, count'
        """
        named = ", ".join(operators[:_MOST])
        if len(operators) > _MOST:
            named = f"{named} and {len(operators) - _MOST} more"
        before = self.given_description
        program = self.program if before is None else f"{before} ({self.program})"
        return f"{program}, {step}: {named}" if named else f"{program}, {step}"


def find_labels(graph: Graph) -> JobLabels:
    """Return the labels of a program that this thread starts."""
    program = next((Path(op.site.file).name for op in graph.sinks), "anabranch")
    context = SparkContext._active_spark_context  # noqa: SLF001 - it makes none
    if context is None:
        return JobLabels(program)
    group, pool, description = map(context.getLocalProperty, (GROUP, POOL, DESCRIPTION))
    return JobLabels(program, group, pool, description)
