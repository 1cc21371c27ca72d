"""When a program goes from Python to compiled code, and back."""

import threading
import time
from dataclasses import replace

import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.errors import OperatorError
from anabranch.language.drafts import build_graph
from anabranch.runtime.compiled import program as tiers
from anabranch.runtime.compiled.build import CompilationError
from anabranch.runtime.compiled.program import choice_of, make_program
from anabranch.runtime.positions import positions_of
from anabranch.runtime.program import Program
from tests.programs import numeric


def compiled(names, when):
    stream = numeric.stream(names, ab.from_iterable([], float, name="source"))
    graph = build_graph([stream.to_list(name="out")])
    return graph, replace(choice_of(compile_graph(graph).plan), when=when)


def made(names, when="hot", **more):
    graph, choice = compiled(names, when)
    inside = [name for name in graph.names if name != "out"]
    return make_program(graph, inside, ["source"], choice, **more)


def test_nothing_is_compiled_before_it_is_worth_it():
    program = made(["double", "root"])
    program._is_known = lambda: False

    program.run([1.0] * 100)

    assert not program.compiled
    assert "compile" not in [thread.name for thread in threading.enumerate()]


def test_a_hot_program_is_compiled_beside_the_flow(monkeypatch):
    monkeypatch.setattr(tiers, "_HOT_S", 0.0)
    program = made(["double", "smooth", "root"])
    program._is_known = lambda: False
    program.run([1.0] * 100)
    deadline_s = time.monotonic() + 60
    while not program.compiled and time.monotonic() < deadline_s:
        time.sleep(0.01)

    assert program.compiled


def test_what_is_slower_compiled_goes_back(monkeypatch):
    program = made(["double"])
    program._is_known = lambda: False
    program._cost.add(10_000_000, 1e-6)
    program._choice = replace(program._choice, when="hot")
    program._compiling = True
    program._compile()
    for _ in range(tiers._TRIAL_BATCHES):
        program.run([1.0] * 100)

    assert not program.compiled
    assert program.why_not_compiled == "is faster in Python"


def test_items_of_another_type_again_and_again_end_it():
    program = made(["double"], "at once")
    for _ in range(tiers._PATIENCE):
        program.run([1] * 100)

    assert not program.compiled
    assert [2.0] * 500 == next(iter(program.exits.values())).items


def test_a_compiler_that_fails_changes_nothing(monkeypatch):
    def failing(*_):
        msg = "no compiler here"
        raise CompilationError(msg)

    monkeypatch.setattr("anabranch.runtime.compiled.part.compile_kernel", failing)
    program = made(["double"], "at once")
    program.run([1.0] * 100)

    assert not program.compiled
    assert program.why_not_compiled == "no compiler here"
    assert [2.0] * 100 == next(iter(program.exits.values())).items


def test_never_means_never():
    assert type(made(["double"], "never")) is Program


def test_an_item_that_fails_is_named_whatever_comes_before_the_part():
    values = [1.0] * 52 + [0.0] + [2.0] * 50
    left = iter(values)
    program = made(
        ["filter", "in Python", "inverse", "double"],
        "at once",
        describe=lambda _: f"item {len(values) - left.__length_hint__()}",
    )
    program.run([2.0] * 100)
    with pytest.raises(OperatorError, match=r"failed on item 53: 0\.0: ZeroDivision"):
        program.run(left)

    assert program.compiled


def test_what_came_before_an_item_that_fails_has_left():
    """
    With positions, which are followed item by item, as in a region with replicas.
    """
    graph, choice = compiled(["in Python", "inverse", "double"], "at once")
    inside = [name for name in graph.names if name != "out"]
    positions = positions_of(graph, frozenset())
    program = make_program(graph, inside, ["source"], choice, positions=positions)
    program.run([2.0] * 100, [range(100)])
    (left,) = program.exits.values()
    left.clear()
    with pytest.raises(OperatorError, match="ZeroDivisionError"):
        program.run([1.0] * 52 + [0.0] + [2.0] * 50, [range(100, 203)])

    assert program.compiled
    assert [2.0] * 52 == left.items


def test_the_profiler_finds_the_operator_at_work():
    program = made(["in Python", "double", "smooth", "in Python"], "at once")
    program.run([1.0] * 100)
    views = [view for view in program.parts if "compiled" in view.filename]

    assert len(program.parts) > 2
    assert [("source", "map", "map_2", "map_3")] == [v.path_of([2]) for v in views]


def test_whatever_fails_in_a_step_python_takes_over(monkeypatch):
    program = made(["double", "smooth"], "at once")
    program.run([1.0] * 100)
    part = program._staged.stages.part
    monkeypatch.setattr(part, "_run", lambda flow: flow.no_such_thing)
    (left,) = program.exits.values()
    before = left.items[:]
    program.run([1.0] * 100)

    assert len(before) + 100 == len(left.items)
    assert set(before) == set(left.items)
