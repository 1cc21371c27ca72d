"""What was tried in vain, and is not tried again (section 5)."""

from __future__ import annotations

from collections.abc import Collection

from anabranch.plan.arrangement import Arrangement


class Blacklist:
    """Places that did not help: for good, or only in the arrangement they were tried in.

    Per arrangement the controller is less likely to get stuck at a local optimum, since
    a port may help once others are there; but it tries more, and remembers more.

    >>> listed, bare = Blacklist(per_arrangement=True), Arrangement()
    >>> listed.add({"b"}, bare)
    >>> sorted(listed.at(bare)), sorted(listed.at(bare.with_ports({"a"})))
    (['b'], [])
    """

    def __init__(self, *, per_arrangement: bool = False) -> None:
        self._per_arrangement = per_arrangement
        self._listed: dict[Arrangement | None, frozenset[str]] = {}

    def at(self, arrangement: Arrangement) -> frozenset[str]:
        """Return what is not to be tried in an arrangement."""
        return self._listed.get(self._key(arrangement), frozenset())

    def add(self, places: Collection[str], arrangement: Arrangement) -> None:
        """Note what did not help when it was tried in an arrangement."""
        self._listed[self._key(arrangement)] = self.at(arrangement).union(places)

    def clear(self) -> None:
        """Forget everything: the workload is another one."""
        self._listed.clear()

    def _key(self, arrangement: Arrangement) -> Arrangement | None:
        return arrangement if self._per_arrangement else None
