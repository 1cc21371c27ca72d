"""What can be changed while a program runs: threaded ports and the width of regions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.graph.graph import Input

EPOCH = 10  # items for each channel between two pulses; the default of the paper


@dataclass(frozen=True)
class Configuration:
    """Where threads are, and how wide regions are (1 where nothing is said)."""

    ports: frozenset[Input] = frozenset()
    degrees: Mapping[str, int] = field(default_factory=dict)
    tables: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    epoch: int = EPOCH
    batch: int | None = None  # items at a time; otherwise by their cost and size
    fission: int = 1  # threads that may share the firings of a compiled operator

    def with_port(self, port: Input) -> Configuration:
        """Return the configuration with one more threaded port."""
        return replace(self, ports=self.ports | {port})

    def without_port(self, port: Input) -> Configuration:
        """Return the configuration with one threaded port less."""
        return replace(self, ports=self.ports - {port})

    def with_degree(self, region: str, degree: int) -> Configuration:
        """Return the configuration with a region that has so many channels."""
        tables = {name: t for name, t in self.tables.items() if name != region}
        return replace(self, degrees={**self.degrees, region: degree}, tables=tables)

    def with_table(self, region: str, table: tuple[int, ...]) -> Configuration:
        """Return the configuration with another channel for some buckets."""
        return replace(self, tables={**self.tables, region: table})
