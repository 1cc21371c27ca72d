"""From FILE:NAME to sinks: what is found, and what is said when nothing is."""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

import pytest

from anabranch.cli.console import CommandError, load_module, load_sinks
from anabranch.epochs.transport.modules import find_modules_by_value
from anabranch.errors import LoopError

HEAD = "import anabranch as ab\ns = ab.from_iterable([1, 2])\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)

    def write(text, name="loaded_job.py"):
        sys.modules.pop(name.removesuffix(".py"), None)
        (tmp_path / name).write_text(HEAD + text)
        return name

    return write


LOOP = """
@ab.to_stream
def loop({}):
    for n in [1, 2]:
        with ab.stage():
            {}
"""

FOUND = {
    "a loop": (LOOP.format("times=2", "print(n)"), ":loop", 1),
    "a sink by its name": ("a = s.to_list()\nb = s.to_list()", ":b", 1),
    "a list of sinks": ("both = [s.to_list(), s.to_list()]", ":both", 2),
    "a tuple of sinks": ("both = s.to_list(), s.to_list()", ":both", 2),
    "a function": ("def make():\n    return s.to_list()", ":make", 1),
    "a generator function": ("def make():\n    yield s.to_list()", ":make", 1),
    "the only sink": ("out = s.to_list()", "", 1),
    "the only sink under two names": ("out = again = s.to_list()", "", 1),
    "program before other sinks": ("a = s.to_list()\nprogram = [a, a]", "", 2),
    "main": ("def main():\n    return s.to_list()", "", 1),
    "sinks": ("a = s.to_list()\nb = s.to_list()\nsinks = (a, b)", "", 2),
}


@pytest.mark.parametrize(("text", "name", "count"), FOUND.values(), ids=FOUND)
def test_sinks_are_found(file, text, name, count):
    assert count == len(load_sinks(file(text) + name))


REFUSED = {
    "a loop with parameters": (LOOP.format("a, b=1", "print(n)"), ":loop", "wants a;"),
    "a name that is nearly right": ("prices = s.to_list()", ":price", "mean 'prices'?"),
    "a name that is not there": ("a = s.to_list()", ":zzz", "there are a"),
    "several sinks": ("a = s.to_list()\nb = s.to_list()", "", "has 2 sinks; name one"),
    "no sink at all": ("", "", "has 0 sinks"),
    "a stream": ("", ":s", "it is a Stream; end the stream with a sink"),
    "a function without return": ("def f():\n    s.to_list()", ":f", "it is None"),
    "a number": ("x = 1", ":x", "it is a int"),
    "an empty list": ("x = []", ":x", "it is a list"),
    "an error while loading": ("1 / 0", "", "line 3, in <module>"),
    "an error in the function": ("def f():\n    return 1 / 0", ":f", "line 4, in f"),
    "no Python": ("def", "", "SyntaxError"),
}


@pytest.mark.parametrize(("text", "name", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_said(file, text, name, words):
    with pytest.raises(CommandError) as told:
        load_sinks(file(text) + name)

    assert words in str(told.value)


def test_a_missing_file_suggests_one_of_a_similar_name(file):
    file("", "loaded_job.py")

    with pytest.raises(CommandError, match=r"did you mean loaded_job\.py\?"):
        load_sinks("loadedjob.py")


def test_our_own_frames_are_not_shown(file):
    with pytest.raises(CommandError) as told:
        load_sinks(file("1 / 0"))

    assert "importlib" not in str(told.value)
    assert "cli/console.py" not in str(told.value)


def test_the_code_of_the_file_and_its_neighbours_goes_to_the_workers(file):
    file("", "loaded_helper.py")

    module = load_module(Path(file("import json, loaded_helper")))

    sent = find_modules_by_value()
    assert module in sent
    assert sys.modules["loaded_helper"] in sent
    assert sys.modules["json"] not in sent


def test_a_file_may_have_the_name_of_a_module_of_the_library(file, tmp_path):
    (tmp_path / "statistics.py").write_text(HEAD + "out = s.to_list()")

    assert 1 == len(load_sinks("statistics.py"))
    assert statistics is sys.modules["statistics"]


def test_a_loop_that_is_no_stream_is_told_by_its_line(file):
    text = LOOP.format("", "break")

    with pytest.raises(
        LoopError, match=r"loaded_job.py:8: loop: a stage cannot `break`"
    ):
        load_sinks(file(text) + ":loop")
