"""Watches the keys of regions, and moves hot ones to another replica at run time.

Each keyed region with several replicas is checked from time to time. If a replica has
much more load than the others, and does not keep up, some of its buckets of keys move
to others.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from anabranch.engines.local.flow import LocalFlow
from anabranch.engines.local.network import table_of
from anabranch.errors import EngineError
from anabranch.plan.plan import Region
from anabranch.runtime.keys import add_up, find_hot_key, is_uneven, rebalance
from anabranch.runtime.reprs import shorten
from anabranch.runtime.split import BUCKETS, bucket_of, even_table

LOOK_S = 0.25
FIRST_LOOK_S = 0.05  # a bad initial table should not last
LEAST_ITEMS = 500  # items entered before a region's load is examined
MOST_KEYS = 100_000  # whose items are counted one by one
KEPT = 0.98  # of the load of buckets, from look to look
LEAST_COUNTED = 100  # items, to tell how keys divide the load
MOST_REPLICAS = 64  # for which that is told


def fade(counts: Mapping[Any, int]) -> Counter[Any]:
    """Return half of the counts, without those of rare keys.

    >>> fade({"a": 9, "b": 1})
    Counter({'a': 4})
    """
    return Counter({key: count // 2 for key, count in counts.items() if count > 1})


class SetTable(Protocol):
    """Assigns buckets of a region to other replicas."""

    def __call__(
        self, region: str, table: tuple[int, ...], what: str, why: str, effect: str
    ) -> object: ...


class KeyWatch:
    """The watch of one program."""

    def __init__(
        self,
        flow: LocalFlow,
        set_table: SetTable,
        note: Callable[[str, str, str], object],
    ) -> None:
        self._flow = flow
        self._set_table = set_table
        self._note = note
        self._regions = [one for one in flow.plan.regions if one.key]
        self._counts: dict[str, Counter[Any]] = {}
        self._loads: dict[str, npt.NDArray[np.float64]] = {}  # region -> by bucket
        self._named: set[tuple[str, Any]] = set()
        self._over = threading.Event()

    def start(self) -> None:
        """Start watching, if there is anything to watch."""
        if self._regions:
            name = "anabranch-keys"
            threading.Thread(target=self._watch, name=name, daemon=True).start()

    def stop(self) -> None:
        """Stop watching."""
        self._over.set()

    def find_hot_keys(self) -> dict[str, tuple[str, ...]]:
        """Return the hot keys found, by region."""
        named = sorted(self._named, key=repr)
        return {
            region: tuple(shorten(key) for where, key in named if where == region)
            for region in {where for where, _ in named}
        }

    def _watch(self) -> None:
        wait_s = min(FIRST_LOOK_S, LOOK_S)
        while not self._over.wait(wait_s):
            wait_s = min(2 * wait_s, LOOK_S)
            for region in self._regions:
                try:
                    self.look(region)
                except EngineError:  # it has ended or failed meanwhile
                    return

    def look(self, region: Region) -> None:
        """Check a region, and move some of its keys if that pays off."""
        configuration, network = self._flow.configuration, self._flow.network
        replicas = configuration.degrees.get(region.name, 1)
        if configuration.count_replicas(region.name) == 1:
            return
        counts = self._count(region, network.take_key_counts(region))
        if (
            replicas == 1
            or counts.total() < LEAST_ITEMS
            or not self._falls_behind(region)
        ):
            return
        table = table_of(configuration, region.name)
        self._counts[region.name] = fade(counts)
        buckets = list(map(bucket_of, counts))
        loads = add_up(list(counts.values()), buckets, BUCKETS)
        if not is_uneven(loads, table, replicas):
            return
        better = rebalance(loads, table, replicas)
        hot = find_hot_key(counts, counts.total(), replicas)
        if better is not None:
            self._set_table(region.name, better.table, *better.describe(region.name))
        elif hot is not None and (region.name, hot.key) not in self._named:
            self._named.add((region.name, hot.key))
            self._note(*hot.describe(region.name, replicas))

    def _count(self, region: Region, new: Counter[Any]) -> Counter[Any]:
        """Add the items of keys; return those of all frequent keys so far."""
        counts = self._counts.setdefault(region.name, Counter())
        counts.update(new)
        if len(counts) > MOST_KEYS:
            counts = self._counts[region.name] = fade(counts)
        loads = self._loads.setdefault(region.name, np.zeros(BUCKETS))
        loads *= KEPT
        for key, count in new.items():
            loads[bucket_of(key)] += count
        return counts

    def find_shares(self, region: str) -> dict[int, float]:
        """Return the busiest replica's part of the recent items, by degree.

        Empty if too few were counted to tell.
        """
        loads = self._loads.get(region)
        total = 0.0 if loads is None else float(loads.sum())
        if loads is None or total < LEAST_COUNTED:
            return {}
        tables = ((d, np.array(even_table(d))) for d in range(1, MOST_REPLICAS + 1))
        return {d: float(np.bincount(t, loads).max()) / total for d, t in tables}

    def _falls_behind(self, region: Region) -> bool:
        """Tell whether a replica of a region has a backlog."""
        counters = self._flow.network.counters()
        inside: Collection[str] = region.operators
        return any(
            any(counter.waiting) for name, counter in counters.items() if name in inside
        )
