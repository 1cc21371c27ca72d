"""A wrong argument of an operator is named where it is written, with what to write."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, GraphError, OperatorError


class Tick(NamedTuple):
    ts: int
    key: str


def key_of(tick: Tick) -> str:
    return tick.key


S = ab.from_iterable([Tick(1, "a")], Tick)
NOT_NAMES = {
    "merge on": lambda: ab.merge(S, S, by="ts", on=key_of),
    "merge by": lambda: ab.merge(S, S, by=key_of),
    "barrier": lambda: ab.barrier(S, S, on=key_of),
    "join": lambda: S.join(S, on=key_of, left_window=1, right_window=1),
    "names": lambda: ab.barrier(S, S, on=["key", key_of]),
    "event_time": lambda: S.event_time(key_of),
}
NOT_STREAMS = {
    "union of a list": (lambda: ab.union([S, S]), "each input"),
    "merge": (lambda: ab.merge(S, 3, by="ts"), "each input"),
    "barrier": (lambda: ab.barrier(S, None), "each input of barrier"),
    "join": (lambda: S.join(3, left_window=1, right_window=1), "each input of join"),
    "iterate": (
        lambda: S.iterate(lambda _: None, rounds=2),
        "the result of an iterate",
    ),
    "split_join": (
        lambda: S.pipe(
            ab.split_join(ab.duplicate(), [lambda _: None], ab.round_robin())
        ),
        "the result of a branch",
    ),
}


@pytest.mark.parametrize("build", NOT_NAMES.values(), ids=NOT_NAMES)
def test_a_function_where_a_name_belongs_is_refused(build):
    with pytest.raises(
        ArgumentError, match=r"(on|by) must name an attribute; got <fun"
    ):
        build()


@pytest.mark.parametrize(("build", "what"), NOT_STREAMS.values(), ids=NOT_STREAMS)
def test_something_else_where_a_stream_belongs_is_refused(build, what):
    with pytest.raises(ArgumentError, match=f"{what}.* must be a stream; got"):
        build()


def test_a_window_without_a_size_can_be_shown():
    assert "of no size" in repr(S.window())


def test_a_window_that_is_not_aggregated_says_what_is_missing():
    with pytest.raises(AttributeError, match=r"aggregate it first"):
        S.window(count=2).to_list()


def test_a_program_without_a_sink_names_no_operator():
    with pytest.raises(GraphError, match="a program must end in a sink") as raised:
        ab.run(S, on="sequential")
    assert "operator ''" not in str(raised.value)


N = ab.from_iterable([1, 2], int)
W = N.window(count=1)
WRONG = {
    "goal": (
        lambda: ab.run(N.to_list(), on="local", goal="200 ms"),
        r"goal=ab.latency\('200 ms'\)",
    ),
    "goal of a number": (lambda: ab.run(N.to_list(), goal=5), "goal must be"),
    "degree": (lambda: ab.run(N.to_list(), degree=True), "degree must be a whole"),
    "a word of Python": (
        lambda: W.aggregate(**{"class": ab.count()}),
        "got 'class'",
    ),
    "an underscore": (lambda: W.aggregate(_x=ab.count()), "got '_x'"),
    "column name": (lambda: W.aggregate(name=ab.count()), "name is an option of agg"),
    "column type": (lambda: W.aggregate(type=ab.count()), "type is an option of agg"),
    "column into": (lambda: W.aggregate(into=ab.count()), "into is an option of agg"),
    "sum": (lambda: ab.sum(5), "ab.sum must name an attribute; got 5"),
    "sum of None": (lambda: ab.sum(None), "ab.sum must name an attribute; got None"),
    "a sink": (lambda: ab.testing.outputs(N.to_list()), "the stream before its sink"),
    "pipe": (lambda: N.pipe(5), "pipe must be given a function .* got 5"),
    "a composite": (lambda: N.pipe(lambda _: 5), "of a composite must be a stream"),
    "split by text": (lambda: N.split(len, "2"), "n of split must be .* got '2'"),
    "split by nothing": (lambda: N.split(len, 0), "n of split must be .* got 0"),
    "split by less": (lambda: N.split(len, -1), "n of split must be .* got -1"),
    "key_by": (lambda: N.key_by(3), "got 3"),
    "lookup": (lambda: N.lookup([1], on="real"), "a lookup must be given a mapping"),
    "read": (lambda: ab.read(5), "inherits from ab.Source; got 5"),
    "write": (lambda: N.write(5), "inherits from ab.Sink; got 5"),
    "state": (lambda: ab.declare(state="none"), "state must be"),
    "push": (lambda: ab.declare(push=3), "push must be a pair"),
    "trust": (lambda: ab.trust(3), "names of packages"),
    "type": (lambda: N.map(abs, type=5), "type of map must be the type .* got 5"),
}


@pytest.mark.parametrize(("build", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_refused_with_what_to_write(build, text):
    with pytest.raises(ArgumentError, match=text):
        build()


@pytest.mark.parametrize("given", [None, "01", 1.5, [0, "1"], 2, -1])
def test_a_route_that_gives_no_index_is_told_the_rule(given):
    first, _ = N.split(lambda _: given, 2)

    with pytest.raises(OperatorError, match="one or several indices from 0 to 1; got"):
        ab.testing.outputs(first)


async def fetch(item):
    return item


async def stream(item):
    yield item


def give(item):
    yield item


class Fetch:
    async def __call__(self, item):
        return item


class Waiting(ab.Operator):
    async def process(self, item):
        yield item


NOT_PLAIN = {
    "map": (lambda s: s.map(fetch), "async"),
    "filter": (lambda s: s.filter(fetch), "async"),
    "flat_map": (lambda s: s.flat_map(stream), "async"),
    "key_by": (lambda s: s.key_by(fetch).scan(count, 0), "async"),
    "aggregate": (lambda s: s.window(count=2).aggregate(fetch), "async"),
    "partial": (lambda s: s.map(functools.partial(fetch)), "async"),
    "an object": (lambda s: s.map(Fetch()), "async"),
    "an operator": (lambda s: s.apply(Waiting), "async"),
    "map with yield": (lambda s: s.map(give), "a generator"),
    "filter with yield": (lambda s: s.filter(give), "a generator"),
    "key_by with yield": (lambda s: s.key_by(give).scan(count, 0), "a generator"),
}


@pytest.mark.parametrize(("build", "what"), NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_a_function_whose_call_does_not_run_it_is_refused(build, what):
    built = build(ab.from_iterable([1, 2], int)).to_list()

    with pytest.raises(GraphError, match=f"must be a plain .* is .*{what}"):
        ab.run(built, on="sequential")


@pytest.mark.parametrize(
    "build", [lambda s: s.flat_map(give), lambda s: s.map(int), lambda s: s.map(len)]
)
def test_generators_of_a_flat_map_classes_and_builtins_are_functions(build):
    out = build(ab.from_iterable(["1"], str)).to_list()
    ab.run(out, on="sequential")

    assert 1 == len(out.items)


class Tagged(NamedTuple):
    tags: list
    n: int


class Five(ab.Operator):
    def process(self, item):
        return 5


def count(total, item):
    return total + 1, total


AT_RUN_TIME = {
    "a list as key": (
        lambda s: s.key_by("tags").scan(count, 0),
        r"operator 'scan' .*: a key must be hashable; .*\(key: tags = \['a'\]\); key by",
    ),
    "a function that gives a list": (
        lambda s: s.key_by(lambda item: [item.n]).scan(count, 0),
        r"operator 'scan' .*: a key must be hashable; .*key by a tuple",
    ),
    "join": (
        lambda s: s.join(s, on="tags", left_window=1, right_window=1),
        r"operator 'join' .*: a key must be hashable; .*key by a tuple",
    ),
    "a number from flat_map": (
        lambda s: s.flat_map(lambda item: item.n),
        r"operator 'flat_map' .* iterable of outputs; 'int' .*; return a list",
    ),
    "a number from process": (
        lambda s: s.apply(Five),
        r"operator 'apply' .*Five.process .* of outputs; 'int' .*; return a list",
    ),
}


@pytest.mark.parametrize("on", ["sequential", "local"])
@pytest.mark.parametrize(("build", "text"), AT_RUN_TIME.values(), ids=AT_RUN_TIME)
def test_a_value_that_does_not_fit_is_named_with_what_to_do(build, text, on):
    out = build(ab.from_iterable([Tagged(["a"], 1)], Tagged)).to_list()

    with pytest.raises(OperatorError, match=text):
        ab.run(out, on=on)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("nunpy", "; did you mean 'numpy'?"),
        ("numpy.linalgg", "; did you mean 'numpy.linalg'?"),
        ("python_dateutil", "; did you mean 'dateutil'?"),
        ("no_such_pkg", ""),
    ],
)
def test_a_package_that_is_not_there_is_not_trusted_without_a_word(name, meant):
    said = re.escape(f"no module {name!r} is found here{meant}")

    with pytest.warns(UserWarning, match=f"{said}$") as warned:
        ab.trust(name)

    assert warned[0].filename == __file__


def test_what_can_be_imported_is_trusted_without_a_warning():
    ab.trust("xml.dom", __name__)  # the tests turn warnings into errors


@pytest.mark.parametrize("name", [3, ["a"], "", " ", "a\nb"], ids=repr)
def test_a_name_is_a_text_of_one_line(name):
    said = re.escape(f"name of map must be a text of one line; got {name!r}")

    with pytest.raises(ArgumentError, match=said):
        S.map(key_of, name=name)


@pytest.mark.parametrize("start", [ab.run, ab.start, ab.compile, ab.explain])
@pytest.mark.parametrize(
    ("given", "advice"),
    [
        (None, "end a stream with a sink"),
        (5, "end a stream with a sink"),
        ([], re.escape("one by one: *sinks")),
        ([S.to_list()], re.escape("one by one: *sinks")),
    ],
    ids=repr,
)
def test_what_is_no_sink_is_named_with_what_to_write(start, given, advice):
    with pytest.raises(ArgumentError, match=f"given as its sinks; got .*{advice}"):
        start(given)
