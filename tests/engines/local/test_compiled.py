"""Compiled parts on the local engine: through changes, and against real outputs."""

import math
import threading
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.errors import OperatorError
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.runtime.compiled.arrays import ItemsOf
from anabranch.runtime.thread import Options
from tests import needs
from tests.programs import numeric

VALUES = [math.sin(n) * 3 for n in range(60_000)]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")


def test_changes_on_the_way_change_nothing():
    names = ["double", "smooth", "pairs", "duplicate", "last"]
    expected = numeric.stream(names, ab.from_iterable(VALUES, float)).to_list()
    ab.run(expected, on="sequential")
    changed = threading.Event()

    def values():
        yield from VALUES[:-1000]
        changed.wait(30)
        yield from VALUES[-1000:]

    sink = numeric.stream(names, ab.generate(values, float)).to_list()
    made = compile_sinks(sink, on="local")
    run = LocalEngine().start(made.graph, made.plan, Options())
    for place in ("block", "block_2", "collect"):
        run.insert_port(place)
    run.remove_port("block_2")
    for region in run.flow.regions:
        run.set_degree(region, 3)
    changed.set()
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


class Reading(NamedTuple):
    place: int
    value: float


def spread(x: float) -> Reading:
    return Reading(7, x * 0.5)


def raised(reading: Reading) -> Reading:
    return Reading(reading.place + 1, reading.value + 0.25)


def taken(reading: Reading) -> float:
    return reading.value * reading.place


def far(reading: Reading) -> Reading:
    return Reading(reading.place * 2_000_000_000, reading.value)


ROWS = {
    "numbers": [numeric.double, numeric.double, numeric.double],
    "records": [spread, raised, raised, taken],
    "ints beyond their bounds": [spread, far, raised, raised, taken],
    "a function in Python between": [
        numeric.double,
        lambda x: float(repr(x)),
        numeric.double,
    ],
}


@pytest.mark.parametrize(
    "row", needs.quick(2, ROWS), ids=lambda row: row.replace(" ", "_")
)
def test_arrays_through_ports_give_the_sequential_result(row):
    def program():
        stream = ab.from_iterable(VALUES[:9000], float)
        for function in ROWS[row]:
            stream = stream.map(function)
        return stream.to_list()

    expected = program()
    ab.run(expected, on="sequential")
    sink = program()
    made = compile_sinks(sink, on="local")
    maps = [op.name for op in made.graph if op.name.startswith("map")]
    for batch in (None, 3, 1000):
        ports = frozenset(map(Input, maps[1:]))
        sized = Configuration(ports=ports, batch=batch)
        LocalEngine(sized).start(made.graph, made.plan, Options()).wait()

        assert list(map(repr, expected.items)) == list(map(repr, sink.items))


def test_arrays_that_go_from_thread_to_thread_are_not_listed(monkeypatch):
    listed = []
    usual = ItemsOf.__call__

    def note(self, arrays):
        listed.append(len(arrays[0]))
        return usual(self, arrays)

    monkeypatch.setattr(ItemsOf, "__call__", note)
    sink = ab.from_iterable(VALUES[:9000], float)
    for _ in range(4):
        sink = sink.map(numeric.double)
    sink = sink.to_list()
    made = compile_sinks(sink, on="local")
    ports = frozenset(map(Input, ["map_2", "map_3", "map_4"]))
    configuration = Configuration(ports=ports, batch=1000)
    LocalEngine(configuration).start(
        made.graph, made.plan, Options(verify="off")
    ).wait()

    assert [16.0 * x for x in VALUES[:9000]] == sink.items
    assert [] == listed


def test_a_failing_item_in_arrays_is_named_with_its_place():
    def inverse(x: float) -> float:
        return 1.0 / x

    values = [1.0] * 700 + [0.0] + [1.0] * 700
    sink = ab.from_iterable(values, float)
    sink = sink.map(numeric.double).map(inverse).map(numeric.double).to_list()
    made = compile_sinks(sink, on="local")
    configuration = Configuration(
        ports=frozenset(map(Input, ["map_2", "map_3"])), batch=100
    )
    run = LocalEngine(configuration).start(made.graph, made.plan, Options())
    with pytest.raises(OperatorError, match="item 701 of from_iterable"):
        run.wait()

    assert [2.0 * 0.5] * 700 == sink.items


def toil(x: float) -> float:
    for i in range(3000):
        x += i * 3.0 - 1.0
    return x


def test_costly_items_run_compiled_although_they_come_few_at_a_time():
    sink = ab.from_iterable(VALUES[:400], float).filter(lambda x: x > 0.0).map(toil)
    sink = sink.to_list()
    job = ab.run(sink, on="local", degree=1)

    assert [toil(x) for x in VALUES[:400] if x > 0.0] == sink.items
    assert job.metrics().in_columns["map"] > 0.5
