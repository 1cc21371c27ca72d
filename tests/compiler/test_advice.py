"""Advice: what one declaration would change, and silence where it would not."""

import pytest

from anabranch.compiler.advice import advise
from anabranch.compiler.make_plan import make_plan
from tests.compiler.notation import program

STATELESS = '@ab.declare(state="stateless")'

CASES = {
    "a new region": (
        "src -> x[global] -> sink",
        "x",
        STATELESS,
        "make x a parallel region",
    ),
    "a region that grows": (
        "src -> a -> x[global] -> sink",
        "x",
        STATELESS,
        "extend r0 to a, x",
    ),
    "two regions that become one": (
        "src -> a -> x[global] -> b -> sink",
        "x",
        STATELESS,
        "make r0 and r1 one region of a, x, b",
    ),
    "a key that gets through": (
        "src -> a[key=k] -> m[forwards=] -> b[key=k] -> sink",
        "m",
        '@ab.declare(forwards=("k",))',
        "make r0 and r1 one region of a, m, b",
    ),
    "a cheaper order": (
        "src -> a[push=0..*] -> sink",
        "a",
        "@ab.declare(push=(0, 1))",
        "order r0 by strict instead of relaxed",
    ),
}


@pytest.mark.parametrize(
    ("text", "operator", "declaration", "effect"), CASES.values(), ids=CASES
)
def test_advice(text, operator, declaration, effect):
    graph, traits = program(text)

    [advice] = advise(graph, traits, make_plan(graph, traits))

    assert (operator, declaration, effect) == (
        advice.operator,
        advice.declaration,
        advice.effect,
    )


SILENT = {
    "nothing to gain": "src -> a -> sink",
    "keys that are simply different": "src -> a[key=k] -> b[key=l] -> sink",
    "several operators that lose the key": (
        "src -> a[key=k] -> m[forwards=] -> n[forwards=] -> b[key=k] -> sink"
    ),
    "two prolific operators": "src -> a[push=0..*] -> b[push=0..*] -> sink",
}


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_no_advice(text):
    graph, traits = program(text)

    assert () == advise(graph, traits, make_plan(graph, traits))
