"""The user's Spark settings, given in any of the ways that Spark reads.

They override our defaults. `spark-submit` has passed its settings to the JVM that runs
the program; otherwise they are in `spark-defaults.conf`, in PYSPARK_SUBMIT_ARGS and in
the environment, and Spark would read them when it starts.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext

_GATEWAY = "PYSPARK_GATEWAY_PORT"  # of the JVM that started this process
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"

_OPTIONS = {  # options of spark-submit that equal a setting
    "--master": "spark.master",
    "--name": "spark.app.name",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
}
_VARIABLES = {"MASTER": "spark.master", "SPARK_DRIVER_MEMORY": "spark.driver.memory"}


def is_submitted() -> bool:
    """Tell whether `spark-submit` runs this program, in an existing JVM."""
    return _GATEWAY in os.environ


def read_settings() -> dict[str, str]:
    """Return all settings given by the user."""
    if is_submitted():
        SparkContext._ensure_initialized()  # noqa: SLF001 - a SparkConf needs the JVM
        return dict(SparkConf().getAll())
    named = {
        setting: os.environ[variable]
        for variable, setting in _VARIABLES.items()
        if variable in os.environ
    }
    arguments = dict(read_arguments(os.environ.get(_ARGUMENTS, "")))
    file = arguments.pop("--properties-file", None)
    return named | (read_defaults() if file is None else read_file(file)) | arguments


def read_arguments(text: str) -> Iterator[tuple[str, str]]:
    """Read the settings in the arguments of spark-submit.

    >>> dict(read_arguments("--master local[3] -c spark.ui.enabled=true pyspark-shell"))
    {'spark.master': 'local[3]', 'spark.ui.enabled': 'true'}
    """
    words = iter(shlex.split(text))
    for word in words:
        option, equals, value = word.partition("=")
        if option not in (*_OPTIONS, "--conf", "-c", "--properties-file"):
            continue
        if not equals:
            value = next(words, "")
        if option in ("--conf", "-c"):
            option, _, value = value.partition("=")
        yield _OPTIONS.get(option, option), value


def read_defaults() -> dict[str, str]:
    """Read the user's spark-defaults.conf."""
    home = os.environ.get("SPARK_HOME") or str(Path(pyspark.__file__).parent)
    directory = os.environ.get("SPARK_CONF_DIR") or str(Path(home) / "conf")
    return read_file(str(Path(directory) / "spark-defaults.conf"))


def read_file(path: str) -> dict[str, str]:
    """Return the settings in a properties file; none if it cannot be read."""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    found = {}
    for line in lines:
        said = re.fullmatch(r"\s*([^\s#!=:]+)[\s=:]+(.*)", line)
        if said is not None:
            found[said[1]] = said[2].strip()
    return found


def add_defaults(
    given: Mapping[str, str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return the defaults for settings that are not given.

    >>> add_defaults({"a": "mine"}, {"a": "yours", "b": "yours"})
    {'b': 'yours'}
    """
    return {name: one for name, one in defaults.items() if name not in given}
