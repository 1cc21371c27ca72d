from anabranch.language.composites import merge, union
from anabranch.language.sources import from_iterable
from anabranch.operators.windows import Window
from tests.language.faults import assert_accepted, assert_refused, faults_in
from tests.language.types import Odd, Quote, Trade


def test_a_key_that_items_lack_is_refused_with_what_is_there():
    def program():
        trades = from_iterable([], Trade).key_by("simbol")
        return trades.scan(lambda s, t: (s, t), 0).to_list()  # cause

    assert_refused(
        program,
        "key_by names 'simbol', which Trade does not have; did you mean 'symbol'? "
        "The attributes are ts, symbol, price, volume",
    )


def test_a_scalar_has_no_attributes_to_key_by():
    def program():
        numbers = from_iterable([1], int).key_by("symbol")
        return numbers.window(count=2).aggregate(list).to_list()  # cause

    assert_refused(program, "key_by names 'symbol', which int does not have")


def test_a_key_that_was_mapped_away_is_refused():
    """
    The key stays in force, so it must be in what state is kept of.
    """

    def program():
        prices = from_iterable([], Trade).key_by("symbol").map(float, type=float)
        return prices.window(count=2).aggregate(list).to_list()  # cause

    assert_refused(program, "key_by() ends it")


def test_keys_that_are_there_are_accepted():
    """
    A property serves; an operator without state needs no key; `key_by()` ends one.
    """

    def program():
        trades = from_iterable([], Trade)
        return [
            trades.key_by("symbol", "ts").scan(lambda s, t: (s, t), 0).to_list(),
            trades.key_by("value").window(count=2).aggregate(list).to_list(),
            trades.key_by("symbol").map(float, type=float).filter(bool).to_list(),
            trades.key_by("symbol")
            .map(float, type=float)
            .key_by()
            .window(count=2)
            .aggregate(list)
            .to_list(),
        ]

    assert_accepted(program)


def test_nothing_is_assumed_of_an_unknown_type():
    def program():
        items = from_iterable([]).key_by("anything")
        return items.window(time=5, on="whatever").aggregate(list).to_list()

    assert_accepted(program)


def test_a_merge_needs_its_attribute_on_every_stream():
    def program():
        trades, quotes = from_iterable([], Trade), from_iterable([], Quote)
        return merge(trades, quotes, by="volume").to_list()  # cause

    assert_refused(program, "by names 'volume', which Quote does not have")


def test_a_merge_by_values_that_cannot_be_compared_is_refused():
    def program():
        trades, odd = from_iterable([], Trade), from_iterable([], Odd)
        return merge(trades, odd, by="ts").to_list()  # cause

    assert_refused(program, "by: 'ts' is int in Trade but str in Odd")


def test_a_merge_of_ints_and_floats_is_accepted():
    def program():
        trades, quotes = from_iterable([], Trade), from_iterable([], Quote)
        return merge(trades, quotes, by="ts").to_list()

    assert_accepted(program)


def test_a_union_of_one_attribute_in_two_types_is_refused():
    def program():
        trades, odd = from_iterable([], Trade), from_iterable([], Odd)
        return union(trades, odd).to_list()

    assert [
        "union: 'ts' is int in Trade but str in Odd",
        "union: 'symbol' is str in Trade but int in Odd",
    ] == [fault.text for fault in faults_in(program)]


def test_a_union_of_types_that_agree_where_they_meet_is_accepted():
    def program():
        trades, quotes = from_iterable([], Trade), from_iterable([], Quote)
        return union(trades, quotes, from_iterable([])).to_list()

    assert_accepted(program)


def test_a_join_needs_its_attribute_on_both_sides():
    def program():
        trades, quotes = from_iterable([], Trade), from_iterable([], Quote)
        return trades.join(  # cause
            quotes, on=("symbol", "price"), left_window=1, right_window=1
        ).to_list()

    assert_refused(program, "on names 'price', which Quote does not have")


def test_a_join_on_values_of_other_types_is_refused():
    def program():
        trades, odd = from_iterable([], Trade), from_iterable([], Odd)
        return trades.join(  # cause
            odd, on="symbol", left_window=1, right_window=1
        ).to_list()

    assert_refused(program, "on: 'symbol' is str in Trade but int in Odd")


def test_a_join_on_a_shared_attribute_is_accepted():
    def program():
        trades, quotes = from_iterable([], Trade), from_iterable([], Quote)
        return trades.join(
            quotes,
            on="symbol",
            left_window=Window(time=5, on="ts"),
            right_window=Window(count=1),
        ).to_list()

    assert_accepted(program)
