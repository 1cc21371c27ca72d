"""Remember bursts: a load that came for a short while may come again.

A burst is a load of more than twice the usual one that is over within some control steps;
one that stays is the usual load from then on. For a stated time after a burst, replicas
that it would need are not given back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

HIGH = 2.0  # times the usual load
BRIEF = 6  # control steps that a burst lasts at most
KEPT = 30  # control steps for which room is kept for another one
LEARNT = 0.3  # how much a step counts for the usual load


@dataclass(frozen=True)
class Bursts:
    """The usual load; since when it is high, and how high; the last burst."""

    usual: float | None = None
    lasting: int = 0
    high: float = 0.0
    burst: float = 0.0
    since: int = KEPT + 1  # control steps since the last burst

    @property
    def expected(self) -> float:
        """The load that there should be room for; 0: no burst of late."""
        return self.burst if self.since <= KEPT else 0.0


def learn_bursts(before: Bursts, rate: float) -> Bursts:
    """Return what is known after a control step with a load.

    >>> known = Bursts()
    >>> for rate in (10, 10, 100, 100, 10):
    ...     known = learn_bursts(known, rate)
    >>> known.expected
    100
    >>> for rate in [10] * 29:
    ...     known = learn_bursts(known, rate)
    >>> known.expected, learn_bursts(known, 10).expected
    (100, 0.0)
    """
    known = replace(before, since=before.since + 1)
    if known.usual is None:
        return replace(known, usual=rate)
    if rate > HIGH * known.usual:
        lasting, high = known.lasting + 1, max(known.high, rate)
        if lasting > BRIEF:  # it has come to stay
            return replace(known, usual=rate, lasting=0, high=0.0)
        return replace(known, lasting=lasting, high=high)
    if known.lasting:
        burst = max(known.high, known.expected)
        known = replace(known, lasting=0, high=0.0, burst=burst, since=1)
    usual = known.usual or 0.0
    return replace(known, usual=usual + LEARNT * (rate - usual))
