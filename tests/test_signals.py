"""Ctrl-C and SIGTERM, raised in this process and in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import anabranch as ab
from anabranch.signals import Signals
from tests import needs

SCRIPT = """\
import sys, time
from pathlib import Path
import anabranch as ab

def slowly(n: int) -> int:
    Path("begun").touch()
    time.sleep({seconds})
    return n

if __name__ == "__main__":
    out = ab.from_iterable(range(100000), int).map(slowly, name="slow").write_csv("out")
    ab.run(out, on={engine!r})
"""
STATUS = {signal.SIGINT: -signal.SIGINT, signal.SIGTERM: 143}
BY_SIGNAL_AND_ENGINE = pytest.mark.parametrize(
    ("number", "engine"),
    needs.quick_rows(
        2,
        [
            (signal.SIGINT, "local"),
            (signal.SIGTERM, "sequential"),
            (signal.SIGINT, "sequential"),
            (signal.SIGTERM, "local"),
        ],
    ),
)


def run_script(folder, engine, seconds, *signals):
    (folder / "script.py").write_text(SCRIPT.format(engine=engine, seconds=seconds))
    process = subprocess.Popen(
        [sys.executable, "script.py"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        for number in signals:
            wait_for(folder / "begun", process)
            process.send_signal(number)
            time.sleep(0.5)  # two that come at once are one
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    return process.returncode, said


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@BY_SIGNAL_AND_ENGINE
def test_a_signal_stops_a_job_and_leaves_no_output(tmp_path, engine, number):
    status, said = run_script(tmp_path, engine, 0.001, number)

    assert STATUS[number] == status, said
    assert "stopped early, so there is no output in files" in said
    assert {"script.py", "begun"} == {path.name for path in tmp_path.iterdir()}


@BY_SIGNAL_AND_ENGINE
def test_a_second_signal_ends_a_job_that_hangs(tmp_path, engine, number):
    status, said = run_script(tmp_path, engine, 1e6, number, number)

    assert STATUS[number] == status, said
    assert "operator 'slow' (script.py:11) had not returned" in said
    assert {"script.py", "begun"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("times", [1, 2])
def test_sigterm_to_sparks_processes_too_is_a_clean_stop(tmp_path, times):
    """
    As a service manager sends it: to each process of the job's control group.
    """
    (tmp_path / "script.py").write_text(SCRIPT.format(engine="spark", seconds=0.01))
    process = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(tmp_path / "begun", process)
        for _ in range(times):
            os.killpg(process.pid, signal.SIGTERM)
            time.sleep(0.5)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()

    late = {-signal.SIGTERM} if times > 1 else set()  # the job has ended before
    assert process.returncode in {STATUS[signal.SIGTERM], *late}, said
    assert "stopped early, so there is no output in files" in said
    assert {"script.py", "begun"} == {path.name for path in tmp_path.iterdir()}


def test_handlers_are_there_while_a_job_runs_and_gone_afterwards():
    before = [signal.getsignal(n) for n in STATUS]
    during = []

    def look(n):
        during.append([signal.getsignal(n) for n in STATUS])

    ab.run(ab.from_iterable([1], int).for_each(look), on="sequential")

    assert before == [signal.getsignal(n) for n in STATUS]
    assert all(one != other for one, other in zip(before, during[0], strict=True))


def test_a_handler_of_the_users_stays(monkeypatch):
    class Asked(BaseException):
        pass

    def own(number, frame):
        raise Asked

    begun, let_go = threading.Event(), threading.Event()

    def wait(n):
        begun.set()
        let_go.wait(0.001)

    def send():
        begun.wait(60)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, own)
    sender = threading.Thread(target=send)
    sender.start()
    try:
        with pytest.raises(Asked):
            ab.run(ab.generate(lambda: iter(int, 1)).for_each(wait), on="sequential")
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
        sender.join()


def test_only_the_main_thread_has_handlers():
    before = [signal.getsignal(n) for n in STATUS]
    during = []

    def enter():
        with Signals():
            during.extend(signal.getsignal(n) for n in STATUS)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert before == during


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Signals():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_outside_of_waiting_a_signal_raises_what_it_stands_for():
    with Signals() as signals, pytest.raises(SystemExit) as ended:
        signal.raise_signal(signal.SIGTERM)

    assert 143 == ended.value.code == signals.exit_status


def test_while_somebody_waits_signals_are_counted():
    with Signals() as signals, signals.waiting():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)

        assert (2, 130) == (signals.times, signals.exit_status)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


LOADING = """\
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
{before}
from anabranch_command import main
main(["--version"])
"""


def interrupt_loading(name, before=""):
    return subprocess.run(
        [sys.executable, "-c", LOADING.format(name=name, before=before)],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("name", ["anabranch.errors", "anabranch.cli.main", "numpy"])
def test_an_interrupt_while_the_command_is_loaded_ends_it_without_a_word(name):
    done = interrupt_loading(name)

    assert (-signal.SIGINT, "", "") == (done.returncode, done.stdout, done.stderr)


def test_an_interrupt_that_was_to_be_ignored_is_ignored():
    done = interrupt_loading(
        "anabranch.cli.main", "signal.signal(signal.SIGINT, signal.SIG_IGN)"
    )

    assert (0, "") == (done.returncode, done.stderr)
