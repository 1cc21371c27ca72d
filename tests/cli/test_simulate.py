"""`anabranch simulate` from the outside."""

from __future__ import annotations

import json
import sys

import pytest

from anabranch.cli.main import main
from anabranch.control.model import Costs

PROGRAM = """
import itertools
import anabranch as ab

def busy(n):
    return sum(range(200)) + n

stream = ab.generate(itertools.count, int, name="read").map(busy, name="first")
program = stream.map(busy, name="second").write_csv("out")
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


def test_a_program_that_is_over_at_once_cannot_be_measured(folder, capsys):
    assert 1 == main(["simulate", "busy.py:short"])

    assert "it ended before; give it more to read" in " ".join(
        capsys.readouterr().err.split()
    )


def test_python_code_gains_by_processes_and_not_by_threads(folder, capsys, monkeypatch):
    """
    Two operators of plain Python: threads would wait for the interpreter's lock.
    """
    costs = Costs(
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
    costs = Costs(at, locked_s=2e-4, waiting=waiting)
    monkeypatch.setattr(
        sys.modules["anabranch.cli.simulate"], "measure", lambda *_: (costs, {})
    )

    assert 0 == main(["simulate", "busy.py", "--cores", "4"])

    assert guesses == capsys.readouterr().out.count("(a guess)")
