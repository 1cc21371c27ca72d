"""Who rebinds or may change what an operator reads, by the text of a module."""

import sys
import types

import pytest

from anabranch.python.writers import Writers

REBOUND = {
    "by a global declaration": ("def g():\n    global X\n    X = 2\n", 3),
    "by nobody": ("def g():\n    X = 2\n", None),
    "by the module itself, before the job": ("X = 3\n", None),
}
CHANGED = {
    "by a method that changes": ("def g():\n    X.append(1)\n", 3),
    "by an assignment of an element": ("def g():\n    X[0] = 1\n", 3),
    "by being passed on": ("def g():\n    other(X)\n", 3),
    "by being returned": ("def g():\n    return X\n", 3),
    "not by reading an element": ("def g():\n    return X[0]\n", None),
    "not by a loop": ("def g():\n    for x in X:\n        print(x)\n", None),
    "not by len": ("def g():\n    return len(X)\n", None),
    "not by a local of that name": ("def g():\n    X = []\n    X.append(1)\n", None),
}


@pytest.fixture
def line_of(tmp_path, monkeypatch):
    def find(text, ask):
        path = tmp_path / "writers_of_test.py"
        path.write_text("X = [1]\n" + text)
        module = types.ModuleType(path.stem)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, path.stem, module)
        exec(compile(path.read_text(), str(path), "exec"), vars(module))
        place = ask(Writers({path.stem: vars(module)}), vars(module))
        return None if place is None else place.line

    return find


@pytest.mark.parametrize(("text", "line"), REBOUND.values(), ids=REBOUND)
def test_who_rebinds(text, line, line_of):
    found = line_of(text, lambda who, names: who.who_rebinds("X", names, anybody=True))

    assert line == found


@pytest.mark.parametrize(("text", "line"), CHANGED.values(), ids=CHANGED)
def test_who_may_change(text, line, line_of):
    found = line_of(
        text,
        lambda who, names: who.who_may_change("X", names, names["X"], anybody=True),
    )

    assert line == found


WHO_RUNS = {
    "nobody that is only called by name": ("def g():\n    X.append(1)\ng()\n", None),
    "whoever is handed to somebody": (
        "def g():\n    X.append(1)\nhooks = [g]\n",
        3,
    ),
    "a method that is handed to somebody": (
        "class C:\n    def g(self):\n        X.append(1)\nhooks = [C().g]\n",
        4,
    ),
    "a lambda": ("hook = lambda: X.append(1)\n", 2),
    "a finalizer": ("class C:\n    def __del__(self):\n        X.append(1)\n", 4),
    "no constructor": (
        "class C:\n    def __init__(self):\n        X.append(1)\n",
        None,
    ),
}


@pytest.mark.parametrize(("text", "line"), WHO_RUNS.values(), ids=WHO_RUNS)
def test_who_may_run_beside_operators(text, line, line_of):
    found = line_of(text, lambda who, names: who.who_may_change("X", names, names["X"]))

    assert line == found
