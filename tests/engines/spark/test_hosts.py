"""States on several hosts need a checkpoint, have a home, and nothing stays there."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import anabranch as ab
from anabranch.engines.spark import access, engine, residence
from anabranch.engines.spark.access import ClassicAccess, find_hosts
from anabranch.engines.spark.engine import clear_hosts
from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.layout import lay_out
from anabranch.epochs.state.restore import local_directory
from anabranch.epochs.unit.states import (
    find_stored,
    refuse_states_on_several_hosts,
)
from anabranch.errors import EngineError, OperatorError
from anabranch.job import compile_sinks
from bench.spark import cluster, homes
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed


def layout(stream):
    made = compile_sinks(stream.to_list())
    return lay_out(made.graph, made.plan)


def add(total: int, item: int) -> tuple[int, int]:
    return total + item, total


def stateful() -> ab.Stream:
    return ab.from_iterable(range(9), int).map(lambda n: n + 1).scan(add, 0, name="sum")


def stateless() -> ab.Stream:
    return ab.from_iterable(range(9), int).map(lambda n: n + 1)


def test_a_state_on_several_hosts_is_refused_with_what_helps():
    with pytest.raises(EngineError) as caught:
        refuse_states_on_several_hosts(
            layout(stateful()), "this cluster has 2 hosts (a, b)"
        )

    text = str(caught.value)
    assert text.startswith("the state of sum (tests/engines/spark/test_hosts.py:")
    assert "has 2 hosts (a, b)" in text
    assert "checkpoint=DIR" in text


ACCEPTED = {
    "one host has all states": (stateful, None),
    "there is no state": (stateless, "this cluster has 3 hosts (a, b, c)"),
}


@pytest.mark.parametrize(("program", "several"), ACCEPTED.values(), ids=ACCEPTED)
def test_what_needs_no_checkpoint_is_accepted(program, several):
    refuse_states_on_several_hosts(layout(program()), several)


def test_states_of_operators_that_are_taken_for_stateless_are_no_files():
    assert ["sum"] == find_stored(layout(stateful()))
    assert [] == find_stored(layout(stateless()))


class Executor:
    def __init__(self, host, port):
        self._at = host, port

    def id(self):
        return self._at[0]

    def hostPort(self):  # noqa: N802 - Java's name
        return self._at[1]


class Executors(list):
    """A sequence of Scala."""

    def apply(self, number):
        return self[number]

    def size(self):
        return len(self)


def fake_cluster(*executors):
    """A session whose driver is on host d; what PySpark calls are methods."""
    found = Executors([Executor("driver", "d:1"), *(Executor(*e) for e in executors)])
    store = SimpleNamespace(executorList=lambda active: found)
    java = SimpleNamespace(statusStore=lambda: store)
    context = SimpleNamespace(
        master="spark://d:7077", _jsc=SimpleNamespace(sc=lambda: java)
    )
    return SimpleNamespace(sparkContext=context)


def test_the_driver_is_no_host_of_tasks_unless_an_executor_is_there_too():
    assert {"a", "b"} == find_hosts(
        fake_cluster(("0", "a:1"), ("1", "a:2"), ("2", "b:1"))
    )
    assert {"d"} == find_hosts(fake_cluster(("0", "d:2")))


def test_a_cluster_names_its_hosts_if_there_are_several():
    several = fake_cluster(*((str(n), f"{host}:1") for n, host in enumerate("dcba")))

    why = ClassicAccess(several).why_not_one_host()

    assert "this cluster has 4 hosts (a, b, c)" == why
    assert ClassicAccess(fake_cluster(("0", "a:1"))).why_not_one_host() is None


class Numbers:
    """Numbers that know whether somebody has read them."""

    def __init__(self):
        self.read = False

    def __iter__(self):
        self.read = True
        return iter(range(9))


@pytest.mark.spark
def test_a_program_is_refused_before_it_has_read_a_row(monkeypatch):
    numbers = Numbers()
    monkeypatch.setattr(access, "find_hosts", lambda _: {"a", "b"})

    with pytest.raises(EngineError, match="checkpoint=DIR"):
        ab.run(ab.from_iterable(numbers, int).scan(add, 0).to_list(), on="spark")

    assert not numbers.read


@pytest.mark.spark
def test_what_a_job_leaves_on_a_host_is_removed(spark, tmp_path):
    (tmp_path / "state" / "unit").mkdir(parents=True)
    states = local_directory("test-of-hosts")
    Path(states).mkdir(parents=True, exist_ok=True)

    clear_hosts(ClassicAccess(spark), str(tmp_path), None)
    assert [False, True] == [tmp_path.exists(), states.exists()]

    clear_hosts(ClassicAccess(spark), str(tmp_path), "test-of-hosts")
    assert not states.exists()


def fail(_: int) -> int:
    raise ZeroDivisionError


def test_a_job_that_fails_leaves_nothing_on_hosts(monkeypatch, tmp_path):
    cleared = []
    monkeypatch.setattr(access, "is_on_this_machine", lambda _: False)
    monkeypatch.setattr(access, "find_hosts", lambda _: {"a", "b"})
    monkeypatch.setattr(engine, "clear_hosts", lambda _, *what: cleared.append(what))
    sink = ab.from_iterable(range(9), int).scan(add, 0).map(fail).to_list()
    folder = tmp_path / "checkpoint"

    with (
        imitated(monkeypatch, Cluster(undisturbed), tmp_path),
        pytest.raises(OperatorError, match="ZeroDivisionError"),
    ):
        ab.run(sink, on="spark", checkpoint=str(folder))

    (((_, states)),) = cleared
    assert Contents(folder).identity == states.partition("-")[0]


WANTED = {
    "a job of another waits": (4, -1, True),
    "all slots are ours": (4, 0, False),
    "an executor is gone, and its task waits": (3, -1, False),
}


@pytest.mark.parametrize(
    ("slots", "free", "wanted"), WANTED.values(), ids=WANTED.keys()
)
def test_slots_are_given_up_for_others_only(slots, free, wanted, monkeypatch):
    """
    Else the next epoch after a loss would be a Spark job, whose tasks find no state.
    """
    monkeypatch.setattr(residence, "count_slots", lambda _: slots)
    monkeypatch.setattr(residence, "_find_free_slots", lambda _: free)

    assert wanted == residence.is_wanted(None, tasks=4)


def test_after_a_loss_tasks_take_the_slots_that_are_left(monkeypatch):
    """
    They wait until Spark has let go of those that were given up, however long it takes.
    """
    free = iter([1, 1, 3])
    clock = iter(range(0, 1000, 11))  # seconds: FREED_S alone would be over at once
    monkeypatch.setattr(residence, "count_slots", lambda _: 3)
    monkeypatch.setattr(residence, "_find_free_slots", lambda _: next(free))
    monkeypatch.setattr(residence.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(residence.time, "sleep", lambda _: None)
    made = object.__new__(residence.Residence)
    vars(made).update(
        _context=None,
        _lost_s=[0.0],
        _left=SimpleNamespace(is_gone=False),
        _tasks=SimpleNamespace(cancelled=False),
    )

    assert 3 == made._wait_for_slots(8)


SLOTS_SEEN = {
    "an executor is decommissioned": ([4, 3, 3, 3, 3], True),
    "an executor is lost, and comes back": ([4, 3, 3, 3, 4], False),
    "there are slots enough": ([4, 8, 8, 8, 8], False),
}


@pytest.mark.parametrize(("seen", "ends"), SLOTS_SEEN.values(), ids=SLOTS_SEEN.keys())
def test_tasks_leave_an_executor_that_is_to_end(seen, ends, monkeypatch):
    """
    It does not end before its tasks have, and Spark kills it some time later.
    """
    slots = iter([one for one in seen for _ in range(2)])  # counted twice in a look
    monkeypatch.setattr(residence, "count_slots", lambda _: next(slots))
    monkeypatch.setattr(residence, "_find_free_slots", lambda _: 0)
    stay = object.__new__(residence._Stay)
    vars(stay).update(_context=None, wanted=False, hub=SimpleNamespace(count=4))

    for _ in seen:
        stay._look()

    assert ends == stay.is_to_end


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("resident", [True, False], ids=["resident", "jobs"])
def test_tasks_run_where_their_states_are(resident, tmp_path, pytestconfig):
    """
    On a cluster of three hosts, in a process of its own: this one may have a session.
    """
    command = [sys.executable, "-m", "bench.spark.homes", "--hosts", "3"]
    command += ["--epochs", "12", "--json", str(tmp_path / "found.json")]
    ran = subprocess.run(
        command + ([] if resident else ["--jobs"]),
        check=False,
        capture_output=True,
        text=True,
    )
    if cluster.NoCluster.__name__ in ran.stderr:
        needs.leave_out(pytestconfig, needs.CLUSTER, ran.stderr[-200:])

    assert 0 == ran.returncode, ran.stderr[-2000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert homes.AT_LEAST <= found["found where they were opened"]
    assert [] == found["left on hosts"]
