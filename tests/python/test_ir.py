"""Lowered functions do what Python does."""

from __future__ import annotations

import pytest

from anabranch.python import ir
from tests.python import ir_functions as programs
from tests.python.ir_machine import machine_of

CASES = [
    programs.arithmetic,
    programs.conditions,
    programs.short_circuit,
    programs.loops,
    programs.unpacking,
    programs.comprehensions,
    programs.generators,
    programs.closures,
    programs.errors,
    programs.objects,
    programs.imported,
    lambda a, b: (a or b, [n + 1 for n in range(b)]),
]
VALUES = [(0, 0), (1, 2), (7, 3), (-2, 5), (4, 4), (7, 1), (2, 101)]


def outcome(function, args):
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - compared
        return type(error), str(error)


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("args", VALUES, ids=str)
def test_a_lowered_function_gives_what_python_gives(function, args):
    assert outcome(function, args) == outcome(machine_of(function), args)


def test_a_method_and_a_closure_are_lowered():
    meter, factor = programs.Meter(), 3
    process = machine_of(programs.Meter.process)

    def times(n):
        return n * factor

    assert [5, 7] == [*process(meter, 5), *process(meter, 2)]
    assert machine_of(times)(4) == 12


def test_instructions_know_their_lines():
    first = programs.conditions.__code__.co_firstlineno
    lines = {
        one.line - first
        for one in ir.walk(ir.lower(programs.conditions).body)
        if isinstance(one, ir.Compare)
    }

    assert {1, 3, 5} == lines


def test_a_name_is_local_of_an_enclosing_function_or_global():
    made = next(
        one
        for one in ir.walk(ir.lower(programs.closures).body)
        if isinstance(one, ir.MakeFunction)
    )
    scopes = {
        one.name: one.scope
        for one in ir.walk(made.function.body)
        if isinstance(one, ir.Load)
    }

    assert {"by": "local", "count": "cell"} == scopes
    assert any(
        isinstance(one, ir.Load) and (one.name, one.scope) == ("LIMIT", "global")
        for one in ir.walk(ir.lower(programs.closures).body)
    )


@pytest.mark.parametrize(
    ("function", "line", "reason"),
    [
        (programs.has_class, 1, "has a classdef statement"),
        (programs.has_match, 1, "has a match statement"),
        (programs.waits, 0, "waits is a coroutine"),
    ],
)
def test_what_cannot_be_lowered_is_refused_with_its_line(function, line, reason):
    with pytest.raises(ir.LoweringError, match=reason) as refused:
        ir.lower(function)

    assert function.__code__.co_firstlineno + line == refused.value.line


def test_a_function_without_source_is_refused():
    made = eval("lambda x: x")

    with pytest.raises(ir.LoweringError, match="not at hand"):
        ir.lower(made)
