"""Routing: in turn, or by key to the channel that has the bucket."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from anabranch.runtime import split
from anabranch.runtime.split import (
    BUCKETS,
    KeyRouter,
    RoundRobinRouter,
    bucket_of,
    even_table,
)


class Trade(NamedTuple):
    symbol: str
    volume: int


def test_items_are_dealt_in_turn_across_batches():
    router = RoundRobinRouter(3)

    parts = [
        [items for items, _ in router.divide(b, None)] for b in ([1], [2, 3, 4, 5])
    ]

    assert [[[1], [], []], [[4], [2, 5], [3]]] == parts


def test_positions_go_with_their_items():
    router = RoundRobinRouter(2)

    (_, first), (_, second) = router.divide(["a", "b", "c"], [range(10, 13)])

    assert [[10, 12], [11]] == [list(first[0]), list(second[0])]


def test_all_items_of_a_key_go_to_the_channel_of_its_bucket():
    table = even_table(4)
    router = KeyRouter(("symbol",), table, 4)
    trades = [Trade(f"s{n % 7}", n) for n in range(100)]

    parts = router.divide(trades, [range(100)])

    for channel, (items, _) in enumerate(parts):
        assert all(table[bucket_of(trade.symbol)] == channel for trade in items)
    assert trades == sorted(
        (trade for items, _ in parts for trade in items), key=lambda t: t.volume
    )
    assert all([t.volume for t in items] == columns[0] for items, columns in parts)


def test_an_item_without_a_key_is_left_to_the_operator_to_refuse():
    router = KeyRouter(("symbol",), even_table(2), 2)

    (items, _), _ = router.divide([None, Trade([], 1)], None)

    assert [None, Trade([], 1)] == items


@pytest.mark.parametrize("channels", [1, 2, 3, 7])
def test_buckets_are_spread_evenly(channels):
    shares = Counter(even_table(channels)).values()

    assert channels == len(shares)
    assert max(shares) - min(shares) <= 1
    assert sum(shares) == BUCKETS


def test_a_splitter_forgets_where_keys_go_and_finds_the_same_place_again(monkeypatch):
    monkeypatch.setattr(split, "MOST_KEYS", 3)
    router = KeyRouter(("symbol",), even_table(2), 2)
    trades = [Trade(f"s{n % 7}", n) for n in range(100)]

    parts = [items for items, _ in router.divide(trades, None)]

    table = even_table(2)
    assert [
        [t for t in trades if table[bucket_of(t.symbol)] == channel]
        for channel in range(2)
    ] == parts
    assert len(router._channel_of) <= 3
