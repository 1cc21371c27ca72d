"""The five kernels of section 6.3 of safe data parallelism, from the applications.

Each has a generated input of any size and gives a stream. The Finance kernel is as the
paper's text has it: prices of trades and quotes come together by time in Combine, the
one operator that is not parallel, and quotes below the average price are bargains.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import anabranch as ab
from bench.harness.trades import Trade, make_trades

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "apps"))

import event_patterns
import network_monitoring
import pagerank
import text_features


@dataclass(frozen=True)
class Kernel:
    """A kernel: its input for a size, and its stream from that input."""

    size: int
    make_input: Callable[[Path, int], Any]
    stream: Callable[[Any], ab.Stream]


def network(path: Path) -> ab.Stream:
    lines = ab.read_text(str(path), name="log").flat_map(
        network_monitoring.parse, name="parse"
    )
    failures = lines.key_by("server", "session").apply(
        network_monitoring.Session, name="sessions"
    )
    counted = failures.key_by("address").scan(network_monitoring.count, 0, name="count")
    return counted.filter(lambda failure: failure.number >= 5, name="suspicious")


def ranks(path: Path) -> ab.Stream:
    lines = ab.read_text(str(path), name="lines")
    rows = lines.flat_map(pagerank.link, name="links").apply(
        pagerank.Matrix, name="matrix"
    )
    rounds = rows.iterate(pagerank.one_round, rounds=10, name="rounds")
    return rounds.flat_map(pagerank.ranked, name="ranked")


def language(path: Path) -> ab.Stream:
    read = ab.read_csv(str(path), text_features.Tweet, name="tweets")
    return read.flat_map(text_features.features, name="features")


def patterns(path: Path) -> ab.Stream:
    by_author = event_patterns.tagged(path).key_by("name")
    five = by_author.window(count=event_patterns.FIVE, every=1)
    ends = five.aggregate(event_patterns.five_alike, name="match")
    return ends.filter(lambda match: match.tweets > 0, name="matched")


class Offer(NamedTuple):
    """A quote, or (with an average) the price of a trade."""

    ts: int
    symbol: str
    price: float
    vwap: float


def average(state: tuple[float, int], trade: Trade) -> tuple[tuple[float, int], Offer]:
    value, volume = state[0] + trade.price * trade.volume, state[1] + trade.volume
    return (value, volume), Offer(trade.ts, trade.symbol, trade.price, value / volume)


def quoted(trade: Trade) -> Offer:
    return Offer(trade.ts, trade.symbol, round(trade.price * 0.999, 2), 0.0)


class Bargains(ab.Operator):
    """One stock: quotes below the last average."""

    def setup(self) -> None:
        self.vwap = 0.0

    def process(self, offer: Offer) -> Iterator[Offer]:
        if offer.vwap:
            self.vwap = offer.vwap
        elif offer.price < self.vwap:
            yield offer._replace(vwap=self.vwap)


def bargains(paths: tuple[Path, Path]) -> ab.Stream:
    trades, quotes = (
        ab.read_csv(str(path), Trade, name=name)
        for path, name in zip(paths, ("trades", "quotes"), strict=True)
    )
    prices = trades.key_by("symbol").scan(average, (0.0, 0), name="vwap")
    offers = quotes.map(quoted, name="quote")
    both = ab.merge(prices, offers, by="ts", name="combine")
    return both.key_by("symbol").apply(Bargains, name="bargains")


def _trades_and_quotes(folder: Path, rows: int) -> tuple[Path, Path]:
    return (
        make_trades(folder / "trades.csv", rows, seed=1),
        make_trades(folder / "quotes.csv", rows, seed=2),
    )


KERNELS = {
    "network monitoring": Kernel(300_000, network_monitoring.sample_file, network),
    "PageRank": Kernel(100_000, pagerank.sample_file, ranks),
    "Twitter NLP": Kernel(60_000, text_features.sample_file, language),
    "Twitter CEP": Kernel(600_000, text_features.sample_file, patterns),
    "Finance": Kernel(200_000, _trades_and_quotes, bargains),
}


class _SumOfRound(ab.Operator):
    """Add for a stream without end: the next ranks whenever all blocks have come."""

    def setup(self) -> None:
        self.add = pagerank.Add()
        self.add.setup()

    def process(self, product: Any) -> Iterator[Any]:
        self.add.products.append(product)
        if len(self.add.products) == pagerank.BLOCKS:
            yield from self.add.finish()
            self.add.setup()


def rounds_without_end(path: Path) -> ab.Stream:
    """Return PageRank's MulAdd and Add as a plain graph, as the paper draws it.

    This is for the model, which does not look into `iterate`.
    """
    matrix = pagerank.Matrix()
    matrix.setup()
    with path.open() as lines:
        for line in lines:
            for link in pagerank.link(line):
                matrix.process(link)
    blocks = list(matrix.finish())
    rows = ab.generate(lambda: itertools.cycle(blocks), pagerank.Rows, name="rows")
    return rows.map(pagerank.multiply, name="mul_add").apply(_SumOfRound, name="add")
