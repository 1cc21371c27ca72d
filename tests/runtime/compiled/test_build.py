"""Fission: the firings of an operator divided among threads."""

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
