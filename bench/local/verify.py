"""Claim: to verify a sample, which is the default, costs at most 1% of the throughput.

The same programs run with `verify="sample"` and with `verify="off"`, in turn: a chain of
Python functions that read a table, and a keyed window. The claims are about CPU time of
this process, all its threads, since a hundredth is less than what the clock on the wall
varies by; both are in the table.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any, NamedTuple

import anabranch as ab
from bench.harness.timing import Table, claim, interleaved, ratio, report, sized


class Trade(NamedTuple):
    symbol: int
    price: float
    size: int


RATES = {number: 1 + number / 1000 for number in range(1000)}
LIMITS = {"least": 5, "fee": {"a": 0.01, "b": 0.02}}


def convert(trade: Trade) -> Trade:
    return trade._replace(price=trade.price * RATES[trade.size])


def add_fee(trade: Trade) -> Trade:
    return trade._replace(price=trade.price + LIMITS["fee"]["a"])


def is_large(trade: Trade) -> bool:
    return trade.size >= LIMITS["least"]


def spread(trades: list[Trade]) -> float:
    return max(t.price for t in trades) - min(t.price for t in trades)


def make_programs(trades: list[Trade]) -> dict[str, Callable[[], Any]]:
    source = ab.from_iterable(trades, Trade)

    def chain() -> Any:
        return source.map(convert).filter(is_large).map(add_fee).to_list()

    def window() -> Any:
        return source.key_by("symbol").window(count=10).aggregate(spread).to_list()

    return {"chain": chain, "window": window}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=sized(1_000_000, 20_000))
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    trades = [Trade(i % 97, i / 7, i % 1000) for i in range(given.items)]
    results, claims, rows = {}, [], []
    for name, program in make_programs(trades).items():
        cpu_s: dict[str, list[float]] = {"sample": [], "off": []}

        def run(verify: Any, program: Any = program, spent: Any = cpu_s) -> None:
            sink, began_s = program(), process_time()
            ab.run(sink, on="local", degree=2, verify=verify)
            spent[verify].append(process_time() - began_s)

        sides = {each: lambda verify=each: run(verify) for each in cpu_s}
        times = interleaved(sides, repetitions=given.runs)
        counted = {each: spent[-len(times[each]) :] for each, spent in cpu_s.items()}
        found = ratio(counted["sample"], counted["off"])
        results[f"{name}: CPU time with a sample over without"] = found
        what = f"{name}: CPU time with a sample over without"
        claims.append(claim(what, found, at_most=1.01))
        wall = ratio(times["sample"], times["off"])
        rows.append([name, found["ratio"], wall["ratio"], wall["low"], wall["high"]])
    head = ["program", "CPU time", "wall time", "lowest", "highest"]
    table = Table("with a sample over without", head, rows)
    report("verify", results, claims=claims, tables=[table])


if __name__ == "__main__":
    main()
