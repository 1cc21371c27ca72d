"""The failure that ends a program is the one that one thread would have met first."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.engines.sequential import SequentialEngine
from anabranch.errors import AnabranchError, InputError, OperatorError
from anabranch.graph.graph import Input, ancestors
from anabranch.language.drafts import build_graph
from anabranch.plan.plan import Plan
from anabranch.runtime.thread import Options
from tests import needs
from tests.engines.local.shaking import any_configuration, ended, started, stumble
from tests.programs.generate import program


class Reading(NamedTuple):
    key: int
    n: int


def readings(count):
    return [Reading(n % 7, n) for n in range(count)]


BAD = (500, 501, 502, 503, 700)


def refuse(reading: Reading) -> Reading:
    if reading.n in BAD:
        raise ValueError(reading.n)
    return reading


def count(state, reading):
    return state + 1, reading


def failed(*sinks, **options):
    """Return the error that ended a program."""
    with pytest.raises(AnabranchError) as caught:
        ab.run(*sinks, on="local", **options)
    return caught.value


@pytest.mark.parametrize("degree", [1, 2, 4])
@pytest.mark.parametrize("keyed", [False, True])
def test_of_several_failures_the_first_is_told_and_all_before_it_delivered(
    degree, keyed
):
    stream = ab.from_iterable(readings(1000), Reading, name="src").map(refuse)
    if keyed:
        stream = stream.key_by("key").scan(count, 0, type=Reading)
    seen = []

    error = failed(stream.for_each(lambda r: seen.append(r.n)), degree=degree)

    assert "failed on item 501 of src: Reading(key=3, n=500): ValueError" in str(error)
    assert list(range(500)) == seen


@pytest.mark.parametrize("degree", [1, 2, 4])
def test_a_failure_further_on_may_still_come_first(degree):
    """
    Channels meet the failure at 700 before the operator behind them gets to 300.
    """
    met = []

    def later(reading):
        met.append(reading.n)
        if reading.n == 300:
            raise KeyError(reading.n)
        return reading

    stream = ab.from_iterable(readings(1000), Reading, name="src").map(
        lambda r: Reading(r.key, r.n // (r.n != 700))
    )
    seen = stream.map(later, name="later").to_list()

    error = failed(seen, degree=degree)

    assert "'later'" in str(error)
    assert "item 301 of src" in str(error)
    assert readings(300) == seen.items
    assert 300 == met[-1]


OPERATORS = ("keep", "double", "refuse")


@pytest.mark.parametrize(
    "ports",
    [
        ports
        for n in range(len(OPERATORS) + 1)
        for ports in itertools.combinations(OPERATORS, n)
    ],
)
def test_behind_threaded_ports_the_place_is_exact(ports):
    """
    No output stands for the item in its place: some are left out, others doubled.
    """
    stream = ab.from_iterable(readings(1000), Reading, name="src")
    stream = stream.filter(lambda r: r.n % 3, name="keep")
    stream = stream.flat_map(lambda r: [r, r], name="double").map(refuse, name="refuse")
    out = stream.to_list()
    places = frozenset(Input(name) for name in ports)

    with pytest.raises(OperatorError, match=r"item 501 of src: .*n=500"):
        ended(started([out], lambda *_: Configuration(ports=places)))

    kept = [r for r in readings(500) if r.n % 3]
    assert [r for r in kept for _ in range(2)] == out.items


@pytest.mark.parametrize("degree", [1, 3])
def test_what_other_branches_got_before_a_sink_failed(degree):
    seen = []

    def take(reading):
        if reading.n == 60:
            raise OSError(reading.n)
        seen.append(reading)

    stream = ab.from_iterable(readings(100), Reading, name="src")
    stream = stream.filter(lambda r: r.n % 2 == 0)
    first = stream.to_list()
    sink = stream.for_each(take, name="take")
    last = stream.to_list()

    error = failed(first, sink, last, degree=degree)

    even = [r for r in readings(100) if r.n % 2 == 0]
    assert "'take'" in str(error)
    assert "item 61 of src" in str(error)
    assert even[:30] == seen
    if degree == 1:
        assert even[:31] == first.items
        assert even[:30] == last.items
    for branch, least in ((first.items, 31), (last.items, 30)):  # may be ahead of it
        assert even[: len(branch)] == branch
        assert len(branch) >= least


@pytest.mark.parametrize("degree", [1, 3])
def test_what_a_source_gave_before_it_failed(degree):
    def broken():
        yield from readings(250)
        msg = "the wire is cut"
        raise OSError(msg)

    out = ab.generate(broken, Reading, name="src").map(lambda r: r).to_list()

    error = failed(out, degree=degree)

    assert isinstance(error, InputError)
    assert "after 250 of them" in str(error)
    assert readings(250) == out.items


def test_a_bad_row_comes_after_the_rows_before_it(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{r.key},{r.n}" for r in readings(300)]
    path.write_text("\n".join(["key,n", *rows[:200], "x,y", *rows[200:]]) + "\n")
    out = ab.read_csv(path, Reading).map(lambda r: r).to_list()

    error = failed(out, degree=2)

    assert "row 201" in str(error)
    assert readings(200) == out.items


def test_sources_that_take_turns_fail_in_their_turn():
    """
    The second source fails at once, but one thread would not have got there yet.
    """
    slow = ab.from_iterable(readings(400), Reading, name="slow").map(refuse_at(120))
    fast = ab.from_iterable(readings(400), Reading, name="fast").map(refuse_at(300))
    one, two = slow.to_list(), fast.to_list()

    error = failed(one, two, degree=1)

    assert "item 121 of slow" in str(error)
    assert readings(120) == one.items
    assert readings(120) == two.items[:120]


def refuse_at(number):
    def check(reading: Reading) -> Reading:
        if reading.n == number:
            raise ValueError(reading.n)
        return reading

    return check


def test_what_an_operator_gave_at_the_end_before_another_failed():
    class Last(ab.Operator):
        def setup(self):
            self.seen = []

        def process(self, item):
            self.seen.append(item)
            return []

        def finish(self):
            return self.seen

    out = ab.from_iterable([3, 2, 1, 0, 5]).apply(Last).map(lambda n: 6 // n).to_list()

    failed(out, degree=1)

    assert [2, 3, 6] == out.items


def inverse(x: float) -> float:
    return 1.0 / x


@pytest.mark.parametrize("when", ["at_once", "never"])
@pytest.mark.parametrize("degree", [1, 2])
def test_compiled_or_not_a_program_stops_at_the_same_item(when, degree, monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", when)
    numbers = [1.0] * 52 + [0.0] + [2.0] * 50
    out = ab.from_iterable(numbers, float, name="src").map(inverse).to_list()

    error = failed(out, degree=degree)

    assert "item 53 of src" in str(error)
    assert [1.0] * 52 == out.items


def one_thread(program):
    """Return how one thread ends, and what each sink has then."""
    sinks = program.build()
    no_plan = Plan((), (), (), (), ())
    run = SequentialEngine().start(build_graph(sinks), no_plan, Options())
    try:
        run.wait()
    except AnabranchError as error:
        return error, [sink.items for sink in sinks]
    return None, [sink.items for sink in sinks]


@pytest.mark.parametrize("seed", needs.quick(8, range(60)))
def test_any_program_fails_as_one_thread_does(seed, monkeypatch):
    """
    Sinks that the failed operator does not lead to may be ahead of it, never behind.
    """
    rng = random.Random(seed)
    made = program(seed, failing=True)
    expected, wanted = one_thread(made)
    stumble(monkeypatch, seed)
    sinks = made.build()
    run = started(sinks, lambda *layout: any_configuration(rng, *layout))

    if expected is None:
        ended(run)
        return
    with pytest.raises(AnabranchError) as caught:
        ended(run)

    assert str(expected) == str(caught.value), made
    graph = build_graph(sinks)
    for op, items, sink in zip(graph.sinks, wanted, sinks, strict=True):
        if expected.operator in {op.name, *ancestors(graph, op.name)}:
            assert items == sink.items, made
        else:
            assert items == sink.items[: len(items)], made
