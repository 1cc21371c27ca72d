"""Spark Connect: what is found about a server, and what is refused in one line."""

from __future__ import annotations

import re
import socket
import threading
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.errors import PySparkImportError

import anabranch as ab
from anabranch.engines.spark import connect
from anabranch.engines.spark.access import ClassicAccess, access_of
from anabranch.engines.spark.connect import (
    ConnectAccess,
    asks_for_connect,
    is_connect,
    look_around,
    open_connect,
    refuse_silent_server,
)
from anabranch.engines.spark.dataframes import open_frame
from anabranch.engines.spark.residence import why_not_resident
from anabranch.engines.spark.session import QUERIES
from anabranch.engines.spark.workers import JobLabels
from anabranch.epochs.layout import lay_out
from anabranch.errors import EngineError
from anabranch.job import compile_sinks
from tests import needs

ASKING = {
    "an address": ("sc://host", {}, True),
    "the variable of PySpark": (None, {"SPARK_REMOTE": "sc://host"}, True),
    "a session of this process": (
        "local[2]",
        {"SPARK_CONNECT_MODE_ENABLED": "1"},
        True,
    ),
    "nothing": (None, {}, False),
    "a master": ("spark://host:7077", {}, False),
}


@pytest.mark.parametrize(("master", "set_", "asks"), ASKING.values(), ids=ASKING)
def test_a_session_is_one_of_connect_if_something_says_so(
    monkeypatch, master, set_, asks
):
    for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.delenv(name, raising=False)
    for name, value in set_.items():
        monkeypatch.setenv(name, value)

    assert asks == asks_for_connect(master)


def test_a_server_that_does_not_listen_is_refused_at_once():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        refuse_silent_server(f"sc://127.0.0.1:{port}/;user_id=me")

    with pytest.raises(EngineError, match=f"must listen at 127.0.0.1:{port};") as why:
        open_connect(f"sc://127.0.0.1:{port}")

    assert "\n" not in str(why.value)


def test_connect_without_a_server_says_what_to_do(monkeypatch, pytestconfig):
    needs.leave_out_without_connect(pytestconfig)
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")

    with pytest.raises(EngineError, match=r"say master='sc://host:15002'") as why:
        open_connect(None)

    text = str(why.value)
    assert text.endswith("unset SPARK_CONNECT_MODE_ENABLED to run without Connect")
    assert "\n" not in text


def test_a_client_without_its_packages_says_what_to_install(monkeypatch):
    def refuse(_):
        raise PySparkImportError(
            errorClass="PACKAGE_NOT_INSTALLED",
            messageParameters={"package_name": "grpcio", "minimum_version": "1.48.1"},
        )

    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    monkeypatch.setattr(connect, "refuse_silent_server", refuse)

    with pytest.raises(EngineError, match="grpcio") as why:
        open_connect("sc://host")

    assert str(why.value).endswith("pip install 'anabranch[connect]'")
    assert "\n" not in str(why.value)


class Session:
    """A session of Connect, whose server sees no file of this machine."""

    def __init__(self, master="local[3]", version="4.3.0", rows=None):
        self.version = version
        self.settings = {"spark.master": master}
        self.called = []
        self.rows = rows or [{"partition": n, "here": False} for n in range(3)]
        self.client = SimpleNamespace(
            release_session=lambda: self.called.append("released"),
            close=lambda: self.called.append("closed"),
        )

    @property
    def conf(self):
        return SimpleNamespace(get=self.settings.get, set=self.settings.__setitem__)

    def newSession(self):  # noqa: N802 - as Spark has it
        self.made = Session()
        self.made.rows = self.rows
        return self.made

    def range(self, _):
        return self

    def mapInArrow(self, *_):  # noqa: N802
        return self

    def toArrow(self):  # noqa: N802
        self.called.append("looked")
        return pa.Table.from_pylist(self.rows)

    def addTag(self, tag):  # noqa: N802
        self.called.append(("tag", tag))

    def interruptTag(self, tag):  # noqa: N802
        self.called.append(("interrupt", tag))

    def interruptAll(self):  # noqa: N802
        self.called.append("interrupt all")


Session.__module__ = "pyspark.sql.connect.session"


def test_a_session_is_known_by_its_class():
    assert is_connect(Session())
    assert isinstance(access_of(Session()), ConnectAccess)
    assert isinstance(access_of(SimpleNamespace()), ClassicAccess)


HERE = [{"partition": n, "here": True} for n in range(2)]
AWAY = [{"partition": n, "here": n == 0} for n in range(4)]
FOUND = {
    "a server on this machine": ("local[2]", HERE, (2, True, None)),
    "a server on another one": ("local[4]", AWAY, (4, False, None)),
    "a cluster that shares our disk": (
        "spark://host:7077",
        HERE,
        (2, False, "Spark Connect does not name the hosts of this cluster"),
    ),
}


@pytest.mark.parametrize(("master", "rows", "found"), FOUND.values(), ids=FOUND)
def test_one_job_finds_slots_and_hosts(master, rows, found):
    spark = Session(master, rows=rows)
    access = ConnectAccess(spark)

    access.check_python()

    hosts = access.why_not_one_host()
    assert found == (access.cores, access.is_on_this_machine, hosts)
    assert ["looked"] == spark.made.called
    assert [] == spark.called


def test_a_task_sees_a_file_of_its_own_machine(tmp_path, monkeypatch):
    (tmp_path / "here").write_text("token")
    at = SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: 5))
    monkeypatch.setattr(connect, "TaskContext", at)

    def look(name, token):
        (batch,) = look_around([], str(tmp_path / name), token)
        return batch.to_pylist()[0]

    assert {"partition": 5, "here": True} == look("here", "token")
    assert not look("here", "of another machine")["here"]
    assert not look("there", "token")["here"]


def test_our_settings_are_in_a_session_of_ours_which_is_released():
    spark = Session()
    access = ConnectAccess(spark)

    assert access.queries is access.row_by_row is spark.made
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    assert "1" == spark.made.settings[name]
    assert access.queries is spark.made
    assert QUERIES[name] == spark.made.settings[name]
    assert {"spark.master"} == spark.settings.keys()

    access.close()
    access.close()
    assert ["released", "closed"] == spark.made.called
    assert [] == spark.called


def test_a_job_is_cancelled_in_both_sessions():
    spark = Session()
    access = ConnectAccess(spark)
    assert access.queries is spark.made

    JobLabels("job.py").set_in_thread(access, "mine")
    access.cancel("mine")

    assert [("tag", "mine"), ("interrupt", "mine")] == spark.called
    assert ["interrupt all"] == spark.made.called


def test_a_server_that_is_gone_is_not_awaited(monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(connect, "_ANSWER_S", 0.01)
    monkeypatch.setattr(Session, "interruptTag", lambda *_: over.wait())

    ConnectAccess(Session()).cancel("mine")

    assert not over.is_set()  # the server has not answered, and nobody waits for it
    over.set()


def test_an_old_server_is_refused():
    with pytest.raises(EngineError, match=r"must be Spark 4.1 or later; it is 4.0.2"):
        ConnectAccess(Session(version="4.0.2")).check_python()


def test_the_first_job_tells_what_the_python_of_the_server_lacks(monkeypatch):
    def fail(_):
        msg = "ModuleNotFoundError: No module named 'anabranch'"
        raise RuntimeError(msg)

    monkeypatch.setattr(Session, "toArrow", fail)

    with pytest.raises(EngineError, match="before the server starts") as why:
        ConnectAccess(Session()).check_python()

    assert "\n" not in str(why.value)


def test_no_tasks_stay_on_connect():
    made = compile_sinks(ab.from_iterable([1], int).map(abs).to_list())
    layout = lay_out(made.graph, made.plan)

    why = why_not_resident(ConnectAccess(Session()), layout)

    assert "Spark Connect runs DataFrames only" == why


def test_a_streaming_dataframe_of_connect_is_refused_in_one_line(tmp_path):
    frame = SimpleNamespace(sparkSession=Session(), isStreaming=True)
    source = compile_sinks(ab.from_spark(frame, int).to_list()).graph.sources[0]

    with pytest.raises(EngineError, match=re.escape("foreachBatch on its server")) as w:
        open_frame(source, tmp_path, None)

    assert "\n" not in str(w.value)
