"""The metrics of a job under the names used in monitoring systems.

Names have dots, as in OpenTelemetry. Prometheus uses underscores instead, then the
unit, and `_total` for a counter; so `anabranch.items.read` is
`anabranch_items_read_total` there. docs/operations.md lists all names, and a test
checks that list against this file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal, TypeAlias

from anabranch.metrics.job_metrics import Metrics
from anabranch.metrics.latency import LatencySummary

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = Mapping[str, str]

STATUSES = ("running", "finished", "stopped", "failed")
# Of a latency in seconds. A bucket counts values at or below its bound.
BOUNDS_S = tuple(
    value * 10**exponent for exponent in range(-4, 3) for value in (1.0, 2.5, 5.0)
)


@dataclass(frozen=True)
class Distribution:
    """The number of values in each bucket of a histogram; the last bucket has no bound."""

    counts: tuple[int, ...]
    total: float

    @property
    def items(self) -> int:
        """The number of values."""
        return sum(self.counts)


@dataclass(frozen=True)
class Reading:
    """One value of a metric, with its labels."""

    value: float | Distribution
    labels: Labels = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """A metric by its name, with all its values."""

    name: str
    kind: Kind
    help: str
    points: tuple[Reading, ...]
    unit: str = ""

    @property
    def prometheus_name(self) -> str:
        """Its name in Prometheus.

        >>> Family("anabranch.latency", "histogram", "", (), "s").prometheus_name
        'anabranch_latency_seconds'
        """
        name = self.name.replace(".", "_") + {"s": "_seconds"}.get(self.unit, "")
        return f"{name}_total" if self.kind == "counter" else name


def list_families(metrics: Metrics, decisions: int = 0) -> list[Family]:
    """Return the current metrics of a job.

    >>> import anabranch as ab
    >>> job = ab.run(ab.from_iterable([1, 2]).to_list(), on="sequential")
    >>> read = list_families(job.metrics())[2]
    >>> read.name, read.points
    ('anabranch.items.read', (Reading(value=2, labels={'source': 'from_iterable'}),))
    """
    found = [
        *_of_job(metrics, decisions),
        *_of_latency(metrics),
        *_of_parallelism(metrics),
        *_of_epochs(metrics),
    ]
    return [family for family in found if family.points]


def _of_job(metrics: Metrics, decisions: int) -> list[Family]:
    backlog = () if metrics.backlog is None else (Reading(metrics.backlog),)
    return [
        Family(
            "anabranch.job.status",
            "gauge",
            "1 for the status that the job has, 0 for the others",
            tuple(
                Reading(
                    int(metrics.status == status),
                    {"engine": metrics.engine, "status": status},
                )
                for status in STATUSES
            ),
        ),
        Family(
            "anabranch.job.elapsed",
            "gauge",
            "Time since the start of the job",
            (Reading(metrics.elapsed_s),),
            "s",
        ),
        _counter("items.read", "Items that sources gave", metrics.read, "source"),
        _counter("items.delivered", "Items at sinks", metrics.delivered, "sink"),
        _counter(
            "items.failed",
            "Items that were left out since an operator failed on them",
            metrics.failed,
            "operator",
        ),
        Family(
            "anabranch.backlog.items",
            "gauge",
            "Items that wait at sources and between threads",
            backlog,
        ),
        Family(
            "anabranch.decisions",
            "counter",
            "Adaptations that were decided",
            (Reading(decisions),),
        ),
    ]


def _of_latency(metrics: Metrics) -> list[Family]:
    recent = {
        "birth": metrics.recent_latency,
        "reading": metrics.recent_latency_from_reading,
    }
    distribution = distribute(metrics.latency_counts)
    return [
        Family(
            "anabranch.latency",
            "histogram",
            "Age of items when a sink has taken them, since their birth",
            (Reading(distribution),) if distribution.items else (),
            "s",
        ),
        Family(
            "anabranch.latency.recent",
            "gauge",
            "Percentiles of the latency of the last minute",
            tuple(
                Reading(ms / 1000, {"since": since, "quantile": quantile})
                for since, summary in recent.items()
                if summary.items
                for quantile, ms in _quantiles(summary)
            ),
            "s",
        ),
    ]


def _quantiles(summary: LatencySummary) -> tuple[tuple[str, float], ...]:
    return (
        ("0.5", summary.p50_ms),
        ("0.95", summary.p95_ms),
        ("0.99", summary.p99_ms),
        ("1", summary.max_ms),
    )


def _of_parallelism(metrics: Metrics) -> list[Family]:
    waiting = {name: sum(one.waiting) for name, one in metrics.elements.items()}
    limit = {name: sum(one.limit) for name, one in metrics.elements.items()}
    in_columns = metrics.in_columns
    return [
        _gauge("region.replicas", "Replicas of a region", metrics.degrees, "region"),
        _gauge(
            "element.waiting.items",
            "Items in the queues before an element",
            waiting,
            "element",
        ),
        _gauge(
            "element.limit.items",
            "Items that the queues before an element can hold",
            limit,
            "element",
        ),
        _gauge(
            "threaded_port",
            "1 for each input of an operator that has a thread of its own",
            dict.fromkeys(metrics.ports, 1),
            "port",
        ),
        _gauge(
            "cut",
            "1 for each operator before which a task is divided between workers",
            dict.fromkeys(metrics.cuts, 1),
            "operator",
        ),
        _gauge(
            "operator.in_columns.ratio",
            "Share of an operator's items that ran in columns",
            in_columns,
            "operator",
        ),
    ]


def _of_epochs(metrics: Metrics) -> list[Family]:
    if metrics.engine != "spark":
        return []
    last = metrics.epoch_s[-1:], metrics.epoch_items[-1:]
    return [
        Family(
            "anabranch.epochs",
            "counter",
            "Epochs completed",
            (Reading(metrics.epochs),),
        ),
        Family(
            "anabranch.epoch.duration",
            "gauge",
            "How long the last epoch took",
            tuple(map(Reading, last[0])),
            "s",
        ),
        Family(
            "anabranch.epoch.items",
            "gauge",
            "Items of the last epoch",
            tuple(map(Reading, last[1])),
        ),
    ]


def _counter(name: str, text: str, values: Mapping[str, float], label: str) -> Family:
    return Family(f"anabranch.{name}", "counter", text, _points(values, label))


def _gauge(name: str, text: str, values: Mapping[str, float], label: str) -> Family:
    return Family(f"anabranch.{name}", "gauge", text, _points(values, label))


def _points(values: Mapping[str, float], label: str) -> tuple[Reading, ...]:
    return tuple(Reading(value, {label: name}) for name, value in values.items())


def distribute(
    counts_by_ms: Sequence[tuple[float, int]], bounds_s: Sequence[float] = BOUNDS_S
) -> Distribution:
    """Return the distribution of latencies in ms over bounds in seconds.

    >>> distribute([(1.0, 98), (7.0, 2)], [0.001, 0.005, 0.01])
    Distribution(counts=(98, 0, 2, 0), total=0.112)
    """
    edges = [float("-inf"), *bounds_s, float("inf")]
    counts = tuple(
        sum(items for ms, items in counts_by_ms if low < ms / 1000 <= high)
        for low, high in pairwise(edges)
    )
    total = sum(ms / 1000 * items for ms, items in counts_by_ms)
    return Distribution(counts, total)
