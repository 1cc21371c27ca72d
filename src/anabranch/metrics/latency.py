"""The latency of items from the source to a sink.

A histogram with buckets that grow by a fixed ratio: constant memory, any length of
run, and percentiles that are right to within that ratio.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
import numpy.typing as npt

_LEAST_S = 1e-6
_RATIO = 1.05
_BUCKETS = 512
_LOG_RATIO = math.log(_RATIO)
_SLICE_S = 5.0
_SLICES = 12  # the last minute
_PARTS = 8  # of items that are spread between two latencies


class Latencies:
    """The latencies at one sink; one thread records, any may read.

    Those of the last minute are also kept in slices of some seconds.

    >>> latencies = Latencies()
    >>> latencies.record(0.001, 98)
    >>> latencies.record(0.5, 2)
    >>> summary([latencies])
    LatencySummary(items=100, p50_ms=1.02, p95_ms=1.02, p99_ms=500.0, max_ms=500.0)
    """

    def __init__(self) -> None:
        self.counts = [0] * _BUCKETS
        self.most_s = 0.0
        self.total_s = 0.0
        self._slices: deque[tuple[int, dict[int, int]]] = deque(maxlen=_SLICES + 1)

    def record(
        self, latency_s: float, items: int = 1, *, at_s: float | None = None
    ) -> None:
        """Count items that arrived together, at a time or now."""
        self.most_s = max(self.most_s, latency_s)
        self.total_s += latency_s * items
        place = 0
        if latency_s > _LEAST_S:
            place = round(math.log(latency_s / _LEAST_S) / _LOG_RATIO)
        place = min(place, _BUCKETS - 1)
        self.counts[place] += items
        recent = self._slice(perf_counter() if at_s is None else at_s)
        recent[place] = recent.get(place, 0) + items

    def record_between(
        self, longest_s: float, shortest_s: float, items: int, *, at_s: float
    ) -> None:
        """Count items whose latencies are spread evenly between two.

        >>> latencies = Latencies()
        >>> latencies.record_between(0.4, 0.2, 3, at_s=0.0)
        >>> [round(ms) for ms, _ in count_by_ms([latencies])]
        [198, 293, 393]
        """
        parts = min(items, _PARTS)
        if parts < 2 or longest_s <= shortest_s * _RATIO:  # noqa: PLR2004
            self.record((longest_s + shortest_s) / 2, items, at_s=at_s)
            return
        step_s = (longest_s - shortest_s) / (parts - 1)
        for part in range(parts):
            share = items * (part + 1) // parts - items * part // parts
            self.record(longest_s - step_s * part, share, at_s=at_s)

    def record_each(self, latencies_s: npt.NDArray[np.float64]) -> None:
        """Count items that arrived one by one."""
        if not len(latencies_s):
            return
        self.most_s = max(self.most_s, float(latencies_s.max()))
        self.total_s += float(latencies_s.sum())
        above = np.log(np.maximum(latencies_s / _LEAST_S, 1.0)) / _LOG_RATIO
        places = np.minimum(np.round(above).astype(np.int64), _BUCKETS - 1)
        recent = self._slice(perf_counter())
        for place, items in enumerate(np.bincount(places).tolist()):
            if items:
                self.counts[place] += items
                recent[place] = recent.get(place, 0) + items

    def recent_counts(self, now_s: float) -> dict[int, int]:
        """Return the bucket counts of the last minute."""
        found: dict[int, int] = {}
        for number, counts in tuple(self._slices):
            if number > now_s // _SLICE_S - _SLICES:
                for place, items in tuple(counts.items()):
                    found[place] = found.get(place, 0) + items
        return found

    def _slice(self, at_s: float) -> dict[int, int]:
        number = int(at_s // _SLICE_S)
        if not self._slices or self._slices[-1][0] < number:
            self._slices.append((number, {}))
        return self._slices[-1][1]


class SinkLatencies:
    """The latencies at one sink, from the birth of items and from their reading."""

    def __init__(self) -> None:
        self.from_birth = Latencies()
        self.from_reading = Latencies()


@dataclass(frozen=True)
class Sojourns:
    """The latencies of the items delivered within some time."""

    counts: tuple[int, ...]
    total_s: float

    @property
    def items(self) -> int:
        """The number of items."""
        return sum(self.counts)

    @property
    def mean_s(self) -> float:
        """Their mean latency; 0 if there are none."""
        return self.total_s / max(1, self.items)

    def quantile_s(self, share: float) -> float:
        """Return the latency at a quantile."""
        rank, below = share * self.items, 0
        for place, count in enumerate(self.counts):
            below += count
            if count and below >= rank:
                return _LEAST_S * _RATIO**place
        return 0.0

    def within(self, bound_s: float) -> float:
        """Return the share of the items below a bound."""
        place = max(0, math.floor(math.log(bound_s / _LEAST_S) / _LOG_RATIO))
        return sum(self.counts[: place + 1]) / max(1, self.items)

    def since(self, earlier: Sojourns) -> Sojourns:
        """Return the items delivered since an earlier reading."""
        pairs = zip(self.counts, earlier.counts, strict=True)
        counts = tuple(now - before for now, before in pairs)
        return Sojourns(counts, self.total_s - earlier.total_s)


NO_SOJOURNS = Sojourns((0,) * _BUCKETS, 0.0)


def sojourns(all_latencies: Iterable[Latencies]) -> Sojourns:
    """Return the latencies at several sinks so far.

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


@dataclass(frozen=True)
class LatencySummary:
    """The number of items that have come out, and percentiles of their latency."""

    items: int = 0
    p50_ms: float = 0.0
    p95_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


def summary(all_latencies: Iterable[Latencies]) -> LatencySummary:
    """Return the percentiles over several sinks."""
    counts, most_s = [0] * _BUCKETS, 0.0
    for latencies in all_latencies:
        counts = [a + b for a, b in zip(counts, latencies.counts, strict=True)]
        most_s = max(most_s, latencies.most_s)
    total = sum(counts)
    p50, p95, p99 = (
        _percentile(counts, share * total, most_s) for share in (0.5, 0.95, 0.99)
    )
    return LatencySummary(total, p50, p95, p99, _ms(most_s))


def recent_summary(
    all_latencies: Iterable[Latencies], now_s: float | None = None
) -> LatencySummary:
    """Return the percentiles over several sinks, of the items of the last minute.

    >>> latencies = Latencies()
    >>> latencies.record(9.0, at_s=10.0)
    >>> latencies.record(0.1, at_s=100.0)
    >>> recent_summary([latencies], now_s=101.0).items
    1
    """
    now_s = perf_counter() if now_s is None else now_s
    counts = [0] * _BUCKETS
    most = 0
    for latencies in all_latencies:
        for place, items in latencies.recent_counts(now_s).items():
            counts[place] += items
            most = max(most, place)
    total = sum(counts)
    most_s = _LEAST_S * _RATIO**most if total else 0.0
    p50, p95, p99 = (
        _percentile(counts, share * total, most_s) for share in (0.5, 0.95, 0.99)
    )
    return LatencySummary(total, p50, p95, p99, _ms(most_s))


def count_by_ms(all_latencies: Iterable[Latencies]) -> tuple[tuple[float, int], ...]:
    """Return the number of items per latency, over several sinks, so far.

    The difference of two readings covers the time in between, unlike `summary`.

    >>> seen = Latencies()
    >>> seen.record(0.001, 98)
    >>> count_by_ms([seen])
    ((1.02, 98),)
    """
    counts = sojourns(all_latencies).counts
    return tuple(
        (_ms(_LEAST_S * _RATIO**place), items)
        for place, items in enumerate(counts)
        if items
    )


def _percentile(counts: list[int], rank: float, most_s: float) -> float:
    below = 0
    for place, count in enumerate(counts):
        below += count
        if count and below >= rank:
            return _ms(min(_LEAST_S * _RATIO**place, most_s))
    return 0.0


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1000:.3g}")
