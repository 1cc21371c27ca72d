"""`anabranch verify`, `new` and `doctor` from the outside."""

from __future__ import annotations

import socket
import subprocess
import sys
from importlib.metadata import metadata

import pytest

from anabranch.cli import doctor, verify
from anabranch.cli.console import load_sinks
from anabranch.cli.main import main
from anabranch.cli.new import make_trades
from anabranch.job import graph_of, start
from anabranch.metrics.run_record import append
from anabranch.testing.assertions import SampleRun

PROGRAM = """
import anabranch as ab

class Last(ab.Operator):
    def setup(self):
        self.last = 0

    def process(self, n):
        yield n - self.last
        self.last = n

program = ab.from_iterable([3, 5, 9, 2]).apply(Last).write_csv("differences.csv")
missing = ab.read_csv("nowhere.csv", int).to_kafka("127.0.0.1:{port}", "numbers")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    sys.modules.pop("differences", None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "differences.py").write_text(PROGRAM.format(port=port))
    return tmp_path


def test_a_program_is_compared_and_nothing_is_written(folder, capsys):
    assert 0 == main(
        ["verify", "differences.py", "--on", "local", "--degrees", "1", "3"]
    )

    told = capsys.readouterr().err.splitlines()
    assert [
        "sequential: 4 outputs from 4 items of each source",
        "local, degree 1: same",
        "local, degree 3: same",
    ] == told
    assert not (folder / "differences.csv").exists()


def test_a_difference_is_named_and_is_the_exit_status(folder, capsys, monkeypatch):
    outcomes = iter([SampleRun({"write_csv": [3]}), SampleRun({"write_csv": [4]})])
    monkeypatch.setattr(verify, "run_sample", lambda *_: next(outcomes))

    assert 1 == main(["verify", "differences.py", "--on", "local", "--degrees", "2"])
    assert (
        "local, degree 2: DIFFERENT: item 1 of 'write_csv' must be 3; it is 4"
        in capsys.readouterr().err
    )


def test_a_new_project_runs_and_passes_its_own_tests(folder, monkeypatch, capsys):
    assert 0 == main(["new", "prices"])
    monkeypatch.chdir(folder / "prices")

    assert 0 == main(["run", "program.py", "--on", "local"])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout
    assert "2 passed" in done.stdout
    assert "ts,symbol,vwap" == (folder / "prices/prices.csv").read_text().split()[0]


def test_a_new_project_needs_a_new_folder(folder, capsys):
    (folder / "prices").mkdir()

    assert 1 == main(["new", "prices"])
    assert "prices exists; choose another name" in capsys.readouterr().err


def test_the_trades_of_a_new_project_are_always_the_same():
    assert make_trades() == make_trades()
    assert 5_001 == len(make_trades().splitlines())


def test_a_machine_that_has_everything_is_well(folder, capsys):
    assert 0 == main(["doctor", "--quick"])

    told = capsys.readouterr().err
    assert "ok       Python: 3." in told
    assert "ok       Java: " in told
    assert told.endswith("everything is in place\n")


def test_what_a_program_needs_and_is_missing_is_named(folder, capsys):
    assert 1 == main(["doctor", "differences.py:missing", "--quick"])

    told = capsys.readouterr().err
    assert "missing  read_csv: there is no nowhere.csv" in told
    assert "missing  to_kafka: 127.0.0.1:" in told
    assert "does not answer" in told
    assert "differences.py:13" in told
    assert "2 to mend" in told


def test_a_server_that_answers_is_well(folder):
    op = graph_of(load_sinks("differences.py:missing")).sinks[0]
    with socket.create_server(("127.0.0.1", 0)) as server:
        check = doctor.look_at_server(op, "127.0.0.1", server.getsockname()[1])

    assert check.fix is None


def test_another_python_of_the_workers_is_named(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/no/such/python")

    check = doctor.look_at_worker_python()

    assert f"export PYSPARK_PYTHON={sys.executable}" == check.fix
    assert "/no/such/python" in check.found


def test_a_package_that_is_not_there_is_optional():
    (check,) = doctor.look_at_extras({"no_such_module": "kafka"})

    assert "pip install 'anabranch[kafka]'" in (check.fix or "")
    assert not check.needed


def test_nothing_is_missing_where_all_extras_are_installed():
    assert [doctor.Check("extras", "json, csv")] == list(
        doctor.look_at_extras({"json": "json", "csv": "csv"})
    )


def test_the_extras_of_the_doctor_are_those_of_the_package():
    for_users = {"spark", "bench", "docs", "lane", "test"}  # apart from these

    assert set(
        metadata("anabranch").get_all("Provides-Extra") or ()
    ) - for_users == set(doctor._EXTRAS.values())


def test_a_run_is_explained_from_its_record(folder, capsys):
    sinks = load_sinks("differences.py:program")
    job = start(*sinks, on="local", ui=True)
    job.wait()

    assert 0 == main(["explain", "--run", str(job.ui.record)])

    told = capsys.readouterr().out
    assert "differences.py on local: finished after" in told
    assert "4 items read, 4 delivered" in told
    assert "apply was sequential: " in told


def test_the_limit_and_the_failures_of_a_run_are_explained(tmp_path, capsys):
    load = {"score": {"element": "score", "replicas": 1, "skew": 1.0, "busy": 0.9}}
    sample = {"at_s": 2.0, "read": 9, "delivered": 8, "load": load}
    record = tmp_path / "run.jsonl"
    program = {"name": "job.py", "on": "local", "operators": 2, "parallel": 1}
    append(
        record,
        [
            {"program": program},
            {"sample": sample},
            {"failures": ["operator 'score' failed on item 3"]},
            {"end": {"status": "finished", "error": None}},
        ],
    )

    assert 0 == main(["explain", "--run", str(record)])

    told = capsys.readouterr().out
    assert "what limited it: score is the bottleneck; it works 90% of the time" in told
    assert "failed: operator 'score' failed on item 3" in told


@pytest.mark.parametrize("arguments", [[], ["differences.py", "--run", "run.jsonl"]])
def test_a_program_or_a_run_is_explained(folder, capsys, arguments):
    assert 1 == main(["explain", *arguments])
    assert "one thing is explained at a time" in capsys.readouterr().err
