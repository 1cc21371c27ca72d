"""Candidate formation: from a leaf of the tree to one operator for each thread.

The third phase of the optimizer (section 4.1). All threads of a group depend on each
other, so a leaf that leaves one of them without an operator is no solution unless it
leaves all of them without: a pipeline is as slow as the thread that was not helped.
"""

from __future__ import annotations

from anabranch.control.reduction import Matrix, Utility


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
