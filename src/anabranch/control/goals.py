"""The goals of a running program's controller, and its settings."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import Literal, Protocol

from anabranch.errors import ArgumentError
from anabranch.operators.clock import Duration, duration_of


@dataclass(frozen=True)
class ControlSettings:
    """The thresholds of the controller: when it acts, and which gain it demands.

    `beta` is how busy a thread must be to need help, and `alpha` the share of ports
    that may be rejected before no more are tried. A change is kept if it gains more
    than `least_gain` and more than `sureness` standard errors; an uncertain gain is
    measured up to `measurements` times. A change that promises less than
    `least_promise` is not tried, nor is the removal of a replica if that may cost more
    than `most_risk`. After it has settled, `patience` consecutive measurements that
    differ by more than `shift` resume tuning; one in `rounds` of them is a profile. If
    an operator blocks, for example in a call to a server, a region gets up to
    `most_replicas`, whatever the number of cores.
    """

    beta: float = 0.8
    alpha: float = 0.1
    least_gain: float = 0.03
    least_promise: float = 0.05
    least_free_cores: float = 0.2
    most_risk: float = 0.1
    sureness: float = 3.0
    measurements: int = 3
    shift: float = 0.25
    patience: int = 2
    rounds: int = 4
    most_replicas: int = 64
    reject_per_arrangement: bool = False
    pruning: bool = True
    sorting: bool = True


@dataclass(frozen=True)
class Throughput:
    """Maximize items per second."""

    settings: ControlSettings = field(default_factory=ControlSettings)


@dataclass(frozen=True)
class Latency:
    """Keep a share `quantile` of the items within `bound_s`.

    `threshold`, `scaling` and `step_s` are those of the paper's regulator, whose
    latency is the mean of a control step; `replicas` is the maximum for the whole
    program, if the number of cores is not the limit.
    """

    bound_s: float
    quantile: float = 0.99
    policy: Literal["predictive", "reactive"] = "predictive"
    threshold: float = 0.2
    scaling: int = 1
    step_s: float = 1.0
    replicas: int | None = None


def throughput(
    *, alpha: float = 0.1, beta: float = 0.8, replicas: int = 64
) -> Throughput:
    """Tune a program for as many items per second as possible; the default.

    Threads and replicas are added while the program runs, as long as each is measured
    to help (see `Job.history`). The names are the paper's: a thread that is busy for a
    share `beta` of the time needs help, and when a share `alpha` of the ports has been
    tried in vain, no more are tried. A region whose operators block, for example in a
    call to a server, gets as many `replicas` as help, up to this limit.

    >>> import anabranch as ab
    >>> sink = ab.from_iterable([1, 2]).map(abs).to_list()
    >>> ab.run(sink, on="local", goal=ab.throughput(beta=0.9)).status
    'finished'
    """
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 < value <= 1:
            msg = f"{name} must be a share above 0 and up to 1; got {value}"
            raise ArgumentError(msg)
    if replicas < 1:
        msg = f"replicas must be at least 1; got {replicas}"
        raise ArgumentError(msg)
    settings = ControlSettings(beta=beta, alpha=alpha, most_replicas=replicas)
    return Throughput(settings)


def latency(
    bound: str | float,
    *,
    quantile: float = 0.99,
    policy: Literal["predictive", "reactive"] = "predictive",
    threshold: float = 0.2,
    scaling: int = 1,
    step: str | float = 1.0,
    replicas: int | None = None,
) -> Latency:
    """Keep a share `quantile` of the items within a bound, with few replicas.

    The bound is text with a unit, such as "200 ms", or seconds. The number of replicas
    follows from the cost of an item, the arrival rate and the backlog; on Spark also
    the number of items an epoch admits. `replicas` is the maximum for the whole program
    (by default the cores limit it).

    `policy="reactive"` is the regulator of the paper (its Algorithm 1): in every
    control `step` the mean latency is compared with the bound; above it `scaling`
    replicas are suspended, and below it by more than `threshold` so many are resumed.

    >>> import anabranch as ab
    >>> ab.latency("200 ms").bound_s
    0.2
    >>> sink = ab.from_iterable([1, 2]).map(abs).to_list()
    >>> ab.run(sink, on="local", goal=ab.latency("50 ms")).status
    'finished'
    """
    bound_s, step_s = seconds_of(bound), seconds_of(step)
    if not 0 < quantile < 1:
        msg = f"quantile must lie between 0 and 1, such as 0.99; got {quantile}"
        raise ArgumentError(msg)
    if policy not in ("predictive", "reactive"):
        msg = f"policy must be 'predictive' or 'reactive'; got {policy!r}"
        raise ArgumentError(msg)
    if not 0 <= threshold < 1:
        msg = f"threshold must be a share of the bound, such as 0.2; got {threshold}"
        raise ArgumentError(msg)
    for name, value in (("scaling", scaling), ("replicas", replicas)):
        if value is not None and value < 1:
            msg = f"{name} must be at least 1; got {value}"
            raise ArgumentError(msg)
    return Latency(bound_s, quantile, policy, threshold, scaling, step_s, replicas)


def seconds_of(duration: str | Duration) -> float:
    """Return a duration in seconds.

    >>> seconds_of("200 ms"), seconds_of("2 h"), seconds_of(2)
    (0.2, 7200.0, 2.0)
    """
    given = duration_of(duration)
    if isinstance(given, dt.timedelta):
        given = given.total_seconds()
    seconds = float(given)
    if seconds <= 0:
        msg = f"a duration must be positive; got {duration!r}"
        raise ArgumentError(msg)
    return seconds


class Observable(Protocol):
    """A running program, as every controller sees it."""

    @property
    def now_s(self) -> float:
        """How long the program has run."""

    @property
    def cores(self) -> int:
        """The number of cores it may use."""
