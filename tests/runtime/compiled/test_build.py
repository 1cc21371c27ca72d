"""Compiled kernels: the folder of their code, and firings divided among threads."""

import resource
import sys
from dataclasses import replace

import numba
import numpy as np
import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.language.drafts import build_graph
from anabranch.plan.plan import ArrayColumn, ArrayKernel
from anabranch.runtime.compiled import build as threads
from anabranch.runtime.compiled.part import Part
from anabranch.runtime.compiled.program import choice_of
from anabranch.runtime.compiled.shape import find_shape
from anabranch.runtime.program import Program
from tests.programs import numeric


@pytest.mark.parametrize("count", [0, 1, 5, 100, 1001])
@pytest.mark.parametrize(
    "names", [["smooth by two"], ["last", "thrice"], ["pairs", "smooth"]], ids="+".join
)
def test_blocks_are_divided_between_firings(count, names, monkeypatch):
    monkeypatch.setattr(threads, "WORTH_S", 1e-12)
    stream = numeric.stream(names, ab.from_iterable([], float, name="source"))
    graph = build_graph([stream.to_list(name="out")])
    choice = choice_of(compile_graph(graph).plan)
    inside = [name for name in graph.names if name != "out"]
    shape = find_shape(graph, inside, ["source"], choice.kernels, frozenset())
    results = {}
    for ways in (1, 3):
        part = Part(graph, shape, choice.kernels, ways)
        states = Program(graph, inside, ["source"]).states
        results[ways] = []
        for start in (0, 1, 2):
            items = [np.sin(np.arange(count) + start)]
            flow, stream = part.run_arrays(items, states)
            for change in flow.changes:
                change()
            results[ways] += stream.arrays[0].tolist()

    assert results[1] == results[3]


def test_cheap_firings_are_not_worth_a_thread():
    found = threads.FiringThreads(8)
    found.learn(1000, 1000 * 1e-9)

    assert found.ways(1000) == 1
    assert found.ways(10_000_000) == 8


def test_a_kernel_is_stored_once_its_code_is_in_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv(threads.FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.setitem(sys.modules, "numba", numba)
    column = ArrayColumn("float", 0, 0)
    kernel = ArrayKernel("one", 1, 1, 1, (column,), (column,), "def kernel(): ...", ())
    other = replace(kernel, source="def kernel(): pass")
    name, _ = threads._name_kernel(kernel)

    assert not threads.is_stored(kernel)
    folder = tmp_path / "__pycache__"
    folder.mkdir()
    (folder / f"anabranch_kernel_{name}.kernel-6.py311.nbi").touch()
    assert threads.is_stored(kernel)
    assert not threads.is_stored(other)
    assert threads.is_stored(replace(kernel, source=""))


DOUBLE = """\
def kernel(count, taken, given, constants):
    for n in range(count):
        given[n] = 2.0 * taken[n]
    return False
"""


def double_by_kernel(values):
    column = ArrayColumn("float", 0, 0)
    kernel = ArrayKernel("one", 1, 1, 1, (column,), (column,), DOUBLE, ())
    fire = threads.compile_kernel(kernel)
    given = np.zeros(len(values))
    assert not fire(len(values), np.array(values), given, np.zeros(0))
    return given.tolist()


@pytest.fixture
def folder(monkeypatch, tmp_path):
    monkeypatch.setenv(threads.FOLDER_VARIABLE, str(tmp_path / "kernels"))
    monkeypatch.setattr(threads, "_compiled", {})
    return tmp_path / "kernels"


@pytest.mark.parametrize("bytes_", [0, 400])
def test_a_folder_on_a_full_disk_is_done_without(folder, bytes_):
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, most))
    try:
        found = double_by_kernel([1.0, 2.5])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    assert [2.0, 5.0] == found
    kept = [path for path in folder.rglob("*") if path.is_file()]
    assert {".py", ".pyc"} >= {path.suffix for path in kept}


@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_folder_with_a_damaged_file_is_done_without(folder, ending, monkeypatch):
    double_by_kernel([1.0])
    (file,) = folder.rglob(f"*.{ending}")
    file.write_bytes(b"")
    monkeypatch.setattr(threads, "_compiled", {})

    assert [2.0, 5.0] == double_by_kernel([1.0, 2.5])
