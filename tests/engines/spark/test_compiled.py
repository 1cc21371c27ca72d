"""Compiled parts on Spark: in workers, from epoch to epoch."""

import math

import pytest

import anabranch as ab
from tests.programs import numeric

pytestmark = pytest.mark.spark

VALUES = [math.sin(n) * 3 for n in range(2500)]


@pytest.mark.parametrize(
    "names",
    [
        ["double", "smooth by two", "pairs"],
        ["in Python", "duplicate", "last", "filter", "deal", "root"],
    ],
    ids=" ".join,
)
def test_blocks_go_on_from_epoch_to_epoch(names, monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    results = {}
    for engine in ("sequential", "spark"):
        out = numeric.stream(names, ab.from_iterable(VALUES, float)).to_list()
        ab.run(out, on=engine, degree=2, epoch_items=407)
        results[engine] = list(map(repr, out.items))

    assert results["sequential"] == results["spark"]


@pytest.mark.long
def test_an_item_that_fails_in_a_worker_is_left_out(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    values = [*VALUES[:100], 0.0, *VALUES[100:200]]
    lost = {}
    results = {}
    for engine in ("sequential", "spark"):
        source = ab.from_iterable(values, float)
        out = numeric.stream(["inverse", "pairs"], source).to_list()
        lost[engine] = []
        caught = ab.dead_letter(lambda f, own=lost[engine]: own.append(f.item))
        ab.run(out, on=engine, epoch_items=64, on_error=caught)
        results[engine] = list(map(repr, out.items))

    assert results["sequential"] == results["spark"]
    assert lost["sequential"] == lost["spark"]
    assert len(lost["spark"]) == 2  # sin(0), and the zero in between
