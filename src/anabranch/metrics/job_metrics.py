"""The measurements of a job as frozen data: `Job.metrics()`, its adaptations, its epochs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from anabranch.logs import log, logger_of
from anabranch.metrics.latency import LatencySummary

_LOGGER = logger_of("control")
MOST = 2_000  # kept; then the older half is dropped


@dataclass(frozen=True)
class Adaptation:
    """A change of a running job: its time, the change, the reason and the measured effect."""

    at_s: float
    what: str
    why: str
    effect: str


OnDecision: TypeAlias = Callable[[Adaptation], object]


class Journal:
    """The list of adaptations of a job; any thread may read it.

    `told` is called with each adaptation as soon as it is decided. If it fails, that is
    logged and the job continues.

    >>> seen = []
    >>> journal = Journal(lambda change: seen.append(change.what))
    >>> first = journal.note(Adaptation(1.0, "2 replicas of r0", "a backlog", ""))
    >>> journal.amend(first, "99% within 20 ms")
    >>> seen, journal[-1].effect, journal.decided
    (['2 replicas of r0'], '99% within 20 ms', 1)
    """

    def __init__(self, told: OnDecision | None = None) -> None:
        self.decided = 0  # so far, including dropped ones
        self._kept: list[Adaptation] = []
        self._told = told
        self._lock = threading.Lock()

    def note(self, change: Adaptation) -> Adaptation:
        """Add an adaptation and pass it to the listener."""
        with self._lock:
            if len(self._kept) >= MOST:
                del self._kept[: MOST // 2]
            self._kept.append(change)
            self.decided += 1
        log(_LOGGER, logging.INFO, "adaptation", **asdict(change))
        if self._told is not None:
            try:
                self._told(change)
            except Exception:
                _LOGGER.exception("on_decision failed; the job continues")
        return change

    def amend(self, change: Adaptation, effect: str) -> None:
        """Record the measured effect of an adaptation."""
        made = replace(change, effect=effect)
        with self._lock:
            for place in range(len(self._kept) - 1, -1, -1):
                if self._kept[place] is change:
                    self._kept[place] = made
                    break
        log(_LOGGER, logging.INFO, "effect", **asdict(made))

    def __iter__(self) -> Iterator[Adaptation]:
        with self._lock:
            return iter(tuple(self._kept))

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, place: int) -> Adaptation:
        return self._kept[place]


@dataclass(frozen=True)
class EpochTrace:
    """An epoch: its number in this run, when it began, and how long its phases took.

    `began_s` is in seconds since 1970. The phases follow one another: in "read" the
    driver finds the rows, in "run" Spark runs the tasks, "commit" records the result.
    """

    number: int
    began_s: float
    phases: tuple[tuple[str, float], ...]
    items: int

    @property
    def seconds(self) -> float:
        """The duration of all phases."""
        return sum(seconds for _, seconds in self.phases)


OnEpoch: TypeAlias = Callable[[EpochTrace], object]


def ignore(trace: EpochTrace) -> None:
    """Do nothing."""


RunsOn: TypeAlias = Literal["sequential", "local", "spark"]


@dataclass(frozen=True)
class ElementCounters:
    """The replicas of an element on the local engine; each tuple has one number each.

    `received` items have entered a replica, `waiting` are in its queue, and `limit` is
    the size of that queue.
    """

    replicas: int
    received: tuple[int, ...]
    waiting: tuple[int, ...]
    limit: tuple[int, ...]


@dataclass(frozen=True)
class OperatorLoad:
    """The load of an operator, measured for its element, which fused operators share.

    `items` have entered the element, and its replicas have worked for `work_s` seconds
    in all, both since the element was last rearranged. `skew` is the work of the
    busiest replica divided by the mean. `waiting` items are in the queues before it,
    which are `full` to that share: a full queue slows down its producers. `keys` is the
    number of keys in its state and `state_bytes` its disk space on this host.
    """

    element: str
    replicas: int = 1
    items: int | None = None
    work_s: float = 0.0
    skew: float = 1.0
    waiting: int = 0
    full: float = 0.0
    keys: int | None = None
    state_bytes: int | None = None


def find_skew(work: Sequence[float]) -> float:
    """Return the maximum of some loads divided by their mean; 1 if they are equal.

    >>> find_skew([3.0, 1.0]), find_skew([0.0, 0.0]), find_skew([])
    (1.5, 1.0, 1.0)
    """
    total = sum(work)
    return round(max(work) * len(work) / total, 3) if total > 0 else 1.0


@dataclass(frozen=True)
class LatencyStep:
    """A step of the latency controller: its measurements, and the replicas."""

    at_s: float
    mean_ms: float
    quantile_ms: float  # at the goal's quantile
    items: int  # delivered since the step before
    arrived_per_s: float
    backlog: float
    replicas: Mapping[str, int]  # by region


@dataclass(frozen=True)
class Metrics:
    """The measurements of a job so far.

    | attribute | meaning |
    | --- | --- |
    | `engine` | the engine that runs the job: "sequential", "local" or "spark" |
    | `status` | "running", "finished", "stopped" or "failed" |
    | `elapsed_s` | seconds since the start |
    | `read`, `delivered` | items by source, and by sink |
    | `failed` | items that were left out since an operator failed on them, by operator |
    | `failures` | the last 20 of these failures, each as a line of text |
    | `items_per_s` | items read per second |

    On the local engine and on Spark:

    | attribute | meaning |
    | --- | --- |
    | `latency` | percentiles of the latency of all items, from their birth (see docs/latency.md) |
    | `latency_from_reading` | the same from when the source was read |
    | `recent_latency`, `recent_latency_from_reading` | the same of the last minute |
    | `latency_counts` | pairs of a latency in ms, from birth, and the number of its items |
    | `backlog` | items waiting at live sources and, on *local*, between threads; None if no source is live |
    | `degrees` | replicas by parallel region |
    | `load` | by operator: items, time at work, skew, queue and state (`OperatorLoad`) |
    | `shares` | by operator, its share of the work of the program when it was last profiled; without a latency goal |
    | `hot_keys` | by region, keys with more items than one replica's share |
    | `steps` | with a latency goal, the last 1,000 steps of its controller |

    On the local engine:

    | attribute | meaning |
    | --- | --- |
    | `elements` | counters by element |
    | `ports` | threaded ports, as "operator[input]" |

    On Spark:

    | attribute | meaning |
    | --- | --- |
    | `epochs` | epochs that this run has completed |
    | `epoch_s`, `epoch_items` | duration and items of the last 1,000 of them |
    | `epoch_rows`, `epoch_done` | rows of the running epoch, and items of it that each operator has processed so far |
    | `start_s` | seconds until the first epoch could begin |
    | `cuts` | operators before which a task is divided between workers |
    | `spark_ui` | the address of Spark's own UI, if it has one |
    | `in_columns` | by operator that can run in columns, the share of its items that did |
    | `buckets_opened`, `buckets_restored` | buckets of states that epochs have opened, and how many of them had to be restored since their host did not have them |

    A measurement that an engine does not have keeps its default.

    >>> import anabranch as ab
    >>> job = ab.run(ab.from_iterable([1, 2]).to_list(), on="sequential")
    >>> job.metrics().delivered
    {'to_list': 2}
    >>> job.metrics().to_dict()["read"]
    {'from_iterable': 2}
    """

    engine: RunsOn
    status: str
    elapsed_s: float
    read: Mapping[str, int] = field(default_factory=dict)
    delivered: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    items_per_s: float = 0.0
    latency: LatencySummary = field(default_factory=LatencySummary)
    latency_from_reading: LatencySummary = field(default_factory=LatencySummary)
    recent_latency: LatencySummary = field(default_factory=LatencySummary)
    recent_latency_from_reading: LatencySummary = field(default_factory=LatencySummary)
    latency_counts: tuple[tuple[float, int], ...] = ()
    degrees: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[LatencyStep, ...] = ()
    elements: Mapping[str, ElementCounters] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
    epochs: int = 0
    epoch_s: tuple[float, ...] = ()
    epoch_items: tuple[int, ...] = ()
    epoch_rows: int = 0
    epoch_done: Mapping[str, int] = field(default_factory=dict)
    start_s: float = 0.0
    in_columns: Mapping[str, float] = field(default_factory=dict)
    backlog: int | None = None
    cuts: tuple[str, ...] = ()
    buckets_opened: int = 0
    buckets_restored: int = 0
    load: Mapping[str, OperatorLoad] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    hot_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    spark_ui: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the measurements as plain data, ready for JSON."""
        return asdict(self)
