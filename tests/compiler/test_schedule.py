"""Static subgraphs, by pairs: a program, and how often its operators fire."""

import pytest

from anabranch.compiler.schedule import schedule
from anabranch.errors import PlanError
from tests.compiler.notation import program

CASES = {
    "a chain of maps fires once": ("src -> a -> b -> sink", "1a 1b"),
    "rates are balanced by the smallest numbers": (
        "src -> a[block=1>2] -> b[block=3>1] -> sink",
        "3a 2b",
    ),
    "repetitions have no common factor": (
        "src -> a[block=4>2] -> b[block=4>6] -> sink",
        "2a 1b",
    ),
    "a dynamic rate cuts on both sides": (
        "src -> a -> f[push=0..1] -> b -> sink",
        "1a | 1b",
    ),
    "a varying number of items cuts too": (
        "src -> a -> f[pop=*] -> b -> sink",
        "1a | 1b",
    ),
    "a fixed number of outputs does not cut": (
        "src -> a -> f[push=3] -> b -> sink",
        "1a 1f 3b",
    ),
    "a union takes what comes": (
        "src -> x; x -> a -> u; x -> b -> u -> sink",
        "1x 1a 1b",
    ),
    "a split-join in turns": (
        "src -> d[deal=2+1]; d.0 -> a -> c[collect=2+1]; d.1 -> b -> c -> sink",
        "1d 2a 1b 1c",
    ),
    "a split-join that duplicates": (
        "src -> x; x -> a[block=2>1] -> c[collect=1+2]; x -> b -> c -> sink",
        "2x 1a 2b 1c",
    ),
    "a barrier takes one of each": (
        "src -> x; x -> a -> w[barrier]; x -> b -> w -> y[block=2>1] -> sink",
        "2x 2a 2b 2w 1y",
    ),
    "streams of their own pace may meet at a barrier": (
        "src -> x; x -> a[block=2>1] -> w[barrier]; x -> w -> y -> sink",
        "2x 1a | 1w 1y",
    ),
    "a block per key takes its items key by key": (
        "src -> a -> b[key=k, block=2>1] -> sink",
        "1a",
    ),
    "a branch that gets nothing is not connected": (
        "src -> d[deal=1+0]; d.0 -> a -> one; d.1 -> b -> two",
        "1d 1a | 1b",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_schedule(text, expected):
    subgraphs = schedule(*program(text))

    assert expected == " | ".join(
        " ".join(f"{count}{name}" for name, count in subgraph.repetitions)
        for subgraph in subgraphs
    )


def test_rates_that_cannot_balance_are_reported_with_their_line():
    text = "src -> x; x -> a[block=2>1] -> w[collect=1+1]; x -> w -> sink"

    with pytest.raises(PlanError, match=r"'w' must balance.*job\.py:4"):
        schedule(*program(text))
