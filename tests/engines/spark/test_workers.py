"""What a user is told when Spark fails: one line, with the report as its cause."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from anabranch.engines.spark.workers import engine_error, telling_line
from anabranch.errors import InputError

JAVA = """An error occurred while calling o1.collect.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed
\tat org.apache.spark.scheduler.DAGScheduler.abort(DAGScheduler.scala:1)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
"""
PYTHON = """An exception was thrown from the Python worker.
Traceback (most recent call last):
  File "worker.py", line 1, in run
    raise ValueError
ValueError: a bucket is missing
"""


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (JAVA, "java.io.IOException: No space left on device"),
        (PYTHON, "ValueError: a bucket is missing"),
        (
            "org.X: gone\norg.X.run(X.java:8)\njava.base/y.Z.run(Z.java:9)",
            "org.X: gone",
        ),
        ("no such thing", "no such thing"),
        ("", "nothing was reported"),
    ],
)
def test_the_telling_line_of_a_report(report, line):
    assert line == telling_line(report)


def test_a_failure_of_spark_is_an_engine_error_of_one_line():
    told = str(engine_error(PySparkException(PYTHON)))

    assert "it failed with: ValueError: a bucket is missing;" in told
    assert "\n" not in told


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), PySparkException(JAVA)]
)
def test_a_full_disk_is_told_where_to_free_space(error):
    assert "free space in the temporary directory" in str(engine_error(error))


@pytest.mark.parametrize("error", [InputError("x"), ZeroDivisionError("x")])
def test_other_errors_stay_as_they_are(error):
    assert engine_error(error) is None
