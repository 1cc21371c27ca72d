"""Traits by kind of operator, and what operators do to one another."""

import codecs
import functools
import json
import math
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from anabranch.graph.declarations import declare, trust
from anabranch.graph.kind import Push
from anabranch.language.composites import barrier, merge, split_join, union
from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable, generate, read_csv, read_text
from anabranch.operators.blocks import duplicate, round_robin
from anabranch.operators.custom import Operator
from anabranch.operators.windows import any_, count, last, sum_
from anabranch.python.analyze import analyze
from anabranch.python.arrivals import look_into


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float


SHARED = {"limits": [1, 2]}
LOG = []


def trades():
    return read_csv("trades.csv", Trade)


def keyed():
    return trades().key_by("symbol")


def traits_of(stream, name="it"):
    sink = stream if not hasattr(stream, "to_list") else stream.to_list()
    return analyze(build_graph([sink]))[name]


def reason(traits, trait="state"):
    return next(e.text for e in traits.evidence if e.trait == trait)


WINDOWS = {
    "tumbling count": ({"count": 3}, Push(0, 1)),
    "sliding count": ({"count": 3, "every": 1}, Push(0, 1)),
    "tumbling time": ({"time": 3, "on": "ts"}, Push(0, 1)),
    "sliding time": ({"time": 3, "on": "ts", "every": 1}, Push(0, None)),
    "tumbling delta": ({"delta": 3, "on": "ts"}, Push(0, 1)),
    "sliding delta": ({"delta": 3, "on": "ts", "every": 1}, Push(0, 1)),
}


@pytest.mark.parametrize(("window", "push"), WINDOWS.values(), ids=WINDOWS)
def test_a_keyed_window_is_kept_per_key_and_gives_a_known_number(window, push):
    traits = traits_of(keyed().window(**window).aggregate(len, name="it"))

    assert ("keyed", ("symbol",), push) == (traits.state, traits.key, traits.push)


def test_a_punctuation_window_orders_results_across_keys():
    stream = keyed().punctuate(lambda t: t.ts == 0).window(punctuation=True)
    traits = traits_of(stream.aggregate(len, name="it"))

    assert ("global", True) == (traits.state, traits.expects_punctuation)
    assert "order of the keys" in reason(traits)


def test_an_operator_without_a_key_is_global():
    assert (
        traits_of(trades().window(count=2).aggregate(len, name="it")).state == "global"
    )


def test_named_columns_forward_the_key_under_its_own_name():
    stream = keyed().window(count=2)
    columns = {"symbol": any_("symbol"), "ts": last("ts"), "n": count()}
    traits = traits_of(stream.aggregate(**columns, total=sum_("price"), name="it"))

    assert frozenset({"symbol"}) == traits.forwards


def test_a_renamed_key_is_not_forwarded():
    stream = keyed().window(count=2).aggregate(name_of=any_("symbol"), name="it")

    assert frozenset() == traits_of(stream).forwards


FAN_INS = {
    "merge": lambda: merge(trades(), trades(), by="ts", name="it"),
    "barrier": lambda: barrier(trades(), trades(), name="it"),
    "collect": lambda: trades().pipe(
        split_join(duplicate(), [lambda s: s, lambda s: s], round_robin(), name="it")
    ),
    "iterate": lambda: trades().iterate(lambda s: s.map(abs), rounds=2, name="it"),
    "large block": lambda: trades().block(list, pop=2, push=2, name="it"),
}


@pytest.mark.parametrize("make", FAN_INS.values(), ids=FAN_INS)
def test_what_holds_items_back_is_global(make):
    assert "global" == traits_of(make()).state


def test_a_union_is_stateless_and_forwards_everything():
    traits = traits_of(union(trades(), trades(), name="it"))

    assert ("stateless", None, "free") == (
        traits.state,
        traits.forwards,
        traits.punctuation,
    )


SOURCES = {
    "csv": (lambda: read_csv("a.csv", Trade, name="it"), True),
    "compressed text": (lambda: read_text("a.txt.gz", name="it"), False),
    "list": (lambda: from_iterable([1], name="it"), True),
    "range": (lambda: from_iterable(range(3), name="it"), True),
    "set": (lambda: from_iterable({1}, name="it"), False),
    "generator": (lambda: generate(lambda: iter([1]), name="it"), False),
}


@pytest.mark.parametrize(("make", "parallel"), SOURCES.values(), ids=SOURCES)
def test_which_sources_can_be_read_in_parallel(make, parallel):
    traits = traits_of(make())

    assert ("stateless", parallel) == (traits.state, traits.in_parallel)


SINKS = {
    "list": (lambda s: s.to_list(name="it"), "stateless", False),
    "function": (lambda s: s.for_each(print, name="it"), "global", False),
    "directory": (lambda s: s.write_csv("out", name="it"), "stateless", True),
    "one file": (lambda s: s.write_csv("out.csv", name="it"), "stateless", False),
}


@pytest.mark.parametrize(("make", "state", "parallel"), SINKS.values(), ids=SINKS)
def test_which_sinks_can_be_written_in_parallel(make, state, parallel):
    traits = analyze(build_graph([make(trades())]))["it"]

    assert (state, parallel) == (traits.state, traits.in_parallel)


def test_reading_what_another_operator_changes_is_not_safe():
    log = []
    stream = trades().map(lambda t: (log.append(t), t)[1], name="writer")
    stream = stream.filter(lambda t: len(log) < 3, name="it")

    traits = traits_of(stream)

    assert traits.state == "global"
    assert "reads log" in reason(traits)


def test_reading_the_inside_of_what_another_operator_changes_is_not_safe():
    inner = {"limits": [1, 2]}
    stream = trades().map(lambda t: (inner["limits"].append(1), t)[1], name="writer")

    traits = traits_of(stream.filter(lambda t: t.ts in inner["limits"], name="it"))

    assert traits.state == "global"


def test_reading_a_table_that_nobody_changes_is_safe():
    table = {"limits": [1, 2]}

    assert (
        "stateless"
        == traits_of(
            trades().filter(lambda t: t.ts in table["limits"], name="it")
        ).state
    )


def test_siblings_that_share_a_variable_are_not_safe():
    def make():
        n = 0

        def bump(item):
            nonlocal n
            n += 1
            return item

        def read(item):
            return (n, item)

        return bump, read

    bump, read = make()

    assert traits_of(trades().map(bump).map(read, name="it")).state == "global"


def test_an_argument_of_an_operator_is_shared_by_its_instances():
    class Keep(Operator):
        def __init__(self, seen):
            self.seen = seen

        def process(self, item):
            self.seen.append(item)
            return [item]

    assert traits_of(keyed().apply(Keep, [], name="it")).state == "global"


def test_a_number_as_an_argument_of_an_operator_is_harmless():
    class Every(Operator):
        def __init__(self, n):
            self.n = n
            self.seen = 0

        def process(self, item):
            self.seen += 1
            if self.seen % self.n == 0:
                yield item

    traits = traits_of(keyed().apply(Every, 3, name="it"))

    assert ("keyed", Push(0, 1), None) == (traits.state, traits.push, traits.forwards)


def test_the_code_in_an_iteration_is_looked_at_too():
    stream = trades().iterate(lambda s: s.map(LOG.append), rounds=1, name="it")

    assert "changes" in reason(traits_of(stream))


def test_a_declaration_replaces_what_was_found():
    @declare(state="stateless", push=(1, 2), forwards=["symbol"])
    def look_up(item):
        LOG.append(item)
        return json.load(item)

    traits = traits_of(trades().flat_map(look_up, name="it"))

    assert ("stateless", Push(1, 2)) == (traits.state, traits.push)
    assert frozenset({"symbol"}) == traits.forwards


def test_a_declared_operator_is_stateless_unless_it_acts_at_the_end():
    @declare(state="stateless")
    class Echo(Operator):
        def process(self, item):
            return [item]

    @declare(state="stateless")
    class AtEnd(Echo):
        def finish(self):
            return [1]

    found = [traits_of(keyed().apply(cls, name="it")).state for cls in (Echo, AtEnd)]

    assert ["stateless", "keyed"] == found


def test_a_call_into_a_package_is_unknown_until_it_is_trusted():
    escape = pytest.importorskip("xml.etree.ElementTree").canonicalize

    before = traits_of(trades().map(lambda t: [escape(t)], name="it"))
    trust("xml.etree")
    after = traits_of(trades().map(lambda t: [escape(t)], name="it"))

    assert ("global", "stateless") == (before.state, after.state)
    assert "ab.trust" in reason(before)


def test_a_c_function_that_names_no_module_is_trusted_with_its_package():
    """
    As those of OpenCV; where it was found tells where it belongs.
    """
    assert codecs.strict_errors.__module__ is None

    before = traits_of(trades().map(lambda t: codecs.strict_errors([t]), name="it"))
    trust("codecs")
    after = traits_of(trades().map(lambda t: codecs.strict_errors([t]), name="it"))

    assert ("global", "stateless") == (before.state, after.state)


def test_a_partial_with_a_number_is_followed_into_its_function():
    def scale(factor, item):
        return item._replace(price=item.price * factor)

    traits = traits_of(trades().map(functools.partial(scale, 2), name="it"))

    assert ("stateless", frozenset({"ts", "symbol"})) == (traits.state, traits.forwards)


class Private(Operator):
    def setup(self):
        self.note = functools.partial(self.__note, 1)

    def __note(self, number):
        LOG.append(number)

    def process(self, item):
        self.note()
        return [item]


def test_a_partial_of_a_private_method_with_effects_is_not_called_safe():
    assert "global" == traits_of(trades().apply(Private, name="it")).state


def test_code_that_is_nested_too_deeply_is_not_called_safe():
    depth = 90
    scope = {}
    exec("f = lambda x: " + "(" * depth + "x" + ")" * depth, scope)

    assert traits_of(trades().map(scope["f"], name="it")).state == "global"


def test_a_table_in_a_global_is_no_obstacle():
    pandas = pytest.importorskip("pandas")
    rates = pandas.DataFrame({"currency": ["EUR"], "rate": [1.1]})

    def convert(rows):
        table = pandas.DataFrame(rows, columns=["currency", "amount"])
        return table.merge(rates, on="currency").shape

    out = from_iterable([[("EUR", 2.0)]]).map(convert, name="it").to_list()

    assert not analyze(build_graph([out]))["it"].effects


class Pair(NamedTuple):
    one: object
    two: object


@dataclass
class Box:
    held: object


NAN = float("nan")
OF_ONE_FORM = [
    ([Pair(1, 2.0), Pair("a", [b""])], {Pair, int, float, str, list, bytes}),
    ([(1, 2.0), (1.5,)], {tuple, int, float}),
    ([tuple.__new__(Pair, (1, 2.0, "more")), Pair(1, 2.0)], {Pair, int, float, str}),
    (
        [Box(1), Box(2.0), Box(Pair(None, b""))],
        {Box, int, float, Pair, type(None), bytes},
    ),
    ([Pair(Pair(1, "a"), 2.0)] * 3, {Pair, int, str, float}),
]


@pytest.mark.parametrize(("items", "types"), OF_ONE_FORM, ids=range(len(OF_ONE_FORM)))
def test_every_type_inside_items_is_found(items, types):
    found = look_into(items)

    assert types == found.types
    assert {type(item) for item in items} == found.top
    assert found.complete


def test_attributes_that_some_items_lack_are_found():
    box = Box(1)
    box.more = frozenset()

    assert look_into([Box(1), box]).sets
    del box.held
    assert look_into([Box(1), box]).sets


def test_one_nan_that_comes_twice_is_found():
    assert look_into([Pair(1, NAN), Pair(2, NAN)]).nans
    assert look_into([Pair(1, NAN), Pair("a", Box(NAN))]).nans
    assert not look_into([Pair(1, NAN), Pair(2, float("nan"))]).nans
    assert not look_into([Pair(1, math.inf), Pair(2, -math.inf)]).nans
