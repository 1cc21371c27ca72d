"""A job with a dashboard: it shows what the job is, ends with it, and leaves nothing."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
from urllib.parse import urlsplit

import pytest

import anabranch as ab
from anabranch.cli.main import main
from anabranch.errors import DashboardError, OperatorError
from anabranch.metrics.run_record import Follower
from tests.dashboard.test_server import get, news

COMMAND = [
    sys.executable,
    "-c",
    "import anabranch.cli as c; raise SystemExit(c.main())",
]
PROGRAM = """
import itertools
import anabranch as ab
program = ab.generate(itertools.count).map(abs).for_each(lambda n: None)
"""


@contextlib.contextmanager
def running(*arguments, **options):
    """Run the command; a test that fails does not wait for its end."""
    command = [*COMMAND, *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options) as one:
        try:
            yield one
        except BaseException:
            one.kill()
            raise


class Gate:
    """A source of numbers that goes on when it is told to."""

    def __init__(self):
        self.opened = threading.Event()

    def numbers(self):
        yield from range(10)
        self.opened.wait()
        yield from range(10, 20)


@pytest.fixture
def gate():
    made = Gate()
    yield made
    made.opened.set()


@pytest.fixture(autouse=True)
def _records(tmp_path, monkeypatch):
    """Records of tests go where tests write, also those of other processes."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def threads():
    names = ("dashboard", "recorder")
    found = [one for one in threading.enumerate() if one.name in names]
    for one in found:
        one.join(5)  # the last thing they do is to say that they are done
    return [one.name for one in found if one.is_alive()]


def test_a_job_is_shown_while_it_runs_and_recorded_to_its_end(gate, capsys):
    numbers = ab.generate(gate.numbers).map(abs, name="size").to_list()

    job = ab.start(numbers, on="local", degree=2, ui=True)
    running = news(job.ui.address)
    program = json.loads(get(job.ui.address, "program"))
    gate.opened.set()
    job.wait()

    assert f"dashboard: {job.ui.address} (recorded in" in capsys.readouterr().err
    assert "running" == running["status"]
    assert ("test_live.py", "local") == (program["name"], program["on"])
    assert 'data-operator="size"' in program["drawing"]
    assert job.compilation.explain() == program["explanation"]
    story = Follower(job.ui.record).story()
    assert "finished" == story.status
    assert (20, 20) == (story.samples[-1]["read"], story.samples[-1]["delivered"])
    assert 20 == sum(one.get("items", 0) for one in story.samples)
    assert job.metrics().degrees == story.samples[-1]["degrees"]
    assert [] == threads()
    with pytest.raises(urllib.error.URLError):
        get(job.ui.address)


def test_a_job_that_fails_shows_its_error():
    numbers = ab.from_iterable([4, 0]).map(lambda n: 1 / n).to_list()

    job = ab.start(numbers, on="local", ui=True)
    with pytest.raises(OperatorError) as raised:
        job.wait()

    story = Follower(job.ui.record).story()
    assert ("failed", f"OperatorError: {raised.value}") == (story.status, story.error)
    assert "ZeroDivisionError" in story.error
    assert [] == threads()


@pytest.mark.parametrize("on", ["local", "sequential"])
def test_a_job_that_is_stopped_is_shown_as_stopped(on):
    job = ab.start(ab.from_iterable(range(10**9)).for_each(abs), on=on, ui=True)
    job.stop()

    assert "stopped" == Follower(job.ui.record).story().status
    assert [] == threads()


def test_adaptations_are_recorded_with_reason_and_effect():
    numbers = ab.testing.offered(ab.testing.constant(300, seconds=60))
    job = ab.start(numbers.map(abs).for_each(abs), on="local", ui=True)
    follower = Follower(job.ui.record)
    while not follower.story().changes and not job.wait(0.05):
        pass
    job.stop()

    first = follower.story().to_dict()["changes"][0]
    told = (first["at_s"], first["what"], first["why"], first["effect"])
    change = job.history[0]
    assert (change.at_s, change.what, change.why, change.effect) == told
    assert change.why


def test_without_a_dashboard_there_is_none():
    job = ab.run(ab.from_iterable([1]).to_list(), on="sequential")

    assert job.ui is None


def test_a_port_that_is_taken_is_told_before_anything_runs(gate):
    first = ab.start(ab.generate(gate.numbers).to_list(), on="sequential", ui=True)
    port = urlsplit(first.ui.address).port
    ran = []

    with pytest.raises(DashboardError, match=f"127.0.0.1:{port} is not available"):
        ab.run(ab.from_iterable([1]).for_each(ran.append), on="sequential", ui=port)

    assert [] == ran
    gate.opened.set()
    first.wait()


def test_a_program_that_cannot_start_leaves_no_dashboard(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-0.csv").write_text("an earlier result")
    sink = ab.from_iterable([(1,)]).write_csv(str(tmp_path / "out"))

    with pytest.raises(ab.errors.AnabranchError):
        ab.run(sink, on="local", ui=True)

    assert [] == threads()
    assert ["out"] == [path.name for path in tmp_path.iterdir()]


def test_ctrl_c_ends_a_run_with_its_dashboard_cleanly(tmp_path):
    (tmp_path / "endless.py").write_text(PROGRAM)
    command = ["run", "endless.py", "--on", "local", "--ui"]
    with running(*command, cwd=tmp_path) as process:
        first = process.stderr.readline()
        address, _, kept = first.removeprefix("dashboard: ").partition(" (recorded in ")
        while not news(address)["now"].get("read"):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()

    assert 130 == process.returncode
    assert "Traceback" not in said
    assert "stopped" == Follower(tmp_path / kept.strip()[:-1]).story().status


NO_RECORDS = {
    "a file that is not there": (None, "No such file"),
    "a text": ("words, words\n", "another kind of file"),
    "other data": ('{"a": 1}\n[3]\n', "another kind of file"),
    "nothing at all": ("", "another kind of file"),
}


@pytest.mark.parametrize(("text", "why"), NO_RECORDS.values(), ids=NO_RECORDS)
def test_only_the_record_of_a_run_is_shown_again(tmp_path, capsys, text, why):
    path = tmp_path / "run.jsonl"
    if text is not None:
        path.write_text(text)

    assert 1 == main(["dashboard", str(path)])
    assert why in capsys.readouterr().err.replace("\n", " ")


def test_an_old_run_is_shown_again_until_ctrl_c(tmp_path):
    job = ab.run(ab.from_iterable([1, 2]).to_list(), on="sequential", ui=True)
    with running("dashboard", str(job.ui.record)) as process:
        address = process.stderr.readline().split()[1]
        shown = news(address)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()

    assert ("finished", 2) == (shown["status"], shown["now"]["read"])
    assert (0, "") == (process.returncode, said)
