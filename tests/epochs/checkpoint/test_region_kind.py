"""A checkpoint knows whether regions were chains of operators, as in earlier releases."""

from __future__ import annotations

import json

import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.compiler.options import SPARK, Rules
from anabranch.epochs.checkpoint.directory import Checkpoint
from anabranch.epochs.checkpoint.program import program_of
from anabranch.epochs.checkpoint.region_kind import has_chains
from anabranch.epochs.layout import lay_out
from anabranch.job import graph_of


def step(total: int, n: int) -> tuple[int, int]:
    return total + n, total


@pytest.mark.parametrize("chains", [True, False])
def test_a_checkpoint_says_how_regions_were_formed(chains, tmp_path):
    numbers = ab.from_iterable(range(9), int).scan(step, 0)
    graph = graph_of([numbers.to_list(), numbers.map(abs).to_list()])
    plan = compile_graph(graph, SPARK, Rules(chains=chains)).plan
    program = program_of(lay_out(graph, plan), chains=plan.chains)

    Checkpoint(str(tmp_path / "checkpoint"), program).close()

    assert chains is has_chains(tmp_path / "checkpoint")


def test_one_of_an_earlier_release_has_chains(tmp_path):
    (tmp_path / "program.json").write_text(json.dumps({"program": {"states": {}}}))

    assert has_chains(tmp_path)


@pytest.mark.parametrize("text", [None, "", "[]", '{"program": 1}'])
def test_what_cannot_be_read_is_left_to_whoever_opens_it(tmp_path, text):
    if text is not None:
        (tmp_path / "program.json").write_text(text)

    assert not has_chains(tmp_path)
