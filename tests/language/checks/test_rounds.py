import pytest

from anabranch.language.composites import union
from anabranch.language.sources import from_iterable
from tests.language.faults import assert_accepted, assert_refused, faults_in
from tests.language.types import Quote, Trade


def to_quote(trade) -> Quote:
    return Quote(trade.ts, trade.symbol, trade.price)


REFUSED = {
    "neither rounds nor until": ({}, "iterate must end; it has neither"),
    "no rounds": ({"rounds": 0}, "rounds must be a whole number of 1 or more; got 0"),
    "half a round": ({"rounds": 0.5}, "rounds must be a whole number of 1 or more"),
    "until that is no function": (
        {"rounds": 1, "until": 3},
        "until must be a function; got 3",
    ),
}


@pytest.mark.parametrize(("options", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_rounds_that_are_refused(options, text):
    numbers = from_iterable([1])

    (fault,) = faults_in(
        lambda: numbers.iterate(lambda s: s.map(abs), **options).to_list()
    )

    assert text in fault.text


@pytest.mark.parametrize(
    "options", [{"rounds": 1}, {"until": bool}, {"rounds": 5, "until": bool}]
)
def test_rounds_that_are_accepted(options):
    numbers = from_iterable([1])

    assert_accepted(lambda: numbers.iterate(lambda s: s.map(abs), **options).to_list())


def test_the_body_is_checked_too():
    def program():
        trades = from_iterable([], Trade)
        rounds = trades.iterate(
            lambda s: s.window(count=0).aggregate(lambda w: w[0], type=Trade),  # cause
            rounds=2,
        )
        return rounds.to_list()

    assert_refused(program, "count of window must be a whole number above 0")


def test_a_body_that_reads_something_else_is_refused():
    def program():
        numbers = from_iterable([1])
        return numbers.iterate(  # cause
            lambda s: union(s, numbers), rounds=2
        ).to_list()

    assert_refused(program, "from that alone; it reads 'from_iterable'")


def test_a_body_that_leaves_its_stream_alone_is_refused():
    def program():
        numbers = from_iterable([1])
        return numbers.iterate(lambda s: numbers, rounds=2).to_list()  # cause

    assert_refused(program, "must make its stream from the one it is given")


def test_the_stream_of_a_body_cannot_be_used_outside():
    def program():
        kept = []
        numbers = from_iterable([1])
        rounds = numbers.iterate(  # cause
            lambda s: kept.append(s) or s.map(abs), rounds=2
        )
        return [rounds.to_list(), kept[0].to_list()]

    assert_refused(program, "the stream inside an iterate is used outside of it")


def test_a_round_must_give_what_the_next_one_takes():
    def program():
        trades = from_iterable([], Trade)
        return trades.iterate(lambda s: s.map(to_quote), rounds=2).to_list()  # cause

    assert_refused(program, "a round takes Trade but gives Quote")


def test_a_single_round_may_change_the_type():
    def program():
        trades = from_iterable([], Trade)
        return trades.iterate(lambda s: s.map(to_quote), rounds=1).to_list()

    assert_accepted(program)


def test_rounds_within_rounds_are_accepted():
    def program():
        numbers = from_iterable([1])
        return numbers.iterate(
            lambda s: s.iterate(lambda inner: inner.map(abs), rounds=2), rounds=2
        ).to_list()

    assert_accepted(program)
