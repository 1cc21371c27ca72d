"""Whose turn it is: the arithmetic of round robin, over whole batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np

from anabranch.runtime.compiled.arrays import Array


class Turns:
    """Who has his turn when: `weights[i]` times in a row branch i, and around."""

    def __init__(self, weights: Sequence[int]) -> None:
        self.weights = tuple(weights)
        self._cycle = np.repeat(np.arange(len(weights)), weights)
        self._first = [0, *accumulate(weights)]

    def place(self, branch: int, left: int) -> int:
        """Return where in the cycle a branch stands that has so many turns left.

        >>> Turns([2, 1]).place(0, 1)
        1
        """
        return self._first[branch] + self.weights[branch] - left

    def at(self, place: int) -> tuple[int, int]:
        """Return whose turn a place is, and how many he has left with it.

        >>> Turns([2, 1]).at(3)
        (0, 2)
        """
        place %= len(self._cycle)
        branch = int(self._cycle[place])
        return branch, self.weights[branch] - (place - self._first[branch])

    def shares(self, start: int, count: int) -> list[int]:
        """Return how many of the next turns each branch has.

        >>> Turns([2, 1]).shares(1, 4)
        [3, 1]
        """
        rounds, rest = divmod(count, len(self._cycle))
        if not rest:
            return [rounds * weight for weight in self.weights]
        places = (start + np.arange(rest)) % len(self._cycle)
        extra = np.bincount(self._cycle[places], minlength=len(self.weights))
        return [
            rounds * weight + int(more)
            for weight, more in zip(self.weights, extra, strict=True)
        ]

    def dealt(self, start: int, items: Array) -> list[Array]:
        """Return the items of each branch, from a place of the cycle on.

        >>> [part.tolist() for part in Turns([2, 1]).dealt(1, np.arange(6))]
        [[0, 2, 3, 5], [1, 4]]
        """
        parts: list[list[Array]] = [[] for _ in self.weights]
        for first, last in self._cuts(start, len(items)):
            piece = items[first:last]
            if last - first < len(self._cycle):
                whose = self._cycle[(start + np.arange(first, last)) % len(self._cycle)]
                for branch, own in enumerate(parts):
                    own.append(piece[whose == branch])
                continue
            table = piece.reshape(-1, len(self._cycle))
            for branch, own in enumerate(parts):
                begin, end = self._first[branch], self._first[branch + 1]
                own.append(np.ascontiguousarray(table[:, begin:end]).ravel())
        return [
            own[0] if len(own) == 1 else np.concatenate([items[:0], *own])
            for own in parts
        ]

    def collected(self, start: int, count: int, branches: Sequence[Array]) -> Array:
        """Return so many items of the branches by turns, from a place of the cycle on.

        >>> Turns([2, 1]).collected(0, 4, [np.array([1, 2, 4]), np.array([3])]).tolist()
        [1, 2, 3, 4]
        """
        made = np.empty(count, branches[0].dtype)
        used = [0] * len(branches)
        for first, last in self._cuts(start, count):
            whole = last - first >= len(self._cycle)
            whose = None
            if not whole:
                places = (start + np.arange(first, last)) % len(self._cycle)
                whose = self._cycle[places]
            for branch, items in enumerate(branches):
                if whose is None:
                    begin, end = self._first[branch], self._first[branch + 1]
                    table = made[first:last].reshape(-1, len(self._cycle))[:, begin:end]
                    taken = items[used[branch] : used[branch] + table.size]
                    table[:] = taken.reshape(table.shape)
                else:
                    chosen = np.flatnonzero(whose == branch)
                    taken = items[used[branch] : used[branch] + len(chosen)]
                    made[first + chosen] = taken
                used[branch] += len(taken)
        return made

    def _cuts(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """Yield what lies before, in and behind the whole rounds of the next turns."""
        size = len(self._cycle)
        head = min(-start % size, count)
        body = head + (count - head) // size * size
        for first, last in ((0, head), (head, body), (body, count)):
            if last > first:
                yield first, last

    def due(self, start: int, waiting: Sequence[int]) -> int:
        """Return how many turns there are until somebody has nothing for his.

        >>> Turns([2, 1]).due(0, [4, 1])
        5
        """
        size, found = len(self._cycle), []
        whole = start % size == 0
        cycle = self._cycle if whole else np.roll(self._cycle, -(start % size))
        for branch, (weight, count) in enumerate(
            zip(self.weights, waiting, strict=True)
        ):
            if weight:
                rounds, turn = divmod(count, weight)
                if whole:
                    place = self._first[branch] + turn
                else:
                    place = int(np.flatnonzero(cycle == branch)[turn])
                found.append(rounds * size + place)
        return min(found)
