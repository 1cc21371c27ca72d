"""How long items are on their way from the source to a sink.

A histogram with buckets that grow by a fixed ratio: constant memory, any length of
run, and percentiles that are right to within that ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

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

    def record(self, latency_s: float, items: int = 1) -> None:
        """Count items that arrived together."""
        self.most_s = max(self.most_s, latency_s)
        place = 0
        if latency_s > _LEAST_S:
            place = round(math.log(latency_s / _LEAST_S) / _LOG_RATIO)
        self.counts[min(place, _BUCKETS - 1)] += items


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


def _percentile(counts: list[int], rank: float, most_s: float) -> float:
    below = 0
    for place, count in enumerate(counts):
        below += count
        if count and below >= rank:
            return _ms(min(_LEAST_S * _RATIO**place, most_s))
    return 0.0


def _ms(seconds: float) -> float:
    return float(f"{seconds * 1000:.3g}")
