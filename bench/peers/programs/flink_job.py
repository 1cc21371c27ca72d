"""The jobs with PyFlink's DataStream API, two tasks at a time.

Python runs in threads of the task's process (`thread` mode, the quicker one) except for
the heavy map, which needs processes of its own to use two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from pyflink.common import Configuration, Encoder, Types, WatermarkStrategy
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from pyflink.datastream.connectors.file_system import (
    FileSink,
    FileSource,
    StreamFormat,
)
from pyflink.datastream.state import ListStateDescriptor, ValueStateDescriptor

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


def environment(mode: str) -> StreamExecutionEnvironment:
    settings = Configuration()
    settings.set_string("python.execution-mode", mode)
    settings.set_string("python.executable", sys.executable)
    settings.set_string("restart-strategy.type", "none")
    settings.set_string("rest.bind-port", "0")
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_parallelism(2)
    env.enable_checkpointing(600_000)  # so that the last files are closed at the end
    return env


def parse(line: str) -> Trade:
    ts, symbol, price, volume = line.split(",")
    return Trade(int(ts), symbol, float(price), int(volume))


def read(env: StreamExecutionEnvironment, source: str) -> DataStream:
    files = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), source
    ).build()
    lines = env.from_source(files, WatermarkStrategy.no_watermarks(), "trades")
    lines.set_parallelism(1)  # with two a key's trades come in no certain order
    rows = lines.filter(lambda line: not line.startswith("ts")).set_parallelism(1)
    return rows.map(parse).set_parallelism(1)


def write(prices: DataStream, target: str) -> None:
    rows = prices.map(lambda p: f"{p.ts},{p.symbol},{p.price!r}", Types.STRING())
    encoder = Encoder.simple_string_encoder()
    rows.sink_to(FileSink.for_row_format(target, encoder).build())


def chain(source: str, target: str) -> None:
    env = environment("thread")
    trades = read(env, source).rebalance()
    write(trades.map(in_cents).filter(is_large).map(with_fee).map(per_share), target)
    env.execute("chain")


class RunningVwap(KeyedProcessFunction):
    def open(self, context: Any) -> None:
        kind = Types.PICKLED_BYTE_ARRAY()
        self.state = context.get_state(ValueStateDescriptor("vwap", kind))

    def process_element(self, trade: Trade, _context: Any) -> Iterator[Price]:
        state, price = running_vwap(self.state.value() or (0.0, 0), trade)
        self.state.update(state)
        yield price


def vwap(source: str, target: str) -> None:
    env = environment("thread")
    keyed = read(env, source).key_by(lambda t: t.symbol, Types.STRING())
    write(keyed.process(RunningVwap()), target)
    env.execute("vwap")


class HundredVwap(KeyedProcessFunction):
    """Makes a price of each 100 trades; the rest of a key when its time comes."""

    def open(self, context: Any) -> None:
        kind = Types.PICKLED_BYTE_ARRAY()
        self.held = context.get_list_state(ListStateDescriptor("held", kind))
        self.count = context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, trade: Trade, context: Any) -> Iterator[Price]:
        count = (self.count.value() or 0) + 1
        self.held.add(trade)
        if count == 1:  # the end of the input is the end of time: then it fires
            context.timer_service().register_event_time_timer(2**62)
        if count == 100:
            yield window_vwap(list(self.held.get()))
            self.held.clear()
            count = 0
        self.count.update(count)

    def on_timer(self, _timestamp: int, _context: Any) -> Iterator[Price]:
        if self.count.value():
            yield window_vwap(list(self.held.get()))


def window(source: str, target: str) -> None:
    env = environment("thread")
    keyed = read(env, source).key_by(lambda t: t.symbol, Types.STRING())
    write(keyed.process(HundredVwap()), target)
    env.execute("window")


def heavy(source: str, target: str) -> None:
    env = environment("process")
    write(read(env, source).rebalance().map(heavy_map), target)
    env.execute("heavy")


class Note(KeyedProcessFunction):
    def __init__(self, target: str) -> None:
        self.target = target

    def open(self, _context: Any) -> None:
        self.seen = talk.Seen(self.target)

    def process_element(self, price: Price, _context: Any) -> Iterator[int]:
        self.seen.note(price.ts)
        yield 0


def live(port: int, target: str) -> None:
    env = environment("thread")
    java = env._j_stream_execution_environment  # noqa: SLF001 - Python has no sockets
    lines = DataStream(java.socketTextStream("127.0.0.1", port))
    keyed = lines.map(parse).key_by(lambda t: t.symbol, Types.STRING())
    prices = keyed.process(RunningVwap()).key_by(lambda p: p.symbol, Types.STRING())
    prices.process(Note(target), Types.INT()).print()
    env.execute("live")


if __name__ == "__main__":
    talk.main({"chain": chain, "vwap": vwap, "window": window, "heavy": heavy}, live)
