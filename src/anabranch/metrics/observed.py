"""What a control step has seen of a program: load, latency, and how busy regions are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from anabranch.metrics.latency import NO_SOJOURNS, Sojourns


@dataclass(frozen=True)
class RegionLoad:
    """A region: `degree` replicas that each take `service_s` for an item.

    `items_per_s` came in, `per_item` for each item of the sources, and `share` of the
    work was the busiest replica's. A region that is one thread with others around it may
    only tell what they take together.
    """

    degree: int
    service_s: float
    items_per_s: float
    share: float = 0.0
    per_item: float = 1.0

    @property
    def capacity_per_s(self) -> float:
        """How many items a second it could do at most, as it is.

        >>> RegionLoad(degree=4, service_s=0.02, items_per_s=50).capacity_per_s
        200.0
        """
        if self.service_s <= 0:
            return float("inf")
        return 1 / (self.service_s * max(self.share, 1 / self.degree))


@dataclass(frozen=True)
class Epoch:
    """An epoch that has run: its items, how long it took, and with which degree.

    `work_s` is what all replicas did for the items, and `longest_s` how long the tasks
    took that the epoch had to wait for, one level after the other.
    """

    items: int
    seconds: float
    degree: int
    work_s: float = 0.0
    longest_s: float = 0.0


@dataclass(frozen=True)
class Observed:
    """What was seen in one control step.

    `arrivals` are items a second that came to the sources, in equal parts of the step;
    `backlog` is how many have arrived and wait. A `closed` program has sources that are
    read as fast as it can: then arrivals are what it could do. A step that was `alarmed`
    ended early, since the load rose beyond what the program can do. `others_busy` is how many
    threads' time goes into what is not replicated, `others_s` what that is for an item.
    """

    seconds: float
    arrivals: tuple[float, ...]
    backlog: float
    sojourns: Sojourns = NO_SOJOURNS
    regions: Mapping[str, RegionLoad] = field(default_factory=dict)
    others_busy: float = 0.0
    others_s: float = 0.0
    closed: bool = False
    alarmed: bool = False
    epochs: tuple[Epoch, ...] = ()

    @property
    def arrived_per_s(self) -> float:
        """How many items a second arrived on average."""
        return sum(self.arrivals) / max(1, len(self.arrivals))

    @property
    def latest_per_s(self) -> float:
        """How many items a second arrived in the later half of the step.

        >>> Observed(1.0, (10.0, 10.0, 30.0, 30.0), backlog=0).latest_per_s
        30.0
        """
        if self.alarmed:
            return self.arrivals[-1]
        half = self.arrivals[len(self.arrivals) // 2 :]
        return sum(half) / max(1, len(half))
