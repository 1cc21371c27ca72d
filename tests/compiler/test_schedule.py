"""Static subgraphs, by pairs: a program, and what fixed rates connect in it."""

import pytest

from anabranch.compiler.static import find_subgraphs
from anabranch.errors import PlanError
from tests.compiler.notation import program

CASES = {
    "a chain of maps": ("src -> a -> b -> sink", "a b"),
    "fixed rates of any number": (
        "src -> a[block=1>2] -> b[block=3>1] -> sink",
        "a b",
    ),
    "a dynamic rate cuts on both sides": (
        "src -> a -> f[push=0..1] -> b -> sink",
        "a | b",
    ),
    "a varying number of items cuts too": (
        "src -> a -> f[pop=*] -> b -> sink",
        "a | b",
    ),
    "a fixed number of outputs does not cut": (
        "src -> a -> f[push=3] -> b -> sink",
        "a f b",
    ),
    "a union takes what comes": (
        "src -> x; x -> a -> u; x -> b -> u -> sink",
        "x a b",
    ),
    "a split-join in turns": (
        "src -> d[deal=2+1]; d.0 -> a -> c[collect=2+1]; d.1 -> b -> c -> sink",
        "d a b c",
    ),
    "a split-join that duplicates": (
        "src -> x; x -> a[block=2>1] -> c[collect=1+2]; x -> b -> c -> sink",
        "x a b c",
    ),
    "a barrier takes one of each": (
        "src -> x; x -> a -> w[barrier]; x -> b -> w -> y[block=2>1] -> sink",
        "x a b w y",
    ),
    "streams of their own pace may meet at a barrier": (
        "src -> x; x -> a[block=2>1] -> w[barrier]; x -> w -> y -> sink",
        "x a | w y",
    ),
    "a block per key takes its items key by key": (
        "src -> a -> b[key=k, block=2>1] -> sink",
        "a",
    ),
    "a branch that gets nothing is not connected": (
        "src -> d[deal=1+0]; d.0 -> a -> one; d.1 -> b -> two",
        "d a | b",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_find_subgraphs(text, expected):
    subgraphs = find_subgraphs(*program(text))

    assert expected == " | ".join(
        " ".join(subgraph.operators) for subgraph in subgraphs
    )


def test_rates_that_cannot_balance_are_reported_with_their_line():
    text = "src -> x; x -> a[block=2>1] -> w[collect=1+1]; x -> w -> sink"

    with pytest.raises(PlanError, match=r"'w' must balance.*job\.py:4"):
        find_subgraphs(*program(text))
