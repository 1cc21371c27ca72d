"""Blocks of several items in parallel regions: groups are dealt out whole."""

import itertools
import threading

from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.engines.local.flow import count_begun_items, first_states
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.job import compile_sinks
from anabranch.runtime.thread import Options
from tests import needs
from tests.engines.blocks import add, pairs, spread, triples

STEPS = {
    "add": lambda s: s.map(add),
    "pairs": lambda s: s.block(pairs, pop=2, push=2),
    "triples": lambda s: s.block(triples, pop=3, push=1),
    "spread": lambda s: s.block(spread, pop=4, push=6),
    "odd": lambda s: s.filter(lambda n: n % 2),
    "peek": lambda s: s.block(pairs, pop=1, push=2, peek=2),
}
steps = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5)


def program(names, items):
    return behind(ab.from_iterable(list(items)), names)


def behind(stream, names):
    for name in names:
        stream = STEPS[name](stream)
    return stream.to_list()


def expected(names, items):
    sink = program(names, items)
    ab.run(sink, on="sequential")
    return sink.items


@settings(max_examples=needs.count_examples(20, 60))
@given(steps, st.integers(0, 200), st.integers(1, 4))
def test_any_degree_gives_the_sequential_result(names, count, degree):
    sink = program(names, range(count))

    ab.run(sink, on="local", degree=degree)

    assert expected(names, range(count)) == sink.items


@settings(max_examples=needs.count_examples(8, 25))
@given(steps, st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_a_begun_group_survives_changes_of_degree(names, degrees):
    gates = [threading.Event() for _ in degrees]

    def items():
        numbers = itertools.count()
        for gate in gates:
            yield from itertools.islice(numbers, 37)
            gate.wait(30)
        yield from itertools.islice(numbers, 50)

    sink = behind(ab.generate(items), names)
    made = compile_sinks(sink, on="local")
    first = {region.name: 3 for region in made.plan.regions}
    engine = LocalEngine(Configuration(degrees=first, batch=7))
    run = engine.start(made.graph, made.plan, Options())
    for degree, gate in zip(degrees, gates, strict=True):
        for region in made.plan.regions:
            run.set_degree(region.name, degree)
        gate.set()
    run.wait()

    assert expected(names, range(37 * len(degrees) + 50)) == sink.items


def test_items_that_fail_do_not_shift_the_groups():
    def fussy(n: int) -> int:
        if n % 7 == 3:
            raise ValueError(n)
        return n

    results = {}
    for engine in ("sequential", "local"):
        source = ab.from_iterable(list(range(100)))
        sink = source.map(fussy).block(pairs, pop=2, push=2).to_list()
        ab.run(sink, on=engine, degree=3, on_error="skip")
        results[engine] = sink.items

    assert results["sequential"] == results["local"]


def test_maps_and_blocks_are_one_region():
    made = compile_sinks(program(["add", "pairs", "triples", "odd"], []), on="local")
    (region,) = made.plan.regions

    assert region.period == 6
    assert region.push == (0, 1)  # three of the pairs, every third item
    assert "6 items at a time" in made.explain()


def test_what_waits_tells_how_far_a_group_has_come():
    made = compile_sinks(program(["pairs", "triples", "spread"], []), on="local")
    (region,) = made.plan.regions
    states = first_states(made.graph)
    for entered in range(region.period):
        assert entered == count_begun_items(made.graph, region, states)
        coming = [entered]
        for name, (pop, push) in zip(
            ("block", "block_2", "block_3"), ((2, 2), (3, 1), (4, 6)), strict=True
        ):
            held = states[name][()]
            held += coming
            coming = []
            while len(held) >= pop:
                del held[:pop]
                coming += [0] * push


def test_what_a_region_gives_for_an_item_is_counted_through():
    for names, wanted in (
        (["pairs", "spread"], (0, 6)),
        (["spread", "pairs"], (0, 6)),
        (["triples", "triples"], (0, 1)),
    ):
        (region,) = compile_sinks(program(names, []), on="local").plan.regions
        assert wanted == region.push
    long = ab.from_iterable([1]).block(pairs, pop=10_001, push=2)
    made = compile_sinks(long.block(pairs, pop=3, push=2).to_list(), on="local")
    assert (0, 4) == made.plan.regions[0].push
