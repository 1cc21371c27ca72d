"""The jobs with Anabranch. The engine is named by $PEER_ENGINE: spark or local."""

from __future__ import annotations

import os

import anabranch as ab
import talk
from bench.harness.trades import (
    Trade,
    in_cents,
    is_large,
    per_share,
    running_vwap,
    window_vwap,
    with_fee,
)
from bench.harness.trades import heavy as heavy_map

ENGINE = os.environ.get("PEER_ENGINE", "spark")


def chain(source: str, target: str) -> None:
    large = ab.read_csv(source, Trade).map(in_cents).filter(is_large)
    ab.run(large.map(with_fee).map(per_share).write_csv(target), on=ENGINE)


def vwap(source: str, target: str) -> None:
    prices = ab.read_csv(source, Trade).key_by("symbol").scan(running_vwap, (0.0, 0))
    ab.run(prices.write_csv(target), on=ENGINE)


def window(source: str, target: str) -> None:
    hundreds = ab.read_csv(source, Trade).key_by("symbol").window(count=100)
    ab.run(hundreds.aggregate(window_vwap).write_csv(target), on=ENGINE)


def heavy(source: str, target: str) -> None:
    prices = ab.read_csv(source, Trade).map(heavy_map)
    ab.run(prices.write_csv(target), on=ENGINE)


def live(port: int, target: str) -> None:
    seen = talk.Seen(target)
    trades = ab.socket("127.0.0.1", port, Trade, format="csv")
    prices = trades.key_by("symbol").scan(running_vwap, (0.0, 0))
    ab.run(prices.for_each(lambda price: seen.note(price.ts)), on=ENGINE)


if __name__ == "__main__":
    talk.main({"chain": chain, "vwap": vwap, "window": window, "heavy": heavy}, live)
