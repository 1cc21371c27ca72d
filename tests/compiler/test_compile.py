"""Whole programs, from the user's code to the plan."""

import json
from typing import NamedTuple

import lmdb
import pytest

import anabranch as ab
from anabranch.compiler.compile import compile_graph
from anabranch.compiler.options import Target
from anabranch.language.drafts import build_graph
from anabranch.plan.integrity import check

SPARK = Target(batched=True)


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float
    volume: int


class Price(NamedTuple):
    symbol: str
    vwap: float


def vwap(trades: list[Trade]) -> Price:
    total = sum(t.volume for t in trades)
    return Price(trades[-1].symbol, sum(t.price * t.volume for t in trades) / total)


seen: list[Price] = []
unseen = lmdb.version  # of a package that is compiled


def score(price: Price) -> Price:
    seen.append(price)
    return price


def opaque_score(price: Price) -> Price:
    return price._replace(vwap=price.vwap + unseen()[0])


@ab.declare(state="stateless")
def declared_score(price: Price) -> Price:
    return price._replace(vwap=price.vwap + unseen()[0])


def finance(step=None):
    trades = ab.read_csv("trades.csv", Trade)
    positive = trades.filter(lambda t: t.volume > 0, name="positive")
    prices = positive.key_by("symbol").window(count=100).aggregate(vwap, name="vwap")
    if step is not None:
        prices = prices.map(step, name="score")
    return compile_graph(build_graph([prices.write_csv("prices", name="out")]), SPARK)


def test_the_finance_program_runs_in_ranges_by_key_and_in_ranges_again():
    compilation = finance()

    check(compilation.graph, compilation.plan)
    assert [
        (("read_csv", "positive"), (), "contiguous", "parallel_source", "shuffle"),
        (("vwap",), ("symbol",), "position", "shuffle", "shuffle"),
        (("out",), (), "contiguous", "shuffle", "parallel_sink"),
    ] == [
        (r.operators, r.key, r.ordering, r.first_joint, r.last_joint)
        for r in compilation.plan.regions
    ]


def test_what_is_written_down_is_json():
    data = finance(score).to_dict()

    assert data == json.loads(json.dumps(data))


def test_the_line_that_forces_an_operator_to_be_sequential_is_named():
    [found, sink] = finance(score).plan.sequential

    line = score.__code__.co_firstlineno + 1
    assert ("score", line) == (found.operator, found.reason.line)
    assert found.reason.file.endswith("test_compile.py")
    assert ("out", "is written by the task of score") == (sink.operator, sink.why)


def test_advice_comes_true_when_it_is_followed():
    """
    The explanation foretells what the same program with the declaration gives.
    """
    [advised] = [
        part
        for part in finance(opaque_score).explain().split("\n\n")
        if "declaration" in part
    ]
    followed = finance(declared_score)

    assert "would extend r1 to vwap, score" in " ".join(advised.split())
    assert ("vwap", "score") == followed.plan.regions[1].operators


def test_a_declaration_that_the_code_refutes_is_not_advised():
    text = " ".join(finance(score).explain().split())

    assert "declare" not in text
    assert (
        "score: keep its state in a scan, .scan(step, initial); a state "
        "for each symbol, the key of its stream, would extend r1 to vwap, score."
    ) in text


@pytest.mark.parametrize("target", [Target(), SPARK], ids=["one by one", "batched"])
def test_every_target_gets_a_whole_plan(target):
    numbers = ab.from_iterable([1, 2, 3]).map(abs)
    even, odd = numbers.split(lambda n: n % 2, 2)
    joined = ab.union(even.map(abs), odd.flat_map(lambda n: [n, n]))
    compilation = compile_graph(build_graph([joined.to_list()]), target)

    check(compilation.graph, compilation.plan)
