import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import pytest

from anabranch.language.composites import barrier
from anabranch.language.sources import from_iterable, generate
from anabranch.operators.custom import Operator
from tests.language.faults import assert_accepted, assert_refused, faults_in
from tests.language.types import Quote, Trade

T = TypeVar("T")


class HasPrice(Protocol):
    price: float


class Counting(Operator):
    def __init__(self, start, *, step=1):
        self.n = start
        self.step = step

    def process(self, item: Trade) -> Iterator[int]:
        self.n += self.step
        yield self.n


class Lazy(Operator):
    pass


class Wordy(Operator):
    def process(self, item, more):
        return [item, more]


class Foreign:
    def process(self, item):
        return [item]


def trades():
    return from_iterable([], Trade)


def of_quote(quote: Quote):
    return quote


def of_trade(trade: Trade):
    return trade


def of_two(one, two):
    return one, two


REFUSED = {
    "a map of what is no function": (
        lambda: trades().map(3),
        "function must be a function; got 3",
    ),
    "a filter of None": (lambda: trades().filter(None), "predicate must be a function"),
    "a map of two arguments": (
        lambda: trades().map(of_two),
        "function must take one argument; of_two",
    ),
    "a scan of one argument": (
        lambda: trades().scan(of_trade, 0),
        "step must take 2 arguments; of_trade",
    ),
    "a factory of one argument": (
        lambda: generate(of_trade),
        "factory must take no arguments; of_trade",
    ),
    "a match of one argument": (
        lambda: trades().join(trades(), left_window=1, right_window=1, match=of_trade),
        "match must take 2 arguments; of_trade",
    ),
    "a barrier of three into two": (
        lambda: barrier(trades(), trades(), trades(), into=of_two),
        "into must take 3 arguments; of_two",
    ),
    "a map of another tuple type": (
        lambda: trades().map(of_quote),
        "function takes Quote, but is given Trade; see of_quote",
    ),
    "a map of a scalar": (
        lambda: from_iterable([1], int).map(of_trade),
        "function takes Trade, but is given int",
    ),
    "a map of a partial": (
        lambda: trades().map(functools.partial(of_two, 1, 2)),
        "function must take one argument",
    ),
    "a scan whose item is of another type": (
        lambda: trades().scan(scan_quotes, 0),
        "step takes Quote, but is given Trade",
    ),
    "an aggregate that takes one item": (
        lambda: trades().window(count=2).aggregate(of_trade),
        "function takes Trade, but is given a list of Trade",
    ),
    "an aggregate over items of another type": (
        lambda: trades().window(count=2).aggregate(of_quotes),
        "function takes list[tests.language.types.Quote], but is given a list of Trade",
    ),
    "a block over items of another type": (
        lambda: trades().block(of_quotes, pop=1, push=1),
        "but is given a list of Trade",
    ),
    "a join into from the wrong side": (
        lambda: trades().join(
            trades(), left_window=1, right_window=1, into=quote_first
        ),
        "into takes Quote, but is given Trade",
    ),
    "apply with an instance": (
        lambda: trades().apply(Counting(1)),
        "apply must be given a subclass of ab.Operator; got <",
    ),
    "apply with a function": (
        lambda: trades().apply(of_trade),
        "got <function of_trade",
    ),
    "apply with another class": (
        lambda: trades().apply(Foreign),
        "apply must be given a subclass of ab.Operator; Foreign is none",
    ),
    "apply without process": (
        lambda: trades().apply(Lazy),
        "an Operator must define process; Lazy does not",
    ),
    "apply with a process of two items": (
        lambda: trades().apply(Wordy),
        "process must take self and an item; that of Wordy does not",
    ),
    "apply without an argument of the constructor": (
        lambda: trades().apply(Counting),
        "Counting cannot be made with these arguments: missing a required argument",
    ),
    "apply on another tuple type": (
        lambda: from_iterable([], Quote).apply(Counting, 1),
        "process takes Trade, but is given Quote",
    ),
}


def scan_quotes(state: int, quote: Quote):
    return state, quote


def of_quotes(quotes: list[Quote]):
    return quotes


def quote_first(quote: Quote, trade):
    return quote, trade


@pytest.mark.parametrize(("stream", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_functions_that_are_refused(stream, text):
    (fault,) = faults_in(lambda: stream().to_list())

    assert text in fault.text


def any_trade(trade: Any):
    return trade


def generic(item: T) -> T:
    return item


def trade_or_quote(item: Trade | Quote):
    return item


def tuple_of_any_kind(item: tuple):
    return item


def structural(item: HasPrice):
    return item


def of_float(number: float):
    return number


def over_sequence(items: Sequence[Trade]):
    return items


def over_iterable(items: Iterable[Any]):
    return items


def over_bare_list(items: list):
    return items


def unresolved(item: "NotThere"):  # noqa: F821
    return item


class Callable_:  # noqa: N801
    def __call__(self, item: Trade):
        return item


ACCEPTED = {
    "the stream's own type": lambda: trades().map(of_trade),
    "no annotation": lambda: trades().map(lambda t: t),
    "Any": lambda: trades().map(any_trade),
    "a type variable": lambda: trades().map(generic),
    "a union that holds the type": lambda: trades().map(trade_or_quote),
    "a base class": lambda: trades().map(tuple_of_any_kind),
    "a protocol": lambda: trades().map(structural),
    "an annotation that cannot be resolved": lambda: trades().map(unresolved),
    "an int for a float": lambda: from_iterable([1], int).map(of_float),
    "a stream of unknown type": lambda: from_iterable([]).map(of_quote),
    "a builtin that does not tell": lambda: from_iterable([1]).map(str),
    "a partial": lambda: trades().map(functools.partial(of_two, 1)),
    "a default argument": lambda: trades().map(lambda t, n=1: (t, n)),
    "any number of arguments": lambda: trades().scan(lambda *a: a, 0),
    "a bound method": lambda: from_iterable([1]).map([].append),
    "a callable object": lambda: trades().map(Callable_()),
    "a list of the type": lambda: trades().window(count=2).aggregate(over_sequence),
    "an iterable of anything": lambda: (
        trades().window(count=2).aggregate(over_iterable)
    ),
    "a bare list": lambda: trades().block(over_bare_list, pop=1, push=1),
    "an Operator with arguments": lambda: trades().apply(Counting, 1, step=2),
    "until over what a round gives": lambda: trades().iterate(
        lambda s: s, until=over_sequence
    ),
    "into over both sides": lambda: from_iterable([], Quote).join(
        trades(), left_window=1, right_window=1, into=quote_first
    ),
}


@pytest.mark.parametrize("stream", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_functions_that_are_accepted(stream):
    assert_accepted(lambda: stream().to_list())


def test_the_fault_points_at_the_line_of_the_operator():
    def program():
        quotes = from_iterable([], Quote)
        wrong = quotes.map(of_trade)  # cause
        return wrong.to_list()

    assert_refused(program, "function takes Trade, but is given Quote")


def test_a_decorator_that_gives_an_argument_is_called_as_it_is_written():
    def with_ten(function):
        @functools.wraps(function)
        def call(number):
            return function(number, 10)

        return call

    @with_ten
    def add(number, more):
        return number + more

    assert_accepted(lambda: from_iterable([1, 2]).map(add).to_list())
