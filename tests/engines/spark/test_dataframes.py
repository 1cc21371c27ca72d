"""The rows of a DataFrame are written down by tasks, of which several may run."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa

from anabranch.engines.spark import dataframes
from anabranch.engines.spark.dataframes import spool
from tests.engines.spark.imitation import Cluster


class Frame:
    """A DataFrame of one partition, whose task has two attempts; the first one counts."""

    sparkSession = Cluster(run_task=lambda *_: [])  # noqa: N815 - as Spark has it

    def mapInArrow(self, run, _):  # noqa: N802
        self.run = run
        return self

    def toArrow(self):  # noqa: N802
        first, _ = (list(self._attempt(number)) for number in range(2))
        return pa.Table.from_batches(first)

    def _attempt(self, number):
        context = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: number)
        dataframes.TaskContext = SimpleNamespace(get=lambda: context)
        return self.run([pa.record_batch([pa.array([7, 8])], names=["n"])])


def test_files_of_attempts_that_do_not_count_go(tmp_path, monkeypatch):
    monkeypatch.setattr(dataframes, "TaskContext", None)

    (file,) = spool(Frame(), tmp_path, "rows")

    assert 2 == file.rows
    assert [file.path] == [str(path) for path in tmp_path.iterdir()]


def test_a_later_run_writes_to_other_files(tmp_path, monkeypatch):
    """
    Attempts are numbered anew, and tasks of the run before it may still write.
    """
    monkeypatch.setattr(dataframes, "TaskContext", None)
    (before,) = spool(Frame(), tmp_path, "rows")

    (after,) = spool(Frame(), tmp_path, "rows")

    assert before.path != after.path
    assert [after.path] == [str(path) for path in tmp_path.iterdir()]
