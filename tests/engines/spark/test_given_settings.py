"""What the user tells Spark, by whatever way, wins over our defaults."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from anabranch.engines.spark import session
from anabranch.engines.spark.session import (
    choose_settings,
    for_queries,
    read_arguments,
    read_settings,
)


@pytest.fixture
def nothing_given(monkeypatch, tmp_path):
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "MASTER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("SPARK_DRIVER_MEMORY", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("nothing_given")
def test_without_a_word_of_the_user_all_settings_are_ours():
    assert {} == read_settings()


def test_arguments_win_over_the_file_and_the_file_over_the_environment(
    nothing_given, monkeypatch
):
    (nothing_given / "spark-defaults.conf").write_text(
        "spark.driver.memory 3g\nspark.master local[4]\nspark.ui.enabled true\n"
    )
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "9g")
    monkeypatch.setenv("MASTER", "local[9]")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--master=local[3] pyspark-shell")

    found = read_settings()

    assert ("local[3]", "3g") == (found["spark.master"], found["spark.driver.memory"])
    assert "true" == found["spark.ui.enabled"]


def test_the_environment_alone_counts_too(nothing_given, monkeypatch):
    monkeypatch.setenv("SPARK_DRIVER_MEMORY", "9g")

    assert {"spark.driver.memory": "9g"} == read_settings()


def test_a_file_that_arguments_name_replaces_the_usual_one(nothing_given, monkeypatch):
    (nothing_given / "spark-defaults.conf").write_text("spark.ui.enabled true\n")
    mine = nothing_given / "mine.conf"
    mine.write_text("spark.driver.memory=1g\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {mine} pyspark-shell")

    assert {"spark.driver.memory": "1g"} == read_settings()


ARGUMENTS = {
    "--conf 'a=1 2' --conf=b=3": {"a": "1 2", "b": "3"},
    "--name mine --driver-memory 777m": {
        "spark.app.name": "mine",
        "spark.driver.memory": "777m",
    },
    "--jars x.jar --py-files y.py pyspark-shell": {},
    "--conf": {"": ""},
}


@pytest.mark.parametrize(("text", "settings"), ARGUMENTS.items())
def test_arguments_of_spark_submit_say_settings(text, settings):
    assert settings == dict(read_arguments(text))


GIVEN = {
    "spark.master": "local[3]",
    "spark.driver.memory": "777m",
    "spark.ui.enabled": "true",
    "spark.app.name": "mine",
    "spark.sql.adaptive.enabled": "true",
}


def test_settings_that_are_given_are_not_set_again(monkeypatch):
    monkeypatch.setattr(session, "java_options", lambda _, given: f"ours {given}")

    chosen = choose_settings(None, GIVEN, "java")

    assert set() == GIVEN.keys() & chosen.keys()
    assert "false" == chosen["spark.shuffle.compress"]


def test_the_master_of_the_call_wins(monkeypatch):
    monkeypatch.setattr(session, "java_options", lambda _, given: f"ours {given}")

    assert "local[2]" == choose_settings("local[2]", GIVEN, "java")["spark.master"]
    assert "local[*]" == choose_settings(None, {}, "java")["spark.master"]


def test_a_cluster_keeps_its_pages_and_its_memory(monkeypatch):
    monkeypatch.setattr(session, "java_options", lambda _, given: f"ours {given}")

    chosen = choose_settings("spark://host:7077", {}, "java")

    for name in ("ui.enabled", "driver.memory", "driver.host", "shuffle.compress"):
        assert f"spark.{name}" not in chosen


def test_a_jvm_that_runs_already_gets_no_options():
    chosen = choose_settings(None, {"spark.master": "yarn"}, None)

    assert "spark.driver.extraJavaOptions" not in chosen
    assert "spark.driver.memory" not in chosen


@pytest.mark.spark
def test_a_session_with_other_settings_stays_as_it_is(spark):
    name = "spark.sql.adaptive.enabled"
    mine = spark.newSession()
    mine.conf.set(name, "true")

    ours = for_queries(mine)

    assert "false" == ours.conf.get(name)
    assert "true" == mine.conf.get(name)
    assert ours is for_queries(ours)


SUBMITTED = """
import anabranch as ab
from pyspark import SparkContext

sink = ab.from_iterable([-1, 2], int).map(abs).to_list()
ab.run(sink)
given = SparkContext._active_spark_context.getConf().get
names = ("master", "app.name", "ui.enabled", "driver.memory")
print(sink.items, *(given(f"spark.{name}") for name in names), sep="|")
"""


@pytest.mark.long
@pytest.mark.spark
def test_spark_submit_decides(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(SUBMITTED)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = "--master local[3] --driver-memory 777m --name mine"

    done = subprocess.run(
        [submit, *options.split(), "--conf", "spark.ui.enabled=true", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )

    assert "[1, 2]|local[3]|mine|true|777m" in done.stdout.splitlines()
