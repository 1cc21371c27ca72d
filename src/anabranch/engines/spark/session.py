"""The Spark session: an existing one, or an embedded one of our own.

A session of the user's is never changed. Our queries run beside it, in a session of the
same Spark with their own settings.

Spark buffers: a worker writes through a buffer, and the rows for the next worker are
collected into one large batch. Either would make the next part of a cut unit wait until
the one before has ended. So a row that nobody reads follows each chunk and fills the
buffer, and at a cut, rows go in batches of one. Each is a chunk of items, so there are
few.

The user's Spark settings, given in any of the ways that Spark reads, override our
defaults. `spark-submit` has passed its settings to the JVM that runs
the program; otherwise they are in `spark-defaults.conf`, in PYSPARK_SUBMIT_ARGS and in
the environment, and Spark would read them when it starts.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from anabranch.engines.spark.class_archive import archive_options
from anabranch.errors import EngineError
from anabranch.private import private_directory

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


OLDEST_JAVA = 17
FEWEST_FILES = 340  # 280 jars, and the sockets of a session on this machine
_NO_JVM = "JAVA_GATEWAY_EXITED"
RESULT_LIMIT = "spark.driver.maxResultSize"
_DEFAULT_PYTHON = "python3"  # Spark's default if PYSPARK_PYTHON is not set
_NEEDED = ("anabranch", "cloudpickle", "lmdb", "numpy", "pyarrow", "xxhash")

_OTHER_PYTHON = ("No module named 'anabranch'", "PYTHON_VERSION_MISMATCH")

_DAEMON = "anabranch.engines.spark.daemon"

# The JVM moves blobs and plans small jobs; the work is done in Python. The second
# compiler would gain less there than the time it takes from the first epochs.
_COMPILE_ONCE = "-XX:TieredStopAtLevel=1"

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

# For every session that we open; the user's settings override them.
_SETTINGS = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    # Tasks belong where their states are, not where most of their rows come from; a
    # slot elsewhere may take one that has waited, and restores its states.
    "spark.locality.wait": "1s",
    "spark.shuffle.reduceLocality.enabled": "false",
}

# Also for an embedded Spark, whose pages nobody asked for.
_EMBEDDED = {
    "spark.shuffle.compress": "false",  # blobs stay on this host's page cache
    "spark.broadcast.compress": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.python.daemon.module": _DAEMON,
}

# For our own queries, in whatever session.
QUERIES = {
    # The plan of an epoch is fixed; re-planning it costs more than it gains.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
}


def open_session(master: str | None) -> SparkSession:
    """Return the classic session to run on: the user's, unchanged, or a new one.

    The user's settings override ours: those of `spark-submit`, of `spark-defaults.conf`
    and of the environment.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if SparkContext._active_spark_context is not None:  # noqa: SLF001 - of another thread
        return SparkSession.builder.getOrCreate()
    java = None if is_submitted() else check_java()
    if java is not None:
        check_files()
    given = read_settings()
    builder = SparkSession.builder
    for name, value in choose_settings(master, given, java).items():
        builder = builder.config(name, value)
    python = given.get("spark.pyspark.python", sys.executable)
    os.environ.setdefault("PYSPARK_PYTHON", python)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if _NO_JVM not in str(error):
            raise
        msg = (
            f"Spark must be able to start Java; {java or 'it'} ended at once, and says "
            f"why above; allow it enough memory (spark.driver.memory), processes and "
            f"open files, or run with on='local'"
        )
        raise EngineError(msg) from error


def choose_settings(
    master: str | None, given: Mapping[str, str], java: str | None
) -> dict[str, str]:
    """Return the settings to add to those of the user.

    `master` is that of the call, which wins. Without `java` there is a JVM already, and
    its options would be ignored.
    """
    where = master or given.get("spark.master", "local[*]")
    defaults = _SETTINGS | QUERIES | {"spark.app.name": "anabranch"}
    if where.startswith("local") and java is not None:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        defaults |= _EMBEDDED
    chosen = add_defaults(given, defaults)
    if java is not None:
        options = given.get("spark.driver.extraJavaOptions", "")
        chosen["spark.driver.extraJavaOptions"] = java_options(java, options)
    if master is not None or "spark.master" not in given:
        chosen["spark.master"] = where
    return chosen


def java_options(java: str, given: str = "") -> str:
    """Return the options of the driver's JVM: ours, then the user's."""
    ours = [_quiet(), archive_options(java, given)]
    if not any(option in given for option in ("Tiered", "-Xint", "-Xcomp")):
        ours.append(_COMPILE_ONCE)
    return " ".join(filter(None, [*ours, given]))


def check_java() -> str:
    """Return the Java that Spark runs on; without one, refuse and say what to do."""
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
    assert java is not None  # noqa: S101 - it has a version
    return java


def check_files() -> None:
    """Refuse a limit of open files with which Spark's Java cannot start.

    Java raises the soft limit by itself, to the hard one.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < FEWEST_FILES:
        msg = (
            f"Spark needs at least {FEWEST_FILES} open files; this process may have "
            f"{most}; allow more (ulimit -n), or run with on='local'"
        )
        raise EngineError(msg)


def check_python(spark: SparkSession) -> None:
    """Refuse a session whose workers run an incompatible Python.

    A session made by the user runs the `python3` of the PATH, unless PYSPARK_PYTHON
    names another one. Only that of this machine can be checked before the first job.
    """
    context = spark.sparkContext
    if not is_on_this_machine(context):
        return
    python = _python_of(context)
    why = None if python == sys.executable else why_not_python(python)
    if why is not None:
        raise EngineError(_other_python(python, why))


def describe_python(spark: SparkSession, error: Exception) -> EngineError | None:
    """Explain a failed first job by the workers' Python, if that is the cause."""
    sign = find_other_python(error)
    if sign is None:
        return None
    python = _python_of(spark.sparkContext)
    return EngineError(_other_python(python, f"on the workers: {sign}"))


def find_other_python(error: Exception) -> str | None:
    """Return what in an error says that workers run an incompatible Python, or None.

    >>> find_other_python(RuntimeError("ImportError: No module named 'anabranch'"))
    "No module named 'anabranch'"
    """
    text = str(error)
    return next((sign for sign in _OTHER_PYTHON if sign in text), None)


@contextlib.contextmanager
def own_python(spark: SparkSession) -> Iterator[None]:
    """Run functions sent to workers of this machine in this very Python.

    A Python named by PYSPARK_PYTHON stays.
    """
    context = spark.sparkContext
    named = context.pythonExec
    if is_on_this_machine(context):
        context.pythonExec = _python_of(context)
    try:
        yield
    finally:
        context.pythonExec = named


def why_not_python(python: str) -> str | None:
    """Return why a Python cannot run programs sent from this one, or None.

    >>> why_not_python(sys.executable) is None
    True
    """
    asked = (
        "import sys, importlib.util as u; print(*sys.version_info[:2], "
        f"*[one for one in {_NEEDED} if u.find_spec(one) is None])"
    )
    try:
        done = subprocess.run(
            [python, "-c", asked],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"it does not run ({error})"
    major, minor, *missing = done.stdout.split()
    if (int(major), int(minor)) != sys.version_info[:2]:
        here = ".".join(map(str, sys.version_info[:2]))
        return f"it is Python {major}.{minor}, and this one is {here}"
    return f"it has no module {missing[0]}" if missing else None


def _python_of(context: SparkContext) -> str:
    """Return the Python of the workers; on this machine, by default, this one."""
    named: str = context.pythonExec
    if named == _DEFAULT_PYTHON and is_on_this_machine(context):
        return sys.executable
    return shutil.which(named) or named


def is_on_this_machine(context: SparkContext) -> bool:
    """Tell whether the workers of a session run on the driver's machine."""
    return str(context.master).startswith("local")


def _other_python(python: str, why: str) -> str:
    return (
        f"the workers of the Spark session must run a Python that has anabranch, of "
        f"the same version as this one; they run {python}: {why}; set "
        f"PYSPARK_PYTHON={sys.executable} before the session starts"
    )


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
    """Return the option that limits Java's logging to errors."""
    folder = private_directory("spark")
    path = folder / "log4j2.properties"
    if not path.is_file() or path.read_text(encoding="utf-8") != _LOGGING:
        draft = folder / f"log4j2-{os.getpid()}.properties"
        draft.write_text(_LOGGING, encoding="utf-8")
        draft.replace(path)
    return f"-Dlog4j2.configurationFile=file:{path}"


if __name__ == "__main__":  # `make` checks before it starts anything
    try:
        check_java()
    except EngineError as error:
        sys.exit(str(error))


_BUFFER_BYTES = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))

ROW_BY_ROW = QUERIES | {"spark.sql.execution.arrow.maxRecordsPerBatch": "1"}


def filler() -> bytes:
    """Return enough bytes to flush a worker's buffer."""
    return bytes(2 * _BUFFER_BYTES)


def for_queries(spark: SparkSession) -> SparkSession:
    """Return a session with the settings of our queries: this one, if it has them."""
    if all(spark.conf.get(name, None) == one for name, one in QUERIES.items()):
        return spark
    return _beside(spark, QUERIES)


def row_by_row(spark: SparkSession) -> SparkSession:
    """Return a session like this one, whose workers get every row at once."""
    return _beside(spark, ROW_BY_ROW)


def _beside(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a new session of the same Spark, with these settings."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session
