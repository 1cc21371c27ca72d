"""Solution reduction: selection and removal of shared operators (section 4.1).

A matrix has one row for each bottleneck thread, with the operators that are still
possible places for its one new thread. An operator in several rows is either selected,
and is then the choice of all its rows, or removed from all of them. Both ways are
followed, which makes a tree; its leaves share nothing that is undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

Row: TypeAlias = tuple[str, ...]  # the operators that a thread may be split at
Utility: TypeAlias = Callable[[str], float]  # of an operator: less is better

HOPELESS = 1.0  # a thread with so much work stays a bottleneck


@dataclass(frozen=True)
class Matrix:
    """A part of the space of solutions; `selected` are the shared operators taken.

    `paths` are the rows that the search began with: what rules out what.
    """

    rows: tuple[Row, ...]
    paths: tuple[Row, ...]
    selected: frozenset[str] = frozenset()

    def shared(self) -> dict[str, int]:
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
        """Return the solutions with an operator, so without others in its rows.

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
    """How a tree is searched, and how many of its nodes have been visited.

    `pruning` gives up a matrix with a row that cannot be helped any more; `sorting`
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
            shared = matrix.shared()
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
