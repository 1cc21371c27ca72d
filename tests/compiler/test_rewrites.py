"""How to rewrite operators that are proved to be sequential: fitted to the proof, and to the kind."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.compiler.advice import advise, suggest
from anabranch.compiler.compile import compile_graph
from anabranch.language.drafts import build_graph


class Trade(NamedTuple):
    ts: int
    symbol: str
    price: float


@dataclasses.dataclass
class Order:
    price: float


highest = 0.0
seen: list[Trade] = []
opaque = eval("lambda trade: trade")


def is_record(trade: Trade) -> bool:
    global highest  # noqa: PLW0603 - this is what must be found
    if trade.price <= highest:
        return False
    highest = trade.price
    return True


def is_above(trade: Trade) -> bool:
    return trade.price > highest


def collect(trade: Trade) -> Trade:
    seen.append(trade)
    return trade


def collect_all(trade: Trade) -> list[Trade]:
    seen.append(trade)
    return [trade]


def collect_in_step(total: float, trade: Trade) -> tuple[float, Trade]:
    seen.append(trade)
    return total + trade.price, trade


def count_all(trades: list[Trade]) -> int:
    seen.extend(trades)
    return len(trades)


def stamp(trade: Trade) -> Trade:
    return trade._replace(ts=int(time.time()))


def raise_price(order: Order) -> Order:
    order.price += 1
    return order


def unfollowed(trade: Trade) -> Trade:
    return opaque(trade)


def sum_up(total: float, trade: Trade) -> tuple[float, float]:
    return total + trade.price, total + trade.price


class Counting(ab.Operator):
    count = 0

    def process(self, trade: Trade):
        self.count += 1
        yield trade, self.count


class Prepared(ab.Operator):
    def setup(self):
        self.last = None

    def process(self, trade: Trade):
        yield trade, self.last
        self.last = trade


class Collecting(ab.Operator):
    def process(self, trade: Trade):
        seen.append(trade)
        yield trade


class Passing(ab.Operator):
    def process(self, trade: Trade):
        yield unfollowed(trade)


class Plain(ab.Operator):
    def process(self, trade: Trade):
        yield trade


def trades():
    return ab.from_iterable([Trade(1, "A", 1.0)], type=Trade)


PROVED = {
    "a filter that assigns a global": (
        lambda: trades().filter(is_record, name="x"),
        (
            "keep its state in an attribute of an Operator whose process yields the item "
            "or nothing; if each key may have its own state, key_by(...) would make x "
            "a parallel region"
        ),
    ),
    "a map that changes a global": (
        lambda: trades().map(collect, name="x"),
        (
            "keep its state in a scan, .scan(step, initial); if each key may "
            "have its own state, key_by(...) would make x a parallel region"
        ),
    ),
    "a map on a keyed stream": (
        lambda: trades().key_by("symbol").map(collect, name="x"),
        (
            "keep its state in a scan, .scan(step, initial); a state for each "
            "symbol, the key of its stream, would make x a parallel region"
        ),
    ),
    "a flat_map": (
        lambda: trades().flat_map(collect_all, name="x"),
        (
            "keep its state in an attribute of an Operator whose process yields the "
            "outputs; if each key may have its own state, key_by(...) would make x "
            "a parallel region"
        ),
    ),
    "a scan that changes more than its state": (
        lambda: trades().key_by("symbol").scan(collect_in_step, 0.0, name="x"),
        (
            "make it a part of the state that step takes and returns; a state "
            "for each symbol, the key of its stream, would make x a parallel region"
        ),
    ),
    "an Operator that changes a global": (
        lambda: trades().key_by("symbol").apply(Collecting, name="x"),
        (
            "keep its state in an attribute of Collecting, set in setup; a state for each "
            "symbol, the key of its stream, would make x a parallel region"
        ),
    ),
    "the function of a window": (
        lambda: trades().window(count=2).aggregate(count_all, name="x"),
        (
            "let its function depend on its arguments alone; an Operator before or after "
            "it can keep the state"
        ),
    ),
    "a clock": (
        lambda: trades().map(stamp, name="x"),
        (
            "let it depend on the item alone; external input belongs into the items, "
            "external output into a sink"
        ),
    ),
    "an item that is changed": (
        lambda: ab.from_iterable([Order(1.0)]).map(raise_price, name="x"),
        (
            "make a new item instead of changing the one it gets, such as "
            "item._replace(...) or dataclasses.replace(item, ...)"
        ),
    ),
    "a scan without a key": (
        lambda: trades().scan(sum_up, 0.0, name="x"),
        (
            "if each key may have its own state, key_by(...) would make x a "
            "parallel region"
        ),
    ),
    "an Operator that assigns its attributes": (
        lambda: trades().apply(Prepared, name="x"),
        (
            "if each key may have its own state, key_by(...) would make x a "
            "parallel region"
        ),
    ),
    "a merge of streams with a key": (
        lambda: ab.merge(
            trades().key_by("symbol"), trades().key_by("symbol"), by="ts", name="x"
        ),
        (
            "where the order of arrival is enough, union(...) has no state; if each key "
            "may have its own state, merge(..., on=...) would make x a parallel region"
        ),
    ),
}


def compiled(make, *others):
    made = [make().to_list(), *(other().to_list() for other in others)]
    return compile_graph(build_graph(made))


def suggested(compilation):
    parts = compilation.graph, compilation.traits, compilation.plan
    return {each.operator: each.text for each in suggest(*parts)}


def advised(compilation):
    parts = compilation.graph, compilation.traits, compilation.plan
    return {each.operator for each in advise(*parts)}


@pytest.mark.parametrize(("make", "text"), PROVED.values(), ids=PROVED)
def test_what_is_proved_is_to_be_rewritten_and_not_declared(make, text):
    compilation = compiled(make)

    assert {"x": text} == suggested(compilation)
    assert set() == advised(compilation)


def test_what_another_operator_changes_is_not_to_be_declared_away():
    """
    The reader itself writes nothing; but the code of an operator assigns what it reads.
    """
    compilation = compiled(
        lambda: trades().filter(is_above, name="x"),
        lambda: trades().filter(is_record, name="y"),
    )

    assert set() == advised(compilation)
    assert suggested(compilation)["x"].startswith(
        "one operator must own a shared object"
    )
    assert "declare" not in compilation.explain()


UNSEEN = {
    "code that cannot be followed": lambda: trades().map(unfollowed, name="x"),
    "an Operator that may have no state": lambda: trades().apply(Passing, name="x"),
    "a global that only code outside of the program assigns": lambda: trades().filter(
        is_above, name="x"
    ),
}


def test_an_operator_that_keeps_nothing_needs_no_declaration():
    compilation = compiled(lambda: trades().apply(Plain, name="x"))

    assert set() == advised(compilation)
    assert "stateless" == compilation.traits["x"].state


@pytest.mark.parametrize("make", UNSEEN.values(), ids=UNSEEN)
def test_what_was_not_seen_may_be_declared_and_needs_no_rewriting(make):
    compilation = compiled(make)

    assert {"x"} == advised(compilation)
    assert {} == suggested(compilation)


def test_an_operator_that_assigns_its_attributes_is_not_to_be_declared_stateless():
    compilation = compiled(lambda: trades().apply(Counting, name="x"))

    assert set() == advised(compilation)
    assert "declare" not in compilation.explain()


def rename(trade: Trade) -> Trade:
    return trade._replace(symbol="big " + trade.symbol)


def rebuild(trade: Trade) -> Trade:
    return Trade(trade.ts, "all", trade.price)


def tidy(trade: Trade) -> Trade:
    return trade._replace(symbol=trade.symbol.strip())


class Renaming(ab.Operator):
    def process(self, trade: Trade) -> Iterator[Trade]:
        yield trade._replace(symbol=f"big {trade.symbol}")


def between_keys(function):
    by_symbol = trades().key_by("symbol").scan(collect_last, None, type=Trade)
    if function is Renaming:
        renamed = by_symbol.apply(function, type=Trade, name="x")
    else:
        renamed = by_symbol.map(function, name="x")
    return renamed.key_by("symbol").scan(collect_last, None, type=Trade)


def collect_last(last: Trade | None, trade: Trade) -> tuple[Trade, Trade]:
    return trade, trade


@pytest.mark.parametrize(
    ("function", "operators"),
    [(rename, set()), (rebuild, set()), (Renaming, set()), (tidy, {"x"})],
    ids=["by name", "by position", "by an Operator", "perhaps with the same"],
)
def test_a_key_that_is_plainly_replaced_is_not_to_be_declared_forwarded(
    function, operators
):
    assert operators == advised(compiled(lambda: between_keys(function)))
