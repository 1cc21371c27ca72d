"""Spark Connect: the client of a server that runs DataFrames for us.

A Connect session has no Spark context: no RDDs, so no resident tasks; no broadcasts,
properties and labels of jobs. So every epoch is a Spark job, whose plan contains the
instructions of its tasks. What all tasks need goes to the server as an artifact, a file
that Spark copies to each host. Sessions of one server are apart: ours has our settings
and artifacts, and is released with them at the end of the job; the user's is never
changed.

The server may be anywhere, also behind a tunnel, and its client is not told. So a small
job looks: how many tasks run at a time, and whether they see a file of ours.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import socket
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles, TaskContext
from pyspark.errors import PySparkException, PySparkImportError
from pyspark.sql import SparkSession, is_remote

from anabranch.engines.spark.session import (
    QUERIES,
    ROW_BY_ROW,
    find_other_python,
)
from anabranch.errors import EngineError

SCHEME = "sc://"
_REMOTE = "SPARK_REMOTE"
# PySpark sets it in `SparkSession.builder.remote`.
_VARIABLES = (_REMOTE, "SPARK_CONNECT_MODE_ENABLED")
_MOST_TASKS = 1 << 16  # of the job that looks around
_LOOKED = "partition int, here boolean"
_LOOKED_ARROW = pa.schema([("partition", pa.int32()), ("here", pa.bool_())])
_RELEASED_S = 5.0  # for a server to release the results of jobs
_ANSWER_S = 10.0  # for a server to answer
_OLDEST = (4, 1)  # Spark that partitions by a column of numbers
_KEPT = 2  # artifacts in the memory of a worker


def asks_for_connect(master: str | None) -> bool:
    """Tell whether a session has to be, or is, one of Spark Connect.

    >>> asks_for_connect("sc://host:15002")
    True
    """
    if master is not None and master.startswith(SCHEME):
        return True
    return any(os.environ.get(name) for name in _VARIABLES)


def is_connect(spark: Any) -> bool:
    """Tell whether a session is one of Spark Connect."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def open_connect(master: str | None) -> SparkSession:
    """Return the Connect session of this process, or open one."""
    if is_remote():
        with contextlib.suppress(PySparkException):  # there is none
            return SparkSession.active()
    named = master is not None and master.startswith(SCHEME)
    url = master if named else os.environ.get(_REMOTE)
    try:
        if url is not None and url.startswith(SCHEME):
            refuse_silent_server(url)
        # Of a server that PySpark starts in this process (SPARK_REMOTE=local[2]).
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder
        return (builder.remote(master) if named else builder).getOrCreate()
    except PySparkImportError as error:
        msg = (
            f"Spark Connect needs packages of its own; PySpark says: {_one_line(error)}; "
            f"pip install 'anabranch[connect]'"
        )
        raise EngineError(msg) from error
    except PySparkException as error:
        found = ", ".join(name for name in _VARIABLES if os.environ.get(name))
        msg = (
            f"a Spark Connect session must exist, or its server be named; PySpark says: "
            f"{_one_line(error)}; say master='sc://host:15002'"
        )
        if found:
            msg += f", or unset {found} to run without Connect"
        raise EngineError(msg) from error


def refuse_silent_server(url: str) -> None:
    """Refuse the address of a server that does not answer.

    PySpark would try again for minutes.
    """
    host, port = find_address(url)
    try:
        socket.create_connection((host, port), _ANSWER_S).close()
    except OSError as error:
        msg = (
            f"a Spark Connect server must listen at {host}:{port}; it does not answer "
            f"({error}); start one with sbin/start-connect-server.sh, or name another "
            f"with master='sc://host:port'"
        )
        raise EngineError(msg) from error


def find_address(url: str) -> tuple[str, int]:
    """Return the host and the port in the address of a server.

    >>> find_address("sc://spark.example:443/;use_ssl=true")
    ('spark.example', 443)
    >>> find_address("sc://[::1]/;user_id=me")
    ('::1', 15002)
    """
    place = url.removeprefix(SCHEME).partition("/")[0].rpartition("@")[2]
    host, colon, port = place.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = place, "15002"
    return host.strip("[]"), int(port) if port.isdigit() else 15002


@dataclass(frozen=True)
class Artifact:
    """A value in a file that the server copies to each host, while our session lasts."""

    name: str

    @property
    def value(self) -> Any:
        """The value, in a task."""
        return _load_artifact(self.name)

    def destroy(self) -> None:
        """Leave it: a server removes artifacts with their session."""


@lru_cache(_KEPT)
def _load_artifact(name: str) -> Any:
    return pickle.loads(Path(SparkFiles.get(name)).read_bytes())


@dataclass(frozen=True)
class _Surroundings:
    """What the first job has found."""

    cores: int
    is_one_host: bool
    is_here: bool  # tasks see this machine's files


class ConnectAccess:
    """A session of a Spark Connect server."""

    context = None  # and so no resident tasks
    web_address = None

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._settings: Mapping[str, str] = {}
        self._own: SparkSession | None = None
        self._lock = threading.Lock()

    @property
    def queries(self) -> SparkSession:
        return self._session_with(QUERIES)

    @property
    def row_by_row(self) -> SparkSession:
        return self._session_with(ROW_BY_ROW)

    def _session_with(self, settings: Mapping[str, str]) -> SparkSession:
        """Return our session, which has our artifacts, with other settings."""
        with self._lock:
            session = self._find_session()
            for name, value in settings.items():
                if self._settings.get(name) != value:
                    session.conf.set(name, value)
            self._settings = settings
            return session

    def _find_session(self) -> SparkSession:
        if self._own is None:
            self._refuse_old_server()
            self._own = self.spark.newSession()
        return self._own

    def _refuse_old_server(self) -> None:
        found: str = self.spark.version
        version = tuple(int(n) for n in found.split(".")[:2] if n.isdigit())
        if version < _OLDEST:
            msg = (
                f"the Spark Connect server must be Spark {_OLDEST[0]}.{_OLDEST[1]} or "
                f"later; it is {found}; connect to a newer one, or use spark-submit"
            )
            raise EngineError(msg)

    @cached_property
    def _around(self) -> _Surroundings:
        """Look around with a small job; it also starts the workers."""
        token = uuid.uuid4().hex
        with tempfile.TemporaryDirectory(prefix="anabranch-look-") as directory:
            path = Path(directory) / "here"
            path.write_text(token)

            def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                return look_around(batches, str(path), token)

            frame = self.queries.range(_MOST_TASKS).mapInArrow(look, _LOOKED)
            found = frame.toArrow().to_pylist()
        master = self.get_setting("spark.master") or ""
        is_one_host = master.startswith("local")
        is_here = is_one_host and all(one["here"] for one in found)
        return _Surroundings(len(found), is_one_host, is_here)

    @property
    def cores(self) -> int:
        return self._around.cores

    @property
    def is_on_this_machine(self) -> bool:
        return self._around.is_here

    def why_not_one_host(self) -> str | None:
        if self._around.is_one_host:
            return None
        return "Spark Connect does not name the hosts of this cluster"

    def get_setting(self, name: str) -> str | None:
        value: str | None = self.spark.conf.get(name, None)
        return value

    def set_property(self, name: str, value: str) -> bool:
        return False

    def add_tag(self, tag: str) -> None:
        self.spark.addTag(tag)

    def cancel(self, tag: str) -> None:
        """Interrupt what runs in our session, and the tagged jobs of the user's.

        A server that is gone is not awaited: PySpark would try again for minutes.
        """
        sending = threading.Thread(target=self._interrupt, args=(tag,), daemon=True)
        sending.start()
        sending.join(_ANSWER_S)

    def _interrupt(self, tag: str) -> None:
        with contextlib.suppress(Exception):  # the server may be gone already
            if self._own is not None:
                self._own.interruptAll()
            self.spark.interruptTag(tag)

    def find_active_stages(self, tag: str) -> list[bool] | None:
        return None

    def share(self, value: Any) -> Artifact:
        name = f"anabranch-{uuid.uuid4().hex}"
        with tempfile.TemporaryDirectory(prefix="anabranch-share-") as directory:
            path = Path(directory) / name
            path.write_bytes(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
            self.queries.addArtifact(str(path), file=True)
        return Artifact(name)

    def check_python(self) -> None:
        try:
            self._around  # noqa: B018 - the first job that the workers' Python runs
        except Exception as error:
            described = self.describe_python(error)
            if described is not None:
                raise described from None
            raise

    def describe_python(self, error: Exception) -> Exception | None:
        sign = find_other_python(error)
        if sign is None:
            return None
        msg = (
            f"the workers of the Spark Connect server must run a Python that has "
            f"anabranch, of the same version as this one; on the workers: {sign}; set "
            f"PYSPARK_PYTHON before the server starts"
        )
        return EngineError(msg)

    def own_python(self) -> AbstractContextManager[None]:
        return contextlib.nullcontext()  # the server decides

    def close(self) -> None:
        session, self._own = self._own, None
        if session is None:
            return
        client = session.client
        # The results of its jobs are released in the background, and before it.
        wait(getattr(client, "_release_futures", ()), _RELEASED_S)
        # Not `stop`, which would end a server that the user has in this process.
        for release in (client.release_session, client.close):
            with contextlib.suppress(Exception):  # the server may be gone already
                release()


def look_around(
    batches: Iterable[pa.RecordBatch], path: str, token: str
) -> Iterator[pa.RecordBatch]:
    """Tell in a task whether it sees a file."""
    for _ in batches:  # else its worker could not be used again
        pass
    context = TaskContext.get()
    assert context is not None  # noqa: S101 - Spark calls us
    try:
        here = Path(path).read_text() == token
    except OSError:
        here = False
    row = {"partition": context.partitionId(), "here": here}
    yield pa.RecordBatch.from_pylist([row], schema=_LOOKED_ARROW)


def _one_line(error: Exception) -> str:
    """Return the first line of an error.

    >>> _one_line(ValueError("[NOT_SET] no address.", "more"))
    "('[NOT_SET] no address.', 'more')"
    """
    return str(error).strip().partition("\n")[0]
