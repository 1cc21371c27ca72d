"""What a program is tuned for while it runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from anabranch.control.settings import Settings

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|min)\s*")


@dataclass(frozen=True)
class Throughput:
    """As many items a second as possible."""

    settings: Settings = field(default_factory=Settings)


@dataclass(frozen=True)
class Latency:
    """A share `quantile` of the items within `bound_s`.

    `threshold`, `scaling` and `step_s` are those of the regulator of the paper, whose
    latency is the mean of a control step; `replicas` is the most that a program may have
    in all, where the number of cores is not what bounds it.
    """

    bound_s: float
    quantile: float = 0.99
    policy: Literal["predictive", "reactive"] = "predictive"
    threshold: float = 0.2
    scaling: int = 1
    step_s: float = 1.0
    replicas: int | None = None


def throughput() -> Throughput:
    """Tune a program for as many items a second as possible; the default.

    Threads and replicas are added while the program runs, as long as each of them is
    seen to help (see `Job.history`).

    >>> import anabranch as ab
    >>> sink = ab.from_iterable([1, 2]).map(abs).to_list()
    >>> ab.run(sink, on="local", goal=ab.throughput()).status
    'finished'
    """
    return Throughput()


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
    follows from what an item costs, how many arrive and how many wait; on Spark also how
    many items an epoch admits. `replicas` is the most in all (else the cores set it).

    `policy="reactive"` is the regulator of the paper (its Algorithm 1): in every control
    `step` the mean latency is compared with the bound; above it `scaling` replicas are
    suspended, and below it by more than `threshold` so many are woken.

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
        raise ValueError(msg)
    if policy not in ("predictive", "reactive"):
        msg = f"policy must be 'predictive' or 'reactive'; got {policy!r}"
        raise ValueError(msg)
    if not 0 <= threshold < 1:
        msg = f"threshold must be a share of the bound, such as 0.2; got {threshold}"
        raise ValueError(msg)
    for name, value in (("scaling", scaling), ("replicas", replicas)):
        if value is not None and value < 1:
            msg = f"{name} must be at least 1; got {value}"
            raise ValueError(msg)
    return Latency(bound_s, quantile, policy, threshold, scaling, step_s, replicas)


def seconds_of(duration: str | float) -> float:
    """Return a duration in seconds.

    >>> seconds_of("200 ms"), seconds_of("1.5s"), seconds_of(2)
    (0.2, 1.5, 2.0)
    """
    found = _DURATION.fullmatch(duration) if isinstance(duration, str) else None
    if found is not None:
        seconds = float(found[1]) * _UNITS[found[2]]
    elif isinstance(duration, str):
        msg = f"a duration is a number with us, ms, s or min; got {duration!r}"
        raise ValueError(msg)
    else:
        seconds = float(duration)
    if seconds <= 0:
        msg = f"a duration must be positive; got {duration!r}"
        raise ValueError(msg)
    return seconds
