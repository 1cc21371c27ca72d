"""Compiled parts on the local engine: through changes, and against real outputs."""

import math

import pytest

import anabranch as ab
from anabranch.engines.engine import Options
from anabranch.engines.local.run import LocalEngine
from anabranch.job import compile_sinks
from tests.programs import numeric

VALUES = [math.sin(n) * 3 for n in range(60_000)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")


def test_changes_on_the_way_change_nothing():
    names = ["double", "smooth", "pairs", "duplicate", "last"]
    expected = numeric.stream(names, ab.from_iterable(VALUES, float)).to_list()
    ab.run(expected, on="sequential")
    sink = numeric.stream(names, ab.from_iterable(VALUES, float)).to_list()
    made = compile_sinks(sink, on="local")
    run = LocalEngine().start(made.graph, made.plan, Options())
    for place in ("block", "block_2", "collect"):
        run.insert_port(place)
    run.remove_port("block_2")
    for region in run.flow.regions:
        run.set_degree(region, 3)
    run.wait()

    assert list(map(repr, expected.items)) == list(map(repr, sink.items))


def test_a_split_join_around_dynamic_operators():
    def program():
        source = ab.from_iterable(VALUES[:5000], float).map(numeric.double)
        both = ab.split_join(
            ab.duplicate(),
            [
                lambda s: s.filter(numeric.small).map(numeric.double),
                lambda s: s.flat_map(lambda x: [x] * (x > 0)),
                lambda s: s.block(numeric.smooth, pop=1, push=1, peek=3),
            ],
            ab.round_robin([1, 2, 1]),
        )
        return source.pipe(both).block(numeric.pairs, pop=2, push=2).to_list()

    results = {}
    for engine, degree in (("sequential", 1), ("local", 1), ("local", 3)):
        out = program()
        ab.run(out, on=engine, degree=degree)
        results[engine, degree] = list(map(repr, out.items))

    assert len(set(map(tuple, results.values()))) == 1
