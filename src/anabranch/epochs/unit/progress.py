"""How far the tasks of a process are in the epoch that runs, unit by unit.

A task reports when it is done. Until then a thread of its process tells, now and then,
how many items have gone through each unit (`engines/spark/workers.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.epochs.task import EpochAttempt


class Progress:
    """Counts the items of the last try of an epoch that this process has worked for.

    >>> progress = Progress()
    >>> progress.begin(EpochAttempt(turn=7))
    >>> progress.add(2, 100)
    >>> progress.add(2, 20)
    >>> progress.describe()
    '1 7 2:120'
    """

    def __init__(self) -> None:
        self._of = (0, 0)  # epoch, turn
        self._done: dict[int, int] = {}  # by unit

    def begin(self, attempt: EpochAttempt) -> None:
        """Count for a task of an epoch; what was done for another one is forgotten."""
        of = attempt.epoch, attempt.turn
        if of != self._of:
            self._of, self._done = of, {}

    def add(self, unit: int, items: int) -> None:
        """Count items that have gone through a unit."""
        self._done[unit] = self._done.get(unit, 0) + items

    def count(self, unit: int) -> int:
        """Return the items that have gone through a unit."""
        return self._done.get(unit, 0)

    def describe(self) -> str:
        """Return the counts in one line."""
        done = dict(self._done)
        return " ".join(
            [*map(str, self._of), *(f"{n}:{one}" for n, one in done.items())]
        )


PROGRESS = Progress()  # of this process


def sum_up(lines: Iterable[str], epoch: int, turn: int) -> Mapping[int, int]:
    """Return the items, by unit, that processes have done for a try of an epoch.

    >>> sum_up(["1 7 0:50 2:120", "1 7 2:30", "1 6 2:99", ""], 1, 7)
    {0: 50, 2: 150}
    """
    found: dict[int, int] = {}
    for line in lines:
        if line.split()[:2] == [str(epoch), str(turn)]:
            for one in line.split()[2:]:
                unit, items = map(int, one.split(":"))
                found[unit] = found.get(unit, 0) + items
    return found
