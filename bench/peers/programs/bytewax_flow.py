"""The jobs with Bytewax, for two processes; the input in one part, or cut in two.

Started as `python -m bytewax.testing -p 2 "bytewax_flow:vwap('in.csv','out',2)"`. With two
parts a key's trades reach its worker in no certain order: then running values are wrong.
"""

from __future__ import annotations

import csv
import itertools
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
from trades import (
    Price,
    Trade,
    in_cents,
    is_large,
    per_share,
    running_vwap,
    window_vwap,
    with_fee,
)
from trades import heavy as heavy_map


class Part(StatefulSourcePartition[Trade, None]):
    """The lines that begin within some bytes of the file."""

    def __init__(self, path: str, start: int, end: int) -> None:
        self.file = Path(path).open("rb")  # noqa: SIM115 - open as long as the flow
        self.file.seek(start - 1)
        self.file.readline()  # the header, or the line that the part before has
        self.rows = csv.reader(self.lines(end))

    def lines(self, end: int) -> Any:
        at = self.file.tell()
        for line in self.file:
            if at >= end:
                return
            at += len(line)
            yield line.decode()

    def next_batch(self) -> list[Trade]:
        rows = list(itertools.islice(self.rows, 5000))
        if not rows:
            raise StopIteration
        return [Trade(int(t), s, float(p), int(v)) for t, s, p, v in rows]

    def snapshot(self) -> None:
        return None


class Trades(FixedPartitionedSource[Trade, None]):
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
    trades = op.input("in", flow, Trades(source, parts))
    large = op.filter("large", op.map("cents", trades, in_cents), is_large)
    prices = op.map("share", op.map("fee", large, with_fee), per_share)
    op.output("out", prices, Prices(target))
    return flow


def vwap_step(state: Any, trade: Trade) -> Any:
    return running_vwap(state or (0.0, 0), trade)


def vwap(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("vwap")
    trades = op.input("in", flow, Trades(source, parts))
    keyed = op.key_on("key", trades, lambda t: t.symbol)
    prices = op.key_rm("values", op.stateful_map("vwap", keyed, vwap_step))
    op.output("out", prices, Prices(target))
    return flow


def window(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("window")
    trades = op.input("in", flow, Trades(source, parts))
    keyed = op.key_on("key", trades, lambda t: t.symbol)
    hundreds = op.collect("hundred", keyed, timedelta(days=1), 100)
    prices = op.map("vwap", op.key_rm("values", hundreds), window_vwap)
    op.output("out", prices, Prices(target))
    return flow


def heavy(source: str, target: str, parts: int) -> Dataflow:
    flow = Dataflow("heavy")
    trades = op.input("in", flow, Trades(source, parts))
    op.output("out", op.map("heavy", trades, heavy_map), Prices(target))
    return flow


class LivePart(StatefulSourcePartition[Trade, None]):
    def __init__(self, port: int) -> None:
        self.link = socket.create_connection(("127.0.0.1", port))
        self.link.settimeout(0.001)
        self.rest = b""

    def next_batch(self) -> list[Trade]:
        try:
            read = self.link.recv(65536)
        except TimeoutError:
            return []
        if not read:
            raise StopIteration
        *lines, self.rest = (self.rest + read).split(b"\n")
        rows = csv.reader(line.decode() for line in lines)
        return [Trade(int(t), s, float(p), int(v)) for t, s, p, v in rows]

    def snapshot(self) -> None:
        return None


class LiveTrades(FixedPartitionedSource[Trade, None]):
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
    trades = op.input("in", flow, LiveTrades(port))
    keyed = op.key_on("key", trades, lambda t: t.symbol)
    prices = op.key_rm("values", op.stateful_map("vwap", keyed, vwap_step))
    op.output("out", prices, NotingSink(target))
    return flow
