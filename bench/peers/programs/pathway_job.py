"""The jobs with Pathway, started by `pathway spawn --processes 2`.

All rows of a file that is read at once have the same time in Pathway, and rows of one
time have no order. So a key's trades are gathered and sorted, and then worked on.
"""

from __future__ import annotations

import csv
import socket

import pathway as pw

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


class Row(pw.Schema):
    ts: int
    symbol: str
    price: float
    volume: int


def read(source: str) -> pw.Table:
    return pw.io.csv.read(source, schema=Row, mode="static")


def write(prices: pw.Table, target: str) -> None:
    pw.io.csv.write(prices, target)
    talk.began(target)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


def chain(source: str, target: str) -> None:
    def cents(ts: int, symbol: str, price: float, volume: int) -> float:
        return in_cents(Trade(ts, symbol, price, volume)).price

    def large(ts: int, symbol: str, price: float, volume: int) -> bool:
        return is_large(Trade(ts, symbol, price, volume))

    def fee(ts: int, symbol: str, price: float, volume: int) -> float:
        return with_fee(Trade(ts, symbol, price, volume)).price

    def share(ts: int, symbol: str, price: float, volume: int) -> float:
        return per_share(Trade(ts, symbol, price, volume)).price

    t = read(source)
    columns = t.ts, t.symbol, t.price, t.volume
    t = t.with_columns(price=pw.apply(cents, *columns))
    t = t.filter(pw.apply(large, t.ts, t.symbol, t.price, t.volume))
    t = t.with_columns(price=pw.apply(fee, t.ts, t.symbol, t.price, t.volume))
    price = pw.apply(share, t.ts, t.symbol, t.price, t.volume)
    write(t.select(t.ts, t.symbol, price=price), target)


def per_symbol(source: str) -> pw.Table:
    t = read(source)
    row = pw.make_tuple(t.ts, t.price, t.volume)
    return t.groupby(t.symbol).reduce(t.symbol, rows=pw.reducers.sorted_tuple(row))


def flat(prices: pw.Table) -> pw.Table:
    one = prices.flatten(prices.found)
    ts, price = one.found.get(0), one.found.get(1)
    return one.select(
        ts=pw.unwrap(pw.cast(int, ts)), symbol=one.symbol, price=pw.cast(float, price)
    )


def vwap(source: str, target: str) -> None:
    def running(symbol: str, rows: tuple) -> list[tuple[int, float]]:
        state, found = (0.0, 0), []
        for ts, price, volume in rows:
            state, out = running_vwap(state, Trade(ts, symbol, price, volume))
            found.append((out.ts, out.price))
        return found

    t = per_symbol(source)
    write(flat(t.select(t.symbol, found=pw.apply(running, t.symbol, t.rows))), target)


def window(source: str, target: str) -> None:
    def hundreds(symbol: str, rows: tuple) -> list[tuple[int, float]]:
        trades = [Trade(ts, symbol, price, volume) for ts, price, volume in rows]
        parts = [trades[n : n + 100] for n in range(0, len(trades), 100)]
        return [(out.ts, out.price) for out in map(window_vwap, parts)]

    t = per_symbol(source)
    write(flat(t.select(t.symbol, found=pw.apply(hundreds, t.symbol, t.rows))), target)


def heavy(source: str, target: str) -> None:
    def price(ts: int, symbol: str, price: float, volume: int) -> float:
        return heavy_map(Trade(ts, symbol, price, volume)).price

    t = read(source)
    found = pw.apply(price, t.ts, t.symbol, t.price, t.volume)
    write(t.select(t.ts, t.symbol, price=found), target)


class Live(pw.io.python.ConnectorSubject):
    def __init__(self, port: int) -> None:
        super().__init__()
        self.port = port

    def run(self) -> None:
        link = socket.create_connection(("127.0.0.1", self.port))
        with link, link.makefile() as rows:
            for t, s, p, v in csv.reader(rows):
                self.next(ts=int(t), symbol=s, price=float(p), volume=int(v))


def live(port: int, target: str) -> None:
    def step(new: tuple, old: tuple | None) -> tuple:
        trade = Trade(*new)
        state, price = running_vwap(old[:2] if old else (0.0, 0), trade)
        return (*state, price.ts, price.price)

    @pw.reducers.stateful_many
    def running(state: tuple | None, rows: list) -> tuple | None:
        for values, _count in rows:
            state = step(values, state)
        return state

    seen = talk.Seen(target)
    t = pw.io.python.read(Live(port), schema=Row, autocommit_duration_ms=1)
    prices = t.groupby(t.symbol).reduce(
        t.symbol, last=running(t.ts, t.symbol, t.price, t.volume)
    )

    def note(row: dict, is_addition: bool, **_rest: object) -> None:
        if is_addition:
            seen.note(row["last"][2])

    pw.io.subscribe(prices, on_change=note)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    talk.main({"chain": chain, "vwap": vwap, "window": window, "heavy": heavy}, live)
