"""What the controller needs of whatever runs the program; engines satisfy it.

All the waiting is behind this protocol, so that the same controller adapts a program
in real time, epoch by epoch, or in a simulator that takes no time at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from anabranch.metrics.load import Profile
from anabranch.metrics.rates import Rates
from anabranch.plan.plan import Arrangement


class Actuator(Protocol):
    """A running program that can be watched and rearranged.

    None instead of an answer means that the program has ended.
    """

    @property
    def now_s(self) -> float:
        """How long the program has run."""

    @property
    def cores(self) -> int:
        """How many cores it may use."""

    @property
    def places(self) -> frozenset[str]:
        """The operators that can have a threaded port."""

    @property
    def regions(self) -> Mapping[str, tuple[str, ...]]:
        """The regions that can have several replicas, with their operators."""

    @property
    def producers(self) -> Mapping[str, tuple[str, ...]]:
        """The producers of each operator; empty where ports are not to be moved."""

    @property
    def arrangement(self) -> Arrangement:
        """How it is arranged now."""

    def arrange(self, arrangement: Arrangement) -> str | None:
        """Put an arrangement into effect; return how that went, in words."""

    def profile(self) -> Profile | None:
        """Watch its threads for a while."""

    def rates(self) -> Rates | None:
        """Watch its throughput for a while, without a profiler."""

    def glance(self) -> tuple[Rates, Profile] | None:
        """Watch both for a moment, where a moment tells something; else None."""
