"""Lowered functions do what Python does."""

from __future__ import annotations

import ast
import asyncio.streams
import collections
import dataclasses
import email.message
import enum
import types

import pytest

from anabranch.python import ir
from anabranch.python.lower import LoweringError, lower
from anabranch.python.source import node_of
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
    programs.classes,
    programs.patterns,
    programs.nested,
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
        for one in ir.walk(lower(programs.conditions).body)
        if isinstance(one, ir.Compare)
    }

    assert {1, 3, 5} == lines


def test_a_name_is_local_of_an_enclosing_function_or_global():
    made = next(
        one
        for one in ir.walk(lower(programs.closures).body)
        if isinstance(one, ir.MakeFunction)
    )
    scopes = {
        one.name: one.scope
        for one in ir.walk(made.function.body)
        if isinstance(one, ir.LoadName)
    }

    assert {"by": "local", "count": "cell"} == scopes
    assert any(
        isinstance(one, ir.LoadName) and (one.name, one.scope) == ("LIMIT", "global")
        for one in ir.walk(lower(programs.closures).body)
    )


@pytest.mark.parametrize(
    ("function", "line", "what"),
    [
        (programs.waits, 0, "waits is async"),
        (programs.waits_inside, 1, "inner is async"),
        (programs.annotated, 1, "the annotation len(a) runs code"),
    ],
)
def test_what_has_no_lowering_is_one_unknown_instruction_with_its_line(
    function, line, what
):
    lowered = lower(function)
    blocks = [lowered.body, *(inner.body for inner in ir.functions_in(lowered.body))]
    unknown = [
        (one.what, one.line - function.__code__.co_firstlineno)
        for block in blocks
        for one in ir.walk(block)
        if isinstance(one, ir.Unknown)
    ]

    assert [(what, line)] == unknown


def test_a_function_is_lowered_once():
    assert lower(programs.loops) is lower(programs.loops)


def test_a_function_without_source_is_refused():
    made = eval("lambda x: x")

    with pytest.raises(LoweringError, match="not available"):
        lower(made)


def library_functions():
    """Yield functions of Python's library that use all of its syntax."""
    for module in (ast, asyncio.streams, collections, dataclasses, email.message, enum):
        for value in vars(module).values():
            members = vars(value).values() if isinstance(value, type) else [value]
            for member in members:
                if isinstance(member, types.FunctionType) and node_of(member.__code__):
                    yield member


def test_every_function_of_a_library_is_lowered_with_a_value_in_each_register():
    """No register is read that no instruction before it sets, on any path of a block."""
    for function in library_functions():
        lowered = lower(function)
        for made in (lowered, *ir.functions_in(lowered.body)):
            given = {*made.parameters, *filter(None, made.varying)}
            used = set(made.users) - set(made.makers) - given

            assert set() == used, function
