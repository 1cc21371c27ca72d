"""The Spark session: one that is there already, or an embedded one of our own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from anabranch.errors import EngineError

OLDEST_JAVA = 17

# Spark's shell announces a change of any other root level; the filter does the rest.
_LOGGING = """\
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.filter.threshold.type = ThresholdFilter
appender.console.filter.threshold.level = error
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n
"""

_SETTINGS = {
    # The plan of an epoch is fixed; re-planning it costs more than it brings.
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.shuffle.compress": "false",  # blobs stay on this host's page cache
    "spark.broadcast.compress": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FIFO",
    "spark.locality.wait": "0s",
}


def open_session(master: str | None) -> SparkSession:
    """Return the session to run on; a session of the user's is used as it is."""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    check_java()
    python = sys.executable
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", python)
    builder = SparkSession.builder.appName("anabranch")
    if master is None or master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.master(master or "local[*]")
    builder = builder.config("spark.driver.extraJavaOptions", _quiet())
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def check_java() -> None:
    """Refuse to go on without a Java that Spark can run on, and say what to do."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    found = None if java is None else _version(java)
    if found is None or found < OLDEST_JAVA:
        had = "there is none" if found is None else f"found Java {found}"
        msg = (
            f"Spark needs Java {OLDEST_JAVA} or later; {had}; install it (Debian: "
            f"apt-get install openjdk-{OLDEST_JAVA}-jre-headless; macOS: brew install "
            f"openjdk@{OLDEST_JAVA}) or set JAVA_HOME, or run with on='sequential'"
        )
        raise EngineError(msg)


def _version(java: str) -> int | None:
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    quoted = done.stderr.partition('"')[2].partition('"')[0]
    numbers = quoted.replace("-", ".").split(".")
    major = numbers[1] if numbers[0] == "1" else numbers[0]
    return int(major) if major.isdigit() else None


def _quiet() -> str:
    """Return the option that keeps Java from logging anything but errors."""
    path = Path(tempfile.gettempdir()) / f"anabranch-log4j2-{os.getuid()}.properties"
    path.write_text(_LOGGING)
    return f"-Dlog4j2.configurationFile=file:{path}"


if __name__ == "__main__":  # `make` asks before it starts anything
    try:
        check_java()
    except EngineError as error:
        sys.exit(str(error))
