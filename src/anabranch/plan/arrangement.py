"""What may change while a program runs: where threads are, and how wide regions are.

The control layer decides about it, and engines put it into effect.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Arrangement:
    """Operators with a threaded port, and regions that have more than one channel.

    >>> Arrangement().with_ports({"b"}).with_degree("r0", 2)
    Arrangement(ports=frozenset({'b'}), degrees=(('r0', 2),))
    """

    ports: frozenset[str] = frozenset()
    degrees: tuple[tuple[str, int], ...] = ()  # by region; 1 where nothing is said

    def degree(self, region: str) -> int:
        """Return how many channels a region has."""
        return dict(self.degrees).get(region, 1)

    def with_ports(self, ports: Collection[str]) -> Arrangement:
        """Return the arrangement with more threaded ports."""
        return replace(self, ports=self.ports.union(ports))

    def without_ports(self, ports: Collection[str]) -> Arrangement:
        """Return the arrangement with fewer threaded ports."""
        return replace(self, ports=self.ports.difference(ports))

    def with_degree(self, region: str, degree: int) -> Arrangement:
        """Return the arrangement with another number of channels for a region."""
        degrees = {**dict(self.degrees), region: degree}
        kept = sorted((name, n) for name, n in degrees.items() if n > 1)
        return replace(self, degrees=tuple(kept))

    def __str__(self) -> str:
        ports = ", ".join(sorted(self.ports)) or "none"
        wide = "".join(f"; {n} channels for {name}" for name, n in self.degrees)
        return f"threaded ports: {ports}{wide}"
