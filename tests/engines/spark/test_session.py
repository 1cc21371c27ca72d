"""What a session needs is asked before the first job: Java, open files, the Python of workers."""

import resource
import sys
from types import SimpleNamespace

import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from anabranch.engines.spark import session as opening
from anabranch.engines.spark.session import (
    check_files,
    check_python,
    describe_python,
    open_session,
    own_python,
    why_not_python,
)
from anabranch.errors import EngineError


def session(python="python3", master="local[2]"):
    context = SimpleNamespace(pythonExec=python, master=master)
    return SimpleNamespace(sparkContext=context)


def fake_python(folder, answer):
    path = folder / "python"
    path.write_text(f"#!/bin/sh\necho {answer}\n")
    path.chmod(0o755)
    return str(path)


HERE = f"{sys.version_info[0]} {sys.version_info[1]}"
ANSWERS = {
    "it lacks something": (f"{HERE} anabranch numpy", "it has no module anabranch"),
    "it is another version": ("3 6", "it is Python 3.6"),
}


@pytest.mark.parametrize(("answer", "why"), ANSWERS.values(), ids=ANSWERS)
def test_a_python_that_cannot_run_programs_is_refused_in_one_line(
    tmp_path, answer, why
):
    python = fake_python(tmp_path, answer)

    with pytest.raises(EngineError) as caught:
        check_python(session(python))

    text = str(caught.value)
    assert f"they run {python}: {why}" in text
    assert text.endswith(
        f"set PYSPARK_PYTHON={sys.executable} before the session starts"
    )
    assert "\n" not in text


def test_a_python_that_has_all_is_taken(tmp_path):
    python = fake_python(tmp_path, HERE)

    check_python(session(python))

    assert why_not_python(python) is None


def test_a_python_that_is_not_there_is_refused():
    assert "it does not run" in why_not_python("/no/such/python")


def test_a_session_that_names_no_python_runs_this_one_for_our_functions_only():
    made = session()

    check_python(made)
    with own_python(made):
        assert sys.executable == made.sparkContext.pythonExec
    assert "python3" == made.sparkContext.pythonExec


def test_the_python_of_a_cluster_stays():
    made = session(master="spark://host:7077")

    check_python(made)
    with own_python(made):
        assert "python3" == made.sparkContext.pythonExec


FIRST_JOBS = {
    "ModuleNotFoundError: No module named 'anabranch'": True,
    "[PYTHON_VERSION_MISMATCH] Python in worker has different version": True,
    "ZeroDivisionError: division by zero": False,
}


@pytest.mark.parametrize(("text", "told"), FIRST_JOBS.items())
def test_the_first_job_of_a_cluster_tells_what_its_python_lacks(text, told):
    found = describe_python(session(master="spark://host:7077"), RuntimeError(text))

    assert told == (found is not None and "set PYSPARK_PYTHON=" in str(found))


@pytest.mark.parametrize(("most", "refused"), [(339, True), (340, False), (-1, False)])
def test_a_limit_of_files_with_which_java_cannot_start_is_refused(
    monkeypatch, most, refused
):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, most))

    if refused:
        with pytest.raises(EngineError, match=r"340 open files; .* 339; .*ulimit -n"):
            check_files()
    else:
        check_files()


def test_a_java_that_does_not_start_is_told_in_one_line(monkeypatch):
    def fail(_):
        raise PySparkRuntimeError(
            errorClass="JAVA_GATEWAY_EXITED", messageParameters={}
        )

    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession.Builder, "getOrCreate", fail)
    monkeypatch.setattr(opening, "check_java", lambda: "/usr/bin/java")

    with pytest.raises(EngineError, match=r"/usr/bin/java ended at once.*open files"):
        open_session(None)
