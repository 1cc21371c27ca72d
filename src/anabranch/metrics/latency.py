"""How long items are on their way from the source to a sink.

A histogram with buckets that grow by a fixed ratio: constant memory, any length of
run, and percentiles that are right to within that ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_LEAST_S = 1e-6
_RATIO = 1.05
_BUCKETS = 512
_LOG_RATIO = math.log(_RATIO)


class Latencies:
    """The latencies at one sink; one thread at a time records, any may look.

    >>> latencies = Latencies()
    >>> latencies.record(0.001, 98)
    >>> latencies.record(0.5, 2)
    >>> summary([latencies])
    {'items': 100, 'p50_ms': 1.02, 'p95_ms': 1.02, 'p99_ms': 500.0, 'max_ms': 500.0}
    """

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.most_s = 0.0
        self.total_s = 0.0

    def record(self, latency_s: float, items: int = 1) -> None:
        """Count items that arrived together."""
        self.most_s = max(self.most_s, latency_s)
        self.total_s += latency_s * items
        place = 0
        if latency_s > _LEAST_S:
            place = round(math.log(latency_s / _LEAST_S) / _LOG_RATIO)
        self.counts[min(place, _BUCKETS - 1)] += items

    def record_each(self, latencies_s: npt.NDArray[np.float64]) -> None:
        """Count items that arrived one by one."""
        if not len(latencies_s):
            return
        self.most_s = max(self.most_s, float(latencies_s.max()))
        self.total_s += float(latencies_s.sum())
        above = np.log(np.maximum(latencies_s / _LEAST_S, 1.0)) / _LOG_RATIO
        places = np.minimum(np.round(above).astype(np.int64), _BUCKETS - 1)
        for place, items in enumerate(np.bincount(places).tolist()):
            if items:
                self.counts[place] += items


@dataclass(frozen=True)
class Sojourns:
    """How long the items that came out within some time had been on their way."""

    counts: tuple[int, ...]
    total_s: float

    @property
    def items(self) -> int:
        """How many came out."""
        return sum(self.counts)

    @property
    def mean_s(self) -> float:
        """Their latency on average; 0 where there were none."""
        return self.total_s / max(1, self.items)

    def quantile_s(self, share: float) -> float:
        """Return the latency that so many of them kept below."""
        rank, below = share * self.items, 0
        for place, count in enumerate(self.counts):
            below += count
            if count and below >= rank:
                return _LEAST_S * _RATIO**place
        return 0.0

    def within(self, bound_s: float) -> float:
        """Return the share of them that kept below a bound."""
        place = max(0, math.floor(math.log(bound_s / _LEAST_S) / _LOG_RATIO))
        return sum(self.counts[: place + 1]) / max(1, self.items)

    def since(self, earlier: Sojourns) -> Sojourns:
        """Return those that came out after an earlier look."""
        pairs = zip(self.counts, earlier.counts, strict=True)
        counts = tuple(now - before for now, before in pairs)
        return Sojourns(counts, self.total_s - earlier.total_s)


NO_SOJOURNS = Sojourns((0,) * _BUCKETS, 0.0)


def sojourns(all_latencies: Iterable[Latencies]) -> Sojourns:
    """Return what several sinks have seen so far.

    >>> seen = Latencies()
    >>> seen.record(0.1, 3)
    >>> before = sojourns([seen])
    >>> seen.record(0.3)
    >>> sojourns([seen]).since(before).items, round(sojourns([seen]).mean_s, 3)
    (1, 0.15)
    """
    counts, total_s = [0] * _BUCKETS, 0.0
    for latencies in all_latencies:
        counts = [a + b for a, b in zip(counts, latencies.counts, strict=True)]
        total_s += latencies.total_s
    return Sojourns(tuple(counts), total_s)


def summary(all_latencies: Iterable[Latencies]) -> dict[str, float]:
    """Return the percentiles over several sinks."""
    counts, most_s = [0] * _BUCKETS, 0.0
    for latencies in all_latencies:
        counts = [a + b for a, b in zip(counts, latencies.counts, strict=True)]
        most_s = max(most_s, latencies.most_s)
    total = sum(counts)
    found: dict[str, float] = {"items": total}
    for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        found[name] = _percentile(counts, share * total, most_s)
    found["max_ms"] = _ms(most_s)
    return found


def counted_ms(all_latencies: Iterable[Latencies]) -> list[tuple[float, int]]:
    """Return how many items had which latency, over several sinks and so far.

    Two of them tell what came in between, as `summary` cannot.

    >>> seen = Latencies()
    >>> seen.record(0.001, 98)
    >>> counted_ms([seen])
    [(1.02, 98)]
    """
    counts = sojourns(all_latencies).counts
    return [
        (_ms(_LEAST_S * _RATIO**place), items)
        for place, items in enumerate(counts)
        if items
    ]


def _percentile(counts: list[int], rank: float, most_s: float) -> float:
    below = 0
    for place, count in enumerate(counts):
        below += count
        if count and below >= rank:
            return _ms(min(_LEAST_S * _RATIO**place, most_s))
    return 0.0


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1000:.3g}")
