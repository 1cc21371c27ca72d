"""Move or remove a threaded port where another placement divides the work better.

Ports are inserted one step after the other, and the first steps do not know the later
ones: two ports that were best one by one need not be the best two. When nothing is left
to add, the profile knows what each operator costs, so that every placement that differs
in one port can be compared by what its busiest core would have to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from anabranch.control.throughput.model import estimate_busiest_core
from anabranch.metrics.load import Profile

Producers = Mapping[str, tuple[str, ...]]  # of each operator, producers first


def find_better_placement(
    profile: Profile,
    ports: frozenset[str],
    places: Collection[str],
    producers: Producers,
    cores: int,
) -> Iterator[tuple[float, str, str | None]]:
    """Return ports that could go elsewhere or away (None), the most promising first.

    With each comes how many times the throughput it promises.

    >>> from anabranch.metrics.load import ThreadLoad
    >>> heavy = ThreadLoad("a", 1.0, {}, {"a": 0.6, "b": 0.4})
    >>> profile = Profile((heavy, ThreadLoad("c", 0.1, {}, {"c": 0.1})))
    >>> chain = {"a": (), "b": ("a",), "c": ("b",)}
    >>> [(round(gain, 2), *rest) for gain, *rest in
    ...     find_better_placement(profile, frozenset("c"), "bc", chain, cores=2)]
    [(1.67, 'c', 'b')]
    """
    work: dict[str, float] = {}
    for load in profile.threads:
        for operator, use in load.own.items():
            work[operator] = work.get(operator, 0.0) + use

    def busiest(placed: frozenset[str]) -> float:
        loads = share_out(work, placed, producers)
        return estimate_busiest_core(sorted(loads.values(), reverse=True), cores)

    if not work or not ports:
        return iter(())
    now = busiest(ports)
    found: list[tuple[float, str, str | None]] = []
    for port in sorted(ports):
        rest = ports - {port}
        if len(ports) >= cores:  # one thread more than cores, or several
            found.append((now / busiest(rest), port, None))
        found += [
            (now / busiest(rest | {place}), port, place)
            for place in sorted(set(places) - ports)
        ]
    better = [one for one in found if one[0] > 1]
    return iter(sorted(better, key=lambda one: (-one[0], one[1], one[2] or "")))


def share_out(
    work: Mapping[str, float], ports: frozenset[str], producers: Producers
) -> dict[str, float]:
    """Return what each thread would have to do, by the operator that it begins with.

    >>> chain = {"a": (), "b": ("a",), "c": ("b",)}
    >>> share_out({"a": 1.0, "b": 2.0, "c": 3.0}, frozenset("c"), chain)
    {'a': 3.0, 'c': 3.0}
    """
    thread_of: dict[str, str] = {}
    loads: dict[str, float] = {}
    for operator, before in producers.items():
        own = operator in ports or not before
        thread = operator if own else thread_of[before[0]]
        thread_of[operator] = thread
        loads[thread] = loads.get(thread, 0.0) + work.get(operator, 0.0)
    return loads
