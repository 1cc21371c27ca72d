"""Progress of a process's tasks in the current epoch, unit by unit.

A task reports when it is done. Until then a thread of its process reports from time to
time how many items have passed each unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.epochs.task import EpochAttempt


class Progress:
    """Counts the items of this process's latest try of an epoch.

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
        """Count for a task of an epoch; forget the counts of another one."""
        of = attempt.epoch, attempt.turn
        if of != self._of:
            self._of, self._done = of, {}

    def add(self, unit: int, items: int) -> None:
        """Add items that have passed a unit."""
        self._done[unit] = self._done.get(unit, 0) + items

    def count(self, unit: int) -> int:
        """Return the items that have passed a unit."""
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
