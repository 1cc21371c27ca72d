"""A class archive for Spark's JVM: the classes of a session, ready to be mapped.

Most of the time to the first result is spent loading some ten thousand classes. Java
can map them from an archive written by an earlier process. The first process that finds
no archive has one made when it ends, by another process at the lowest priority that
runs a small job. Nothing depends on it: Java ignores an archive that does not fit or is
damaged, and the directory can be deleted at any time. Only a truncated one could harm
Java, so the name of an archive has its size.

An archive contains executable code, so it is used only from a directory that belongs to
this user and that nobody else can write to.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import hashlib
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

UNUSED_DAYS = 60  # after which an archive of another installation is removed
DUMP_S = 120.0  # for the JVM to write it

# An archive that does not fit does not concern the user.
_SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"
_OWN_OPTIONS = ("-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-Xshare")
_JAVA_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")
_CLASS_PATHS = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_DIST_CLASSPATH",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "CLASSPATH",
)


def archive_options(java: str, given: str) -> str:
    """Return the JVM options that use this user's archive, or none.

    `given` are the user's options: if they, or a variable that Java reads, mention
    archives, nothing is added. If there is no archive yet, one is made when this
    process ends.
    """
    said = " ".join([given, *(os.environ.get(name, "") for name in _JAVA_OPTIONS)])
    if any(option in said for option in _OWN_OPTIONS):
        return ""
    directory = find_directory()
    if directory is None:
        return ""
    draft = directory / f"{key_of(java)}.draft"
    archive = find_archive(draft)
    if archive is None:
        atexit.unregister(start_making)  # of an earlier session
        atexit.register(start_making, draft)
        return ""
    with contextlib.suppress(OSError):
        os.utime(archive)  # it is in use
    return f"-XX:SharedArchiveFile={archive} -XX:+VerifySharedSpaces {_SILENT}"


def find_archive(draft: Path) -> Path | None:
    """Return the archive made from a draft, if it is complete."""
    for archive in draft.parent.glob(f"{draft.stem}-*.jsa"):
        with contextlib.suppress(OSError):
            if archive == _name_of(draft, archive.stat().st_size):
                return archive
    return None


def _name_of(draft: Path, size: int) -> Path:
    return draft.with_name(f"{draft.stem}-{size}.jsa")


def find_directory() -> Path | None:
    """Return the directory of archives, creating it if necessary; None if it is not
    private.
    """
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        directory = Path(base) / "anabranch" / "classes"
        if " " in str(directory):  # Spark would split the option
            return None
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = directory.stat()
    except (OSError, RuntimeError):  # no home directory, or not writable
        return None
    private = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
    return directory if private and os.access(directory, os.W_OK) else None


def key_of(java: str) -> str:
    """Return the key of an archive: the JVM, PySpark and the class path."""
    jars = Path(pyspark.__file__).parent / "jars"
    parts = [pyspark.__version__]
    for path in (Path(java).resolve(), jars):
        with contextlib.suppress(OSError):
            found = path.stat()
            parts += [str(path), str(found.st_size), str(found.st_mtime_ns)]
    parts += [f"{name}={os.environ.get(name, '')}" for name in _CLASS_PATHS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def start_making(draft: Path) -> None:
    """Start another process that makes an archive and outlives this one."""
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "anabranch.engines.spark.class_archive", draft],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd=draft.parent,
        )


def make(draft: Path) -> None:
    """Make an archive, unless another process does; it appears when complete."""
    with (
        contextlib.suppress(BlockingIOError),
        draft.with_suffix(".lock").open("w") as f,
    ):
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if find_archive(draft) is not None:
            return
        try:
            draft.unlink(missing_ok=True)
            _run_small_job(f"-XX:ArchiveClassesAtExit={draft} {_SILENT}")
            if draft.is_file():
                draft.chmod(0o600)
                draft.replace(_name_of(draft, draft.stat().st_size))
        finally:
            draft.unlink(missing_ok=True)
        _remove_unused(draft.parent)


def _run_small_job(options: str) -> None:
    """Run a job like an epoch, and wait until its JVM has ended."""
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT"):
        os.environ.pop(name, None)
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.pyspark.python", sys.executable)
        .getOrCreate()
    )
    frame = spark.range(0, 2, 1, 2).selectExpr("cast(id as int) as dest")
    frame = frame.mapInArrow(lambda batches: batches, "dest int")
    frame = frame.repartitionById(2, "dest").mapInArrow(
        lambda batches: batches, "dest int"
    )
    for _ in range(2):
        frame.toArrow()
    spark.createDataFrame([(1, b"1")], "one int, two binary").collect()
    java = spark.sparkContext._gateway.proc  # noqa: SLF001 - it ends when this is closed
    spark.stop()
    java.stdin.close()
    java.wait(DUMP_S)


def _remove_unused(directory: Path) -> None:
    """Remove archives that have not been used for long."""
    oldest_s = time.time() - UNUSED_DAYS * 24 * 3600
    for archive in directory.glob("*.jsa"):
        with contextlib.suppress(OSError):
            if archive.stat().st_mtime < oldest_s:
                archive.unlink()


if __name__ == "__main__":
    os.nice(19)
    make(Path(sys.argv[1]))
