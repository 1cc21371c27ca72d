"""The optimizer: profile in, threaded ports out (section 4 of the paper).

It inserts exactly one threaded port in the path of each heavily used thread, such that
the busiest thread afterwards has as little work as possible. A solution that leaves a
thread with a full core of work is none. Its phases:

1. Bottleneck selection finds the threads that need help (section 4.1). Threads that share
   operators depend on each other; groups that share none are solved separately.
2. Solution reduction works on a matrix with a row for each bottleneck thread: the
   operators that are still candidates for its one new thread. An operator in several rows
   is either selected for all of them or removed from all of them. Both are followed, which
   makes a tree; its leaves share nothing undecided.
3. Candidate formation picks one operator for each thread from a leaf. All threads of a
   group depend on each other, so a leaf that leaves one of them without an operator is no
   solution unless it leaves all of them without: a pipeline is as slow as its slowest
   thread.

A prediction (section 3.1) is about the division of work, not about utilization: when a
bottleneck is gone, all threads get more to do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TypeAlias

from anabranch.metrics.pipeline import ThreadLoad, find_sharing


def predict(threads: Sequence[ThreadLoad], port: str) -> dict[str, float]:
    """Return the work of each thread that passes a port, and of the new thread.

    The new thread has the name of the port.

    >>> loads = (ThreadLoad("t0", 0.75, {"o1": 0.5}), ThreadLoad("t1", 1, {"o1": 0.25}))
    >>> predict(loads, "o1")
    {'t0': 0.25, 't1': 0.75, 'o1': 0.75}
    """
    sharing = find_sharing(threads, port)
    work = {load.thread: load.utilization - load.ports[port] for load in sharing}
    work[port] = sum(load.ports[port] for load in sharing)
    return work


def utility(threads: Sequence[ThreadLoad], port: str) -> float:
    """Return the work of the busiest thread after an insertion: less is better.

    >>> utility((ThreadLoad("t0", 0.9, {"o1": 0.6}),), "o1")
    0.6
    """
    return max(predict(threads, port).values())


def select_bottlenecks(
    threads: Sequence[ThreadLoad], beta: float
) -> tuple[ThreadLoad, ...]:
    """Return the threads that are busy for `beta` of the time or more.

    In the paper that is their utilization. If threads share an interpreter, one that
    waits for its lock is not on a core, but all others wait for it.

    >>> loads = ThreadLoad("t0", 0.9, {}), ThreadLoad("t1", 1.0, {})
    >>> [load.thread for load in select_bottlenecks(loads, beta=0.92)]
    ['t1']
    """
    return tuple(load for load in threads if load.wanted >= beta)


def dependent_groups(
    threads: Sequence[ThreadLoad],
) -> tuple[tuple[ThreadLoad, ...], ...]:
    """Return the threads in groups that share operators, directly or not.

    >>> a, b = ThreadLoad("a", 1, {"o1": 0.5, "o2": 0.1}), ThreadLoad("b", 1, {"o3": 1})
    >>> c = ThreadLoad("c", 1, {"o2": 0.3})
    >>> [[load.thread for load in group] for group in dependent_groups((a, b, c))]
    [['a', 'c'], ['b']]
    """
    groups: list[list[ThreadLoad]] = []
    for load in threads:
        near = [group for group in groups if any(_share(load, one) for one in group)]
        joined = [one for group in near for one in group]
        groups = [group for group in groups if group not in near]
        groups.append([*joined, load])
    place = {load.thread: number for number, load in enumerate(threads)}
    ordered = [sorted(group, key=lambda load: place[load.thread]) for group in groups]
    ordered.sort(key=lambda group: place[group[0].thread])
    return tuple(map(tuple, ordered))


def _share(one: ThreadLoad, other: ThreadLoad) -> bool:
    return not one.ports.keys().isdisjoint(other.ports)


def form_candidate(leaf: Matrix, utility: Utility) -> tuple[str, ...] | None:
    """Return the best operator of each row, or None if a row has none left.

    >>> work = {"o1": 0.6, "o2": 0.5, "o3": 0.9}
    >>> rows = (("o1", "o2"), ("o3",))
    >>> form_candidate(Matrix(rows, rows), work.__getitem__)
    ('o2', 'o3')
    >>> form_candidate(Matrix((("o1",), ()), rows), work.__getitem__) is None
    True
    """
    if not all(leaf.rows):
        return None
    return tuple(min(row, key=utility) for row in leaf.rows)


Row: TypeAlias = tuple[str, ...]  # the operators at which a thread may be split
Utility: TypeAlias = Callable[[str], float]  # of an operator: less is better

HOPELESS = 1.0  # a thread with this much work stays a bottleneck


@dataclass(frozen=True)
class Matrix:
    """A part of the solution space; `selected` are the shared operators taken.

    `paths` are the initial rows: they define conflicts.
    """

    rows: tuple[Row, ...]
    paths: tuple[Row, ...]
    selected: frozenset[str] = frozenset()

    def count_shared(self) -> dict[str, int]:
        """Return the undecided operators in several rows, with their number of rows."""
        counts: dict[str, int] = {}
        for row in self.rows:
            for operator in row:
                counts[operator] = counts.get(operator, 0) + 1
        return {
            operator: count
            for operator, count in counts.items()
            if count > 1 and operator not in self.selected
        }

    def select(self, operator: str) -> Matrix:
        """Return the solutions with an operator, and so without others in its rows.

        >>> paths = (("o1", "o2"), ("o2",), ("o1x", "o1"))
        >>> Matrix(paths, paths).select("o2").rows
        (('o2',), ('o2',), ('o1x',))
        """
        beside = {o for path in self.paths if operator in path for o in path}
        rows = tuple(
            (operator,)
            if operator in row
            else tuple(one for one in row if one not in beside)
            for row in self.rows
        )
        return replace(self, rows=rows, selected=self.selected | {operator})

    def remove(self, operator: str) -> Matrix:
        """Return the solutions without an operator.

        >>> paths = (("o1", "o2"), ("o2",))
        >>> Matrix(paths, paths).remove("o2").rows
        (('o1',), ())
        """
        rows = tuple(tuple(one for one in row if one != operator) for row in self.rows)
        return replace(self, rows=rows)


@dataclass
class Search:
    """The configuration of a tree search, and its visited nodes.

    `pruning` drops a matrix with a row that cannot be helped any more; `sorting`
    decides first about the operators that most rows share.
    """

    utility: Utility
    pruning: bool = True
    sorting: bool = True
    nodes: int = field(default=0, init=False)

    def leaves(self, root: Matrix) -> Iterator[Matrix]:
        """Yield the pre-candidates of a matrix, selections before removals."""
        pending = [root]
        while pending:
            matrix = pending.pop()
            self.nodes += 1
            if self.pruning and self._hopeless(matrix):
                continue
            shared = matrix.count_shared()
            if not shared:
                yield matrix
                continue
            operator = next(iter(shared))
            if self.sorting:
                operator = max(shared, key=lambda one: shared[one])
            pending += [matrix.remove(operator), matrix.select(operator)]

    def _hopeless(self, matrix: Matrix) -> bool:
        return any(
            all(self.utility(operator) >= HOPELESS for operator in row)
            for row in matrix.rows
        )


@dataclass(frozen=True)
class Insertion:
    """The result of the optimizer.

    `places` has the place for each thread that is helped; `utility` is the predicted
    work of the busiest of them afterwards, and `nodes` the cost of the search.
    """

    places: Mapping[str, str]
    utility: float
    nodes: int

    @property
    def ports(self) -> frozenset[str]:
        """The operators that get a threaded port."""
        return frozenset(self.places.values())


def choose_ports(
    threads: Sequence[ThreadLoad],
    *,
    beta: float = 0.8,
    excluded: Collection[str] = (),
    pruning: bool = True,
    sorting: bool = True,
) -> Insertion | None:
    """Return where threads should be inserted, or None if that would not help.

    `excluded` operators get no port, but threads that share them still depend on each
    other. `pruning` and `sorting` change the cost of the search, not its result.

    >>> chain = ThreadLoad("t0", 1.0, {"a": 0.9, "b": 0.6, "c": 0.2})
    >>> choose_ports((chain,))
    Insertion(places={'t0': 'b'}, utility=0.6, nodes=1)
    """
    search = Search(cache(lambda port: utility(threads, port)), pruning, sorting)
    places: dict[str, str] = {}
    worst = 0.0
    for group in dependent_groups(select_bottlenecks(threads, beta)):
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
