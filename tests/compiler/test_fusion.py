"""Fused sets, by pairs: a program, and what must share an element."""

import pytest

from anabranch.compiler.fusion import find_fused_sets
from tests.compiler.notation import program

CASES = {
    "nothing is fused without a declaration": ("src -> a -> b -> sink", ""),
    "two neighbours": ("src -> a -> b[fuse=a] -> sink", "a b"),
    "what lies between is fused too": ("src -> a -> m -> b[fuse=a] -> sink", "a b m"),
    "every way between is": (
        "src -> a; a -> m -> u; a -> n -> u -> b[fuse=a] -> sink",
        "a b m n u",
    ),
    "branches without a way between": (
        "src -> x; x -> a -> one; x -> b[fuse=a] -> two",
        "a b",
    ),
    "declarations that share an operator": (
        "src -> a -> b[fuse=a] -> c[fuse=b] -> sink",
        "a b c",
    ),
    "declarations that are apart": (
        "src -> a -> b[fuse=a] -> c -> d[fuse=c] -> sink",
        "a b | c d",
    ),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_find_fused_sets(text, expected):
    graph, _ = program(text)

    sets = {" ".join(sorted(found)) for found in find_fused_sets(graph).values()}

    assert expected == " | ".join(sorted(sets))
