"""The optimizer: profile in, threaded ports out (section 4 of the paper).

It inserts one and only one threaded port in the path of each heavily used thread, such
that the busiest thread afterwards has as little work as possible. A solution after
which a thread would still have all the work that a core can do is none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache

from anabranch.control.bottlenecks import dependent_groups, select_bottlenecks
from anabranch.control.candidates import form_candidate
from anabranch.control.reduction import HOPELESS, Matrix, Search
from anabranch.control.utility import utility
from anabranch.metrics.load import Profile, ThreadLoad


@dataclass(frozen=True)
class Insertion:
    """What the optimizer found.

    `places` tells for each thread that is helped where; `utility` is the predicted
    work of the busiest of them afterwards, and `nodes` what the search cost.
    """

    places: Mapping[str, str]
    utility: float
    nodes: int

    @property
    def ports(self) -> frozenset[str]:
        """The operators that get a threaded port."""
        return frozenset(self.places.values())


def choose_ports(
    profile: Profile,
    *,
    beta: float = 0.8,
    excluded: Collection[str] = (),
    pruning: bool = True,
    sorting: bool = True,
) -> Insertion | None:
    """Return where threads should be inserted, or None if that would not help.

    `excluded` operators get no port, but threads that share them still depend on each
    other. `pruning` and `sorting` change what the search costs, not what is found.

    >>> chain = ThreadLoad("t0", 1.0, {"a": 0.9, "b": 0.6, "c": 0.2})
    >>> choose_ports(Profile((chain,)))
    Insertion(places={'t0': 'b'}, utility=0.6, nodes=1)
    """
    search = Search(cache(lambda port: utility(profile, port)), pruning, sorting)
    places: dict[str, str] = {}
    worst = 0.0
    for group in dependent_groups(select_bottlenecks(profile, beta)):
        best = _best_candidate(group, frozenset(excluded), search)
        if best is not None:
            places.update(zip((load.thread for load in group), best, strict=True))
            worst = max(worst, *map(search.utility, best))
    return Insertion(places, worst, search.nodes) if places else None


def _best_candidate(
    group: tuple[ThreadLoad, ...], excluded: frozenset[str], search: Search
) -> tuple[str, ...] | None:
    """Return the candidate of a group with the least aggregate utility: selection."""
    paths = tuple(
        tuple(
            port for port, use in load.ports.items() if use > 0 and port not in excluded
        )
        for load in group
    )
    best, least = None, HOPELESS
    for leaf in search.leaves(Matrix(paths, paths)):
        candidate = form_candidate(leaf, search.utility)
        if candidate is None:
            continue
        worst = max(map(search.utility, candidate))
        if worst < least:
            best, least = candidate, worst
    return best
