"""Watches the keys of regions, and moves hot ones to another replica at run time.

Each keyed region with several replicas is checked from time to time. If a replica has
much more load than the others, and does not keep up, some of its buckets of keys move
to others, at a switch.
"""

from __future__ import annotations

import reprlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from anabranch.engines.local.flow import LocalFlow
from anabranch.engines.local.network import table_of
from anabranch.errors import EngineError
from anabranch.plan.plan import Region
from anabranch.runtime.balance import add_up, find_hot_key, is_uneven, rebalance
from anabranch.runtime.split import BUCKETS, bucket_of

LOOK_S = 0.25
FIRST_LOOK_S = 0.05  # a bad initial table should not last
LEAST_ITEMS = 500  # items entered before a region's load is examined


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
            region: tuple(reprlib.repr(key) for where, key in named if where == region)
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
        if replicas == 1:
            return
        counts = self._counts.setdefault(region.name, Counter())
        counts.update(network.take_key_counts(region))
        if counts.total() < LEAST_ITEMS or not self._falls_behind(region):
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

    def _falls_behind(self, region: Region) -> bool:
        """Tell whether a replica of a region has a backlog."""
        counters = self._flow.network.counters()
        inside: Collection[str] = region.operators
        return any(
            any(counter.waiting) for name, counter in counters.items() if name in inside
        )
