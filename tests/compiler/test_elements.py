"""Elements, by pairs: a program, and its elements with their levels."""

import pytest

from anabranch.compiler.elements import form_elements
from anabranch.compiler.make_plan import make_plan
from tests.compiler.notation import program

CASES = {
    "what is sequential and connected is one element": (
        "src -> x[global] -> sink",
        "src x sink",
    ),
    "a region lies between two elements": (
        "src -> x[global] -> a -> y[global] -> sink",
        "src x | a | y sink",
    ),
    "regions that shuffle are two levels": (
        "src -> a[key=k] -> b[key=l] -> sink",
        "src | a | b | sink",
    ),
    "a diamond of regions is one level": (
        "src -> x[global]; x -> a -> u[global]; x -> b -> u -> sink",
        "src x | a | b | u sink",
    ),
    "a detour through a region raises the level of a direct neighbour": (
        "src -> x[global]; x -> a -> u[global]; x -> u -> sink",
        "src x | a | u sink",
    ),
    "a direct branch stays with its producer": (
        "src -> x[global]; x -> a -> one; x -> y[global] -> two",
        "src x y two | a | one",
    ),
    "what has no stream in common are two elements": (
        "s1 -> x[global] -> one; s2 -> y[global] -> two",
        "s1 x one | s2 y two",
    ),
    "fused operators share an element without a stream between them": (
        "s1 -> x[global] -> one; s2 -> y[global, fuse=x] -> two",
        "s1 x one s2 y two",
    ),
    "a fused operator waits for the one that it is fused with": (
        "s1 -> a -> x[global] -> one; s2 -> y[global, fuse=x] -> two",
        "s1 | s2 | a | x one y two",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_form_elements(text, expected):
    plan = make_plan(*program(text))

    assert expected == " | ".join(" ".join(e.operators) for e in plan.elements)


def test_elements_are_named_by_level_and_know_their_region():
    plan = make_plan(*program("src -> a -> sink"))

    assert [("e0", None), ("e1", "r0"), ("e2", None)] == [
        (e.name, e.region) for e in plan.elements
    ]


def test_forming_elements_again_changes_nothing():
    graph, traits = program(
        "src -> x[global]; x -> a -> u[global]; x -> b -> u -> sink"
    )
    plan = make_plan(graph, traits)

    assert plan.elements == form_elements(graph, plan.regions)
