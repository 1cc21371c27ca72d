"""`anabranch simulate` from the outside."""

from __future__ import annotations

import json
import sys

import pytest

from anabranch.cli.main import main
from anabranch.control.throughput.model import ItemCosts

PROGRAM = """
import itertools
import anabranch as ab

def busy(n):  # nothing that columns could compile: each call has to be sampled
    return len(repr([*range(300)])) + n

stream = ab.generate(itertools.count, int, name="read").map(busy, name="first")
program = stream.map(busy, name="second").write_csv("out")
empty = ab.from_iterable([], name="read").map(busy).write_csv("out")
short = ab.from_iterable([1], name="read").map(busy).write_csv("out")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "busy.py").write_text(PROGRAM)
    return tmp_path


def test_each_number_of_cores_has_its_outcome_and_nothing_is_written(folder, capsys):
    assert 0 == main(
        ["simulate", "busy.py", "--cores", "6", "--seconds", "1", "--json"]
    )

    found = json.loads(capsys.readouterr().out)
    assert [1, 2, 4, 6] == [one["cores"] for one in found["outcomes"]]
    assert 1.0 == pytest.approx(found["outcomes"][0]["speedup"])
    assert "read > first > second" in found["costs_s"]
    assert not (folder / "out").exists()


def test_a_short_input_is_repeated_until_it_is_measured(folder, capsys):
    """
    As the program of `anabranch new`, which reads all its trades in a moment.
    """
    assert 0 == main(["simulate", "busy.py:short", "--cores", "2", "--seconds", "1"])

    told = capsys.readouterr()
    assert "repeated from memory" in told.err
    assert "what limits it with 2 cores" in told.out


def test_a_program_without_input_cannot_be_measured(folder, capsys):
    assert 1 == main(["simulate", "busy.py:empty", "--seconds", "1"])

    assert "its sources gave no items" in " ".join(capsys.readouterr().err.split())


def test_python_code_gains_by_processes_and_not_by_threads(folder, capsys, monkeypatch):
    """
    Two operators of plain Python: threads would wait for the interpreter's lock.
    """
    costs = ItemCosts(
        {("read", "first"): 1e-3, ("read", "first", "second"): 1e-3}, locked_s=2e-3
    )
    monkeypatch.setattr(
        sys.modules["anabranch.cli.simulate"], "measure", lambda *_: (costs, {})
    )
    command = ["simulate", "busy.py", "--cores", "2", "--json"]

    assert 0 == main(command)
    threads = json.loads(capsys.readouterr().out)["outcomes"][-1]["speedup"]
    assert 0 == main([*command, "--processes"])
    processes = json.loads(capsys.readouterr().out)["outcomes"][-1]["speedup"]

    assert threads < 1.5 < processes


@pytest.mark.parametrize(("waiting", "guesses"), [(0.0, 0), (0.3, 1)])
def test_it_says_where_the_lock_makes_it_a_guess(
    folder, capsys, monkeypatch, waiting, guesses
):
    """
    Four operators: two threads on two cores are no guess, whatever they wait.
    """
    names = ("read", "first", "second", "third", "fourth")
    at = {names[: n + 1]: 1e-3 for n in range(1, 5)}
    costs = ItemCosts(at, locked_s=2e-4, waiting=waiting)
    monkeypatch.setattr(
        sys.modules["anabranch.cli.simulate"], "measure", lambda *_: (costs, {})
    )

    assert 0 == main(["simulate", "busy.py", "--cores", "4"])

    assert guesses == capsys.readouterr().out.count("(a guess)")


SCANS = """
import itertools
import anabranch as ab

def count(state: int, item: int) -> tuple[int, int]:
    return state + 1, item

stream = ab.generate(itertools.count, int, name="o1")
for n in range(2, 9):
    stream = stream.scan(count, 0, name=f"o{n}")
program = stream.to_list()
"""


def test_processes_have_the_limits_of_spark_and_they_are_told(
    folder, capsys, monkeypatch
):
    """
    A chain of scans without a key: nothing can be replicated, but cut.
    """
    (folder / "scans.py").write_text(SCANS)
    names = tuple(f"o{n}" for n in range(1, 9))
    costs = ItemCosts({names[: n + 1]: 1e-4 for n in range(8)}, locked_s=8e-4)
    monkeypatch.setattr(
        sys.modules["anabranch.cli.simulate"], "measure", lambda *_: (costs, {})
    )

    assert 0 == main(["simulate", "scans.py", "--cores", "8", "--processes"])

    text = capsys.readouterr().out
    assert ["1.00x", "2.00x", "4.00x", "8.00x"] == [
        line.split()[2] for line in text.splitlines()[2:6]
    ]
    assert "all 8 cores are busy" in text
    assert "moving rows between workers is not in the model" in text


def test_a_program_that_writes_files_can_be_simulated_on_spark(folder, capsys):
    command = ["simulate", "busy.py", "--cores", "2", "--seconds", "1", "--processes"]

    assert 0 == main([*command, "--json"])

    assert all(one["limit"] for one in json.loads(capsys.readouterr().out)["outcomes"])


WAITING = """
import itertools, time
import anabranch as ab

class Slow(ab.Operator):
    def process(self, n):
        time.sleep(0.002)
        yield n

stream = ab.generate(itertools.count, int, name="read").key_by(lambda n: n % 8)
program = stream.apply(Slow, name="slow").write_csv("out")
"""


def test_the_time_in_which_code_waits_is_told(folder, capsys, monkeypatch):
    costs = ItemCosts(
        {("read",): 1e-4, ("read", "first"): 1e-4},
        locked_s=2e-4,
        blocked={("read", "first"): 8e-4},
    )
    monkeypatch.setattr(
        sys.modules["anabranch.cli.simulate"], "measure", lambda *_: (costs, {})
    )

    assert 0 == main(["simulate", "busy.py", "--cores", "1"])

    text = capsys.readouterr().out
    assert "an item costs 1000.00 us in one thread: first 90%, read 10%" in text
    assert "80% of it is waiting" in text
    assert "the thread of first" in text
    assert "waits for 89% of its time" in text  # 0.8 of 0.9 ms, and handing over


def test_an_operator_that_sleeps_takes_as_long_as_it_sleeps(folder, capsys):
    (folder / "waits.py").write_text(WAITING)

    assert 0 == main(
        ["simulate", "waits.py", "--cores", "1", "--seconds", "1", "--json"]
    )

    found = json.loads(capsys.readouterr().out)
    on_core_s = sum(found["costs_s"].values())
    assert found["waits_s"]["read > slow"] > 3 * on_core_s
    assert "lock" not in found["outcomes"][0]["limit"]
