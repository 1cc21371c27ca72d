"""Anchors: what makes the task of a new Spark job run where its states are.

Spark places the tasks of each job anew, so on H hosts a task finds its states on one of
H by chance, and restores them otherwise. But Spark prefers the executor that keeps a
task's input in its memory. So each task reads one row more, that of its *anchor*: a
DataFrame with a row for each task, which stays in the memory of the executors. Rows meet
their anchor in a hash join, which reads them as they come and shuffles nothing.

The rows of a shuffle have a preference of their own, for the host that sent most of
them, which comes first. Sessions that we open have none (`session.py`).
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession


class Anchors:
    """The anchors of a job, by session and number of tasks; used by one thread."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._made: dict[tuple[int, int], DataFrame] = {}  # it holds its session

    def begin(self, spark: SparkSession, tasks: int) -> DataFrame:
        """Return a row for each task of a job's first stage."""
        return self._anchor(spark, tasks).select("id")

    def join(self, spark: SparkSession, frame: DataFrame, tasks: int) -> DataFrame:
        """Return rows that were divided by `dest`, each task's at its anchor."""
        anchor = self._anchor(spark, tasks)
        kept = anchor.select("home").hint("shuffle_hash")
        at_home = frame["dest"] == anchor["home"]
        return frame.join(kept, at_home, "left_outer").select(*frame.columns)

    def close(self) -> None:
        """Free the memory of the executors."""
        for anchor in self._made.values():
            anchor.unpersist()
        self._made.clear()

    def _anchor(self, spark: SparkSession, tasks: int) -> DataFrame:
        """Return an anchor; when it is made, its tasks go to all free slots alike."""
        key = id(spark), tasks
        if key not in self._made:
            rows = spark.range(0, tasks, 1, tasks)
            # The name of the job keeps it apart from the anchors of other jobs.
            rows = rows.selectExpr("id", "int(id) as home", f"'{self._job}' as job")
            anchor = rows.repartitionById(tasks, "home").cache()
            anchor.count()
            self._made[key] = anchor
        return self._made[key]
