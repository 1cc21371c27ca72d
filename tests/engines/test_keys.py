"""Keys that functions give, and items that are dicts, on every engine."""

from __future__ import annotations

import itertools
from typing import NamedTuple, TypedDict

import pytest

import anabranch as ab
from anabranch.errors import GraphError

ENGINES = [
    pytest.param("sequential", {}),
    pytest.param("local", {"degree": 2}),
    pytest.param("spark", {"epoch_items": 7}, marks=pytest.mark.spark),
]


class Visit(NamedTuple):
    user: str
    n: int
    ts: int


class VisitDict(TypedDict):
    user: str
    n: int
    ts: int


VISITS = [Visit("ab"[i % 2] + "xyz"[i % 3], i % 5, i) for i in range(24)]
DICTS = [visit._asdict() for visit in VISITS]


def initial(visit: Visit) -> str:
    return visit.user[0]


def count(seen, visit):
    return seen + 1, (visit.ts, seen + 1)


def numbered(key_of):
    """Number the visits of each key, in a plain loop."""
    seen = {}
    for visit in VISITS:
        seen[key_of(visit)] = seen.get(key_of(visit), 0) + 1
        yield visit.ts, seen[key_of(visit)]


def run(stream, engine, options):
    out = stream.to_list()
    ab.run(out, on=engine, **options)
    return out.items


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_a_function_gives_the_key(engine, options):
    stream = ab.from_iterable(VISITS, Visit).key_by(initial).scan(count, 0)
    assert run(stream, engine, options) == list(numbered(initial))


@pytest.mark.parametrize(("engine", "options"), ENGINES)
def test_attributes_and_functions_make_a_key_together(engine, options):
    kept = ab.from_iterable(VISITS, Visit).key_by("n", lambda visit: visit.user[1])
    expected = numbered(lambda visit: (visit.n, visit.user[1]))
    assert run(kept.scan(count, 0), engine, options) == list(expected)


@pytest.mark.parametrize(("engine", "options"), ENGINES)
@pytest.mark.parametrize("item_type", [None, dict, VisitDict])
def test_dicts_are_read_by_their_entries(engine, options, item_type):
    dicts = ab.from_iterable(DICTS, item_type)
    scanned = dicts.key_by("user").scan(lambda n, d: (n + 1, (d["ts"], n + 1)), 0)
    assert run(scanned, engine, options) == list(numbered(lambda visit: visit.user))
    sums = dicts.key_by("user", "n").window(time=12, on="ts")
    rows = run(sums.aggregate(user=ab.any("user"), total=ab.sum("ts")), engine, options)
    assert sum(row.total for row in rows) == sum(range(24))


def test_an_entry_is_read_even_where_dicts_have_a_method_of_that_name():
    dicts = [{"items": "a", "values": 1}, {"items": "b", "values": 2}]
    stream = ab.from_iterable(dicts).key_by("items").scan(lambda s, d: (s + 1, s), 0)
    assert run(stream, "local", {}) == [0, 0]
    pairs = ab.from_iterable(dicts).window(count=2)
    assert run(pairs.aggregate(total=ab.sum("values")), "local", {}) == [(3,)]


def test_operators_with_one_function_as_key_share_a_region():
    numbers = ab.from_iterable(VISITS, Visit).key_by(initial).filter(lambda v: v.n > 0)
    first = numbers.scan(lambda s, v: (s + 1, v), 0, name="first")
    second = first.scan(count, 0, name="second")
    regions = ab.compile(second.to_list(), on="local").plan.regions
    assert {"first", "second"} <= {n for r in regions if r.key for n in r.operators}
    assert [list(map(str, region.key)) for region in regions if region.key] == [
        ["initial()"]
    ]


def test_another_function_of_the_same_name_is_another_key():
    stream = ab.from_iterable(VISITS, Visit).key_by(lambda visit: visit.n)
    first = stream.scan(lambda s, v: (s + 1, v), 0, name="first")
    second = first.key_by(lambda visit: visit.user).scan(count, 0, name="second")
    regions = ab.compile(second.to_list(), on="local").plan.regions
    assert not any({"first", "second"} <= set(region.operators) for region in regions)
    assert run(second, "local", {"degree": 2}) == list(numbered(lambda v: v.user))


def test_a_key_that_changes_something_is_refused():
    seen = []

    def next_key(visit):
        seen.append(visit)
        return len(seen) % 2

    out = ab.from_iterable(VISITS, Visit).key_by(next_key).scan(count, 0).to_list()
    with pytest.raises(GraphError, match=r"the key of 'scan' must depend on the item"):
        ab.run(out, on="sequential")


class Numbers(dict):
    """A class of the program whose elements are made when they are read."""

    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


NUMBERS = Numbers()
UNSEEN = eval("lambda visit: visit")


def visits():
    return ab.from_iterable(VISITS, Visit)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(
            lambda: visits().join(
                visits(),
                on="ts",
                left_window=1,
                right_window=1,
                into=lambda a, b: (a.user, b.n),
            ),
            id="join",
        ),
        pytest.param(
            lambda: ab.barrier(visits(), visits(), into=lambda a, b: (a.user, b.n)),
            id="barrier",
        ),
        pytest.param(
            lambda: visits().lookup({0: "x"}, on="n", into=lambda v, x: (x, v.ts)),
            id="lookup",
        ),
        pytest.param(
            lambda: (
                visits().lookup({0: "x"}, on="n", default="y").map(lambda p: p[::-1])
            ),
            id="lookup without into",
        ),
        pytest.param(
            lambda: ab.from_iterable(VISITS).event_time("ts"), id="event_time"
        ),
    ],
)
def test_a_key_of_items_made_by_a_function_is_not_blamed_on_other_classes(make):
    keyed = make().key_by(lambda item: item[0]).scan(lambda n, _: (n + 1, n), 0)
    regions = ab.compile(keyed.to_list(), on="local").plan.regions
    assert any("scan" in region.operators for region in regions)


def test_a_key_that_only_some_class_could_change_runs_sequentially():
    items = ab.from_iterable(VISITS).map(UNSEEN)
    keyed = items.key_by(lambda visit: visit[0]).scan(count, 0)
    regions = ab.compile(keyed.to_list(), on="local").plan.regions
    assert not any("scan" in region.operators for region in regions)
    assert "if such an item arrives, self[key] changes" in " ".join(
        ab.explain(keyed.to_list(), on="local").split()
    )
    assert run(keyed, "local", {"degree": 2}) == list(numbered(lambda v: v.user))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: ab.from_iterable([NUMBERS]), id="source"),
        pytest.param(
            lambda: visits().lookup({0: NUMBERS}, on="n", into=lambda _, x: x),
            id="lookup",
        ),
    ],
)
def test_a_key_that_changes_items_that_arrive_is_refused(make):
    keyed = make().key_by(lambda item: item["a"]).scan(lambda n, _: (n + 1, n), 0)
    with pytest.raises(GraphError, match=r"does not: self\[key\] changes the input"):
        ab.compile(keyed.to_list())


def test_a_function_that_changes_the_table_it_looks_up_in_is_sequential():
    read = visits().lookup({0: NUMBERS}, on="n", into=lambda v, x: x[v.user], name="it")
    regions = ab.compile(read.to_list(), on="local").plan.regions
    assert not any("it" in region.operators for region in regions)


def test_a_key_that_takes_items_of_an_iterator_is_refused():
    numbers = itertools.count()

    keyed = ab.from_iterable(VISITS, Visit).key_by(lambda _: next(numbers) % 2)
    with pytest.raises(GraphError, match=r"does not: .* is a count, an iterator"):
        ab.compile(keyed.scan(count, 0).to_list())


def test_no_declaration_is_advised_for_an_operator_whose_key_cannot_be_followed():
    unseen = eval("lambda name: name")

    keyed = ab.from_iterable(VISITS, Visit).key_by(lambda visit: unseen(visit.user))
    told = ab.explain(keyed.scan(count, 0).to_list(), on="local")

    assert "    scan (" in told.partition("Sequential")[2]
    assert "What one declaration would change" not in told


def test_a_key_function_takes_one_argument():
    out = ab.from_iterable(VISITS, Visit).key_by(lambda a, b: a).scan(count, 0)
    with pytest.raises(GraphError, match="key_by must take one argument"):
        ab.compile(out.to_list())
    with pytest.raises(TypeError, match="names of attributes and of functions; got 7"):
        ab.from_iterable(VISITS, Visit).key_by(7)
