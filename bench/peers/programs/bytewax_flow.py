"""The jobs with Bytewax, for two processes; the input in one part, or cut in two.

Started as `python -m bytewax.testing -p 2 "bytewax_flow:vwap('in.csv','out',2)"`. With two
parts a key's trades reach its worker in no certain order: then running values are wrong.
"""

from __future__ import annotations

import csv
import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import DynamicSink, StatelessSinkPartition

import talk
from bench.harness.trades import (
    Price,
    Trade,
    in_cents,
    is_large,
    per_share,
    running_vwap,
    window_vwap,
    with_fee,
)
from bench.harness.trades import heavy as heavy_map


def parse(line: str) -> Trade:
    ts, symbol, price, volume = line.split(",")
    return Trade(int(ts), symbol, float(price), int(volume))


def symbol_of(line: str) -> str:
    return line.split(",", 2)[1]


class Part(StatefulSourcePartition[str, None]):
    """The lines that begin within some bytes of the file."""

    def __init__(self, path: str, start: int, end: int) -> None:
        self.file = Path(path).open("rb")  # noqa: SIM115 - open as long as the flow
        self.file.seek(start - 1)
        self.file.readline()  # the header, or the line that the part before has
        self.left = end - self.file.tell()

    def next_batch(self) -> list[str]:
        if self.left <= 0:
            raise StopIteration
        lines = self.file.readlines(min(self.left, 1_000_000))
        self.left -= sum(map(len, lines))
        return b"".join(lines).decode().splitlines()

    def snapshot(self) -> None:
        return None


class Lines(FixedPartitionedSource[str, None]):
    def __init__(self, path: str, parts: int) -> None:
        self.path, self.parts = path, parts

    def list_parts(self) -> list[str]:
        return [str(part) for part in range(self.parts)]

    def build_part(self, _step: str, part: str, _resumed: None) -> Part:
        size = os.path.getsize(self.path)  # noqa: PTH202 - as users do
        start, end = (size * (int(part) + n) // self.parts for n in (0, 1))
        return Part(self.path, max(start, 1), end)


class Rows(StatelessSinkPartition[Price]):
    def __init__(self, path: str) -> None:
        self.file = Path(path).open("w", newline="")  # noqa: SIM115 - as above
        self.write = csv.writer(self.file).writerows

    def write_batch(self, items: list[Price]) -> None:
        self.write(items)

    def close(self) -> None:
        self.file.close()


class Prices(DynamicSink[Price]):
    """A file for each worker."""

    def __init__(self, target: str) -> None:
        self.target = Path(target)
        self.target.mkdir(exist_ok=True)

    def build(self, _step: str, worker: int, _workers: int) -> Rows:
        talk.began(str(self.target))
        return Rows(f"{self.target}/{worker}.csv")


def chain(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("chain")
    trades = op.map("parse", op.input("in", flow, Lines(source, parts)), parse)
    large = op.filter("large", op.map("cents", trades, in_cents), is_large)
    prices = op.map("share", op.map("fee", large, with_fee), per_share)
    op.output("out", prices, Prices(target))
    return flow


class Running(op.StatefulBatchLogic[str, Price, Any]):
    """The running VWAP of one symbol; a batch of its trades at a time."""

    def __init__(self, state: Any) -> None:
        self.state = state or (0.0, 0)

    def on_batch(self, values: list[str]) -> tuple[list[Price], bool]:
        prices = []
        for line in values:
            self.state, price = running_vwap(self.state, parse(line))
            prices.append(price)
        return prices, False

    def snapshot(self) -> Any:
        return self.state


def vwap(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("vwap")
    lines = op.input("in", flow, Lines(source, parts))
    keyed = op.key_on("key", lines, symbol_of)  # lines are sent, not trades: quicker
    prices = op.key_rm("values", op.stateful_batch("vwap", keyed, Running))
    op.output("out", prices, Prices(target))
    return flow


def parse_all(lines: list[str]) -> list[Trade]:
    return [parse(line) for line in lines]


def window(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("window")
    lines = op.input("in", flow, Lines(source, parts))
    keyed = op.key_on("key", lines, symbol_of)  # lines are sent, not trades: quicker
    hundreds = op.collect("hundred", keyed, timedelta(days=1), 100)
    trades = op.map("parse", op.key_rm("values", hundreds), parse_all)
    prices = op.map("vwap", trades, window_vwap)
    op.output("out", prices, Prices(target))
    return flow


def heavy(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("heavy")
    trades = op.map("parse", op.input("in", flow, Lines(source, parts)), parse)
    op.output("out", op.map("heavy", trades, heavy_map), Prices(target))
    return flow


class LivePart(StatefulSourcePartition[str, None]):
    def __init__(self, port: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port))
        self.link.settimeout(0.001)
        self.rest = b""

    def next_batch(self) -> list[str]:
        try:
            read = self.link.recv(65536)
        except TimeoutError:
            return []
        if not read:
            raise StopIteration
        *lines, self.rest = (self.rest + read).split(b"\n")
        return [line.decode() for line in lines]

    def snapshot(self) -> None:
        return None


class LiveLines(FixedPartitionedSource[str, None]):
    def __init__(self, port: int) -> None:
        self.port = port

    def list_parts(self) -> list[str]:
        return ["0"]

    def build_part(self, _step: str, _part: str, _resumed: None) -> LivePart:
        return LivePart(self.port)


class Noting(StatelessSinkPartition[Price]):
    def __init__(self, target: str) -> None:
        self.seen = talk.Seen(target)

    def write_batch(self, items: list[Price]) -> None:
        self.seen.note(*[price.ts for price in items])


class NotingSink(DynamicSink[Price]):
    def __init__(self, target: str) -> None:
        self.target = target

    def build(self, _step: str, _worker: int, _workers: int) -> Noting:
        return Noting(self.target)


def live(port: int, target: str) -> Dataflow:
    flow = Dataflow("live")
    keyed = op.key_on("key", op.input("in", flow, LiveLines(port)), symbol_of)
    prices = op.key_rm("values", op.stateful_batch("vwap", keyed, Running))
    op.output("out", prices, NotingSink(target))
    return flow
