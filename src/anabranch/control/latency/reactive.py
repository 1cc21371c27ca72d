"""The regulator of *Autonomic and Latency-Aware Degree of Parallelism Management in SPar*.

Algorithm 1: latency above the constraint suspends replicas, latency below it by more
than a threshold resumes some. The paper's latency is the mean of the items that came
out in the control step, and it has one replicated stage; with several stages, the least
busy one gives up replicas and the busiest one gets them.
"""

from __future__ import annotations

from anabranch.control.goals import Latency
from anabranch.control.latency.decision import (
    Decision,
    Degrees,
    Room,
    describe_degrees,
    ms,
)
from anabranch.metrics.load import Observed


def regulate(
    seen: Observed, degrees: Degrees, goal: Latency, room: Room
) -> Decision | None:
    """Return replicas to suspend or resume after a control step, or None.

    >>> from anabranch.metrics.latency import Latencies, sojourns
    >>> slow = Latencies()
    >>> slow.record(0.3)
    >>> seen = Observed(1.0, (1.0,), 0, sojourns([slow]))
    >>> regulate(seen, {"r0": 4}, Latency(0.2), Room(cores=12)).degrees
    {'r0': 3}
    """
    if not degrees or not seen.sojourns.items:
        return None
    latency_s = seen.sojourns.mean_s
    if latency_s > goal.bound_s:  # latency is too high
        region = min(degrees, key=lambda name: _load(seen, name))
        fewer = max(1, degrees[region] - goal.scaling)
        why = f"mean latency {ms(latency_s)} is above {ms(goal.bound_s)}"
        return _change("suspend", region, fewer, degrees, why)
    if latency_s < goal.bound_s * (1 - goal.threshold):
        region = max(degrees, key=lambda name: _load(seen, name))
        others = sum(degrees.values()) - degrees[region]
        most = max(1, room.for_regulator - others)
        more = max(degrees[region], min(most, degrees[region] + goal.scaling))
        why = (
            f"mean latency {ms(latency_s)} is below {ms(goal.bound_s)} by more than "
            f"{goal.threshold:.0%}"
        )
        return _change("resume", region, more, degrees, why)
    return None


def why_unmet(seen: Observed, degrees: Degrees, goal: Latency) -> str | None:
    """Return why the constraint cannot be kept: there is nothing left to suspend.

    >>> from anabranch.metrics.latency import Latencies, sojourns
    >>> slow = Latencies()
    >>> slow.record(0.3)
    >>> seen = Observed(1.0, (1.0,), 0, sojourns([slow]))
    >>> why_unmet(seen, {"r0": 2}, Latency(0.2))
    >>> why_unmet(seen, {"r0": 1}, Latency(0.2))
    'mean latency is 300 ms, and there are no replicas to suspend'
    """
    latency_s = seen.sojourns.mean_s
    if latency_s <= goal.bound_s or any(degree > 1 for degree in degrees.values()):
        return None
    return f"mean latency is {ms(latency_s)}, and there are no replicas to suspend"


def _load(seen: Observed, region: str) -> float:
    load = seen.regions.get(region)
    return 0.0 if load is None else load.items_per_s / load.capacity_per_s


def _change(
    verb: str, region: str, degree: int, degrees: Degrees, why: str
) -> Decision | None:
    if degree == degrees[region]:
        return None
    return Decision(
        f"{verb}: {describe_degrees({region: degree})}", why, {region: degree}
    )
