"""Claim: to verify a sample, which is the default, costs at most 1% of the throughput.

The same programs run with `verify="sample"` and with `verify="off"`, in turn: a chain of
Python functions that read a table, and a keyed window. A hundredth is less than what one
run varies by, on the wall or in CPU time. So there are two measures, both in CPU time:

- what the verifier itself takes, on the clock of the thread that runs it, over what the
  whole job takes. It is sharp, and leaves out what a sample costs others;
- a job with a sample over one without, the median of many pairs, with the interval that
  holds the true median in 95 of 100 cases.

`anabranch bench local/verify` takes less than four minutes on a quiet machine.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import process_time, thread_time
from typing import Any, NamedTuple

import anabranch as ab
from anabranch.runtime.verify.verifier import Verifier
from bench.harness.timing import Table, claim, interleaved, report, sized


class Trade(NamedTuple):
    symbol: int
    price: float
    size: int


RATES = {number: 1 + number / 1000 for number in range(1000)}
LIMITS = {"least": 5, "fee": {"a": 0.01, "b": 0.02}}
ENTRIES = ("watch", "rehearse", "check_some", "find", "take_samples", "repeat")


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


@contextmanager
def measure_verifier() -> Iterator[list[float]]:
    """Give a list that gets the CPU seconds of each call of the verifier."""
    spent_s: list[float] = []
    inside = threading.local()
    originals = {name: getattr(Verifier, name) for name in ENTRIES}

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keywords: Any) -> Any:
            if getattr(inside, "busy", False):
                return function(*args, **keywords)
            inside.busy, began_s = True, thread_time()
            try:
                return function(*args, **keywords)
            finally:
                spent_s.append(thread_time() - began_s)
                inside.busy = False

        return call

    for name, function in originals.items():
        setattr(Verifier, name, timed(function))
    try:
        yield spent_s
    finally:
        for name, function in originals.items():
            setattr(Verifier, name, function)


def bracket(values: Sequence[float]) -> dict[str, float]:
    """Return the median, and the interval that holds the true one 95 times of 100.

    >>> bracket([1.0] * 4 + [2.0] * 17 + [3.0] * 4)
    {'ratio': 2.0, 'low': 2.0, 'high': 2.0}
    """
    ordered = sorted(values)
    off = max(0, int((len(ordered) - 1.96 * len(ordered) ** 0.5) / 2))
    return {
        "ratio": round(statistics.median(ordered), 4),
        "low": round(ordered[off], 4),
        "high": round(ordered[-1 - off], 4),
    }


def measure(program: Callable[[], Any], runs: int) -> tuple[list[float], list[float]]:
    """Return the verifier's share of the CPU time, and sample over off, of each turn."""
    cpu_s: dict[Any, list[float]] = {"sample": [], "off": []}
    own_s: list[float] = []

    def run(verify: Any) -> None:
        sink = program()
        gc.collect()
        with measure_verifier() as spent_s:
            began_s = process_time()
            ab.run(sink, on="local", degree=2, verify=verify)
            cpu_s[verify].append(process_time() - began_s)
        if verify == "sample":
            own_s.append(sum(spent_s))

    sides = {each: lambda verify=each: run(verify) for each in cpu_s}
    turns = len(interleaved(sides, repetitions=runs)["off"])
    sample, off = (cpu_s[each][-turns:] for each in ("sample", "off"))
    shares = [own / whole for own, whole in zip(own_s[-turns:], sample, strict=True)]
    return shares, [a / b for a, b in zip(sample, off, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=sized(1_000_000, 20_000))
    parser.add_argument("--runs", type=int, default=25)
    given = parser.parse_args()
    trades = [Trade(i % 97, i / 7, i % 1000) for i in range(given.items)]
    gc.freeze()  # what lies there all the time is no garbage of a run
    results, claims, rows = {}, [], []
    for name, program in make_programs(trades).items():
        shares, ratios = map(bracket, measure(program, given.runs))
        own = f"{name}: CPU time of the verifier over that of the job"
        whole = f"{name}: CPU time with a sample over without"
        results |= {own: shares, whole: ratios}
        claims += [claim(own, shares, at_most=0.01), claim(whole, ratios, at_most=1.01)]
        rows.append([name, *shares.values(), *ratios.values()])
    head = ["program", "verifier", "low", "high", "with over without", "low", "high"]
    table = Table("CPU time: medians, and where 95 of 100 lie", head, rows)
    report("verify", results, claims=claims, tables=[table])


if __name__ == "__main__":
    main()
