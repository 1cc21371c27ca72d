import pickle
from pathlib import Path

import pytest

from anabranch.errors import GraphError
from anabranch.language.composites import split_join, union
from anabranch.language.drafts import build_graph
from anabranch.language.sources import from_iterable, read_csv
from anabranch.language.validate import validate
from anabranch.operators.blocks import duplicate, round_robin
from anabranch.operators.windows import any_, sum_
from tests.language.faults import assert_accepted, assert_refused
from tests.language.types import Quote, Trade


def of_quote(quote: Quote) -> Quote:
    return quote


def many_faults():
    trades = read_csv("trades.csv", Trade)
    wrong_type = trades.map(of_quote)  # cause
    wrong_key = trades.key_by("simbol").window(count=2).aggregate(len)  # cause
    wrong_window = trades.window(time=5).aggregate(len)  # cause
    both = union(trades.punctuate(bool), trades)
    lost = both.window(punctuation=True).aggregate(len)  # cause
    turns = split_join(
        duplicate(),
        [lambda s: s.map(abs), lambda s: s.block(list, pop=1, push=2)],
        round_robin(),
    )
    unbalanced = trades.pipe(turns)  # cause
    one = trades.filter(bool, name="same")
    two = trades.filter(bool, name="same")  # cause
    rounds = trades.iterate(lambda s: s)  # cause
    columns = trades.window(count=2).aggregate(total=sum_("symbol"))  # cause
    streams = [wrong_type, wrong_key, wrong_window, lost, unbalanced, one, two]
    sinks = [stream.to_list() for stream in [*streams, rounds, columns]]
    return [*sinks, trades.write_csv("trades.csv")]  # cause


def test_all_faults_come_at_once_each_at_its_line():
    assert_refused(
        many_faults,
        "function takes Quote, but is given Trade",
        "did you mean 'symbol'?",
        "window by time must know the attribute",
        "are lost at 'union'",
        "its branches give items as 1 : 2",
        "the name is taken",
        "iterate must end",
        "sum of column 'total' must look at a number",
        "write to another path",
    )


def test_the_error_is_a_list_that_a_user_can_work_through():
    """
    One line for each fault, with file, line, operator, what is wrong and the fix.
    """
    with pytest.raises(GraphError) as error:
        validate(build_graph(many_faults()))

    head, *lines = str(error.value).splitlines()
    assert "the program has 9 faults:" == head
    assert 9 == len(lines) == len(error.value.faults)
    assert all(f"{Path(__file__).name}:" in line and "; " in line for line in lines)


def test_the_error_travels_between_processes():
    with pytest.raises(GraphError) as error:
        validate(build_graph([]))

    assert error.value.faults == pickle.loads(pickle.dumps(error.value)).faults


def test_a_program_without_faults_is_accepted():
    """
    The program of the public interface, and what surrounds it.
    """

    def vwap(trades: list[Trade]) -> Quote:
        last = trades[-1]
        return Quote(last.ts, last.symbol, last.price)

    def program():
        trades = read_csv("trades.csv", Trade)
        busy = trades.filter(lambda t: t.volume > 0)
        prices = busy.key_by("symbol").window(count=100).aggregate(vwap)
        totals = (
            trades.key_by("symbol")
            .window(time=300, on="ts")
            .aggregate(symbol=any_("symbol"), total=sum_("volume"))
        )
        up, down = prices.split(lambda q: int(q.ask > 1), 2)
        return [
            prices.write_csv("prices"),
            totals.write_jsonl("totals.jsonl"),
            union(up, down).to_list(),
        ]

    assert_accepted(program)


def test_two_operators_of_one_name_cause_no_false_alarm():
    """
    What their streams hold is unclear then, so nothing is said about it.
    """

    def program():
        one = from_iterable([], Trade, name="same")
        two = from_iterable([], Quote, name="same")  # cause
        return [
            one.key_by("volume").window(count=2).aggregate(len).to_list(),
            two.key_by("ask").window(count=2).aggregate(len).to_list(),
        ]

    assert_refused(program, "the name is taken")
