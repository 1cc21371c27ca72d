"""The size of an epoch when the user sets none.

Every epoch has a fixed cost; a long one delays stopping, monitoring and tuning. The
cost of an item is not known beforehand: a microsecond or a second. So the first epoch
takes a few items, gives results at once, and shows the cost of an item and of an epoch.
From then on epochs are as long as their fixed cost justifies, within bounds. Sizes
double and halve, so that most epochs have the same size and are comparable.
"""

from __future__ import annotations

import math
from collections import deque

FIRST_ITEMS = 16
MOST_ITEMS = 1 << 20  # tasks hold them in memory
LEAST_ITEMS = 4
GROWTH = 256  # a few items say little about many
SHORT_S, LONG_S = 1.25, 2.5  # bounds of the duration below which epochs grow
WORTH = 16  # target duration, times their fixed cost
_SAFE = 0.5  # share of the limit; items differ
_FILLED = 0.75  # share of the intended size; fewer items say little


class EpochSize:
    """The size of the next epoch, from the measured earlier ones.

    >>> size = EpochSize()
    >>> size.items
    16
    >>> size.note(16, seconds=0.15, work_s=0.05)  # a tenth of a second for nothing
    >>> size.items
    256
    >>> size.note(100, seconds=0.5, work_s=0.4)  # the source had no more
    >>> size.items
    256
    """

    def __init__(self, items: int = FIRST_ITEMS) -> None:
        self.items = items
        self.settled = False  # whether the last epoch left it unchanged
        self._fixed_s = math.inf

    def note(self, taken: int, seconds: float, work_s: float) -> None:
        """Record an epoch: its items, its duration and the work of its tasks."""
        if taken < _FILLED * self.items:
            return
        before = self.items
        self._fixed_s = min(self._fixed_s, max(0.0, seconds - work_s))
        item_s = max(0.0, seconds - self._fixed_s) / taken
        enough_s = min(max(SHORT_S, WORTH * self._fixed_s), LONG_S)
        most = min(MOST_ITEMS, GROWTH * self.items)
        while self.items < most and self._takes_s(2 * self.items, item_s) <= enough_s:
            self.items *= 2
        while (
            self.items > LEAST_ITEMS
            and self._takes_s(self.items, item_s) > 2 * enough_s
            and self.items * item_s > SHORT_S
        ):
            self.items //= 2
        self.settled = self.items == before

    def _takes_s(self, items: int, item_s: float) -> float:
        return self._fixed_s + items * item_s


class ResultLimit:
    """The items an epoch may take so that its results fit into the driver.

    An engine may bound what the driver receives (on Spark, `spark.driver.maxResultSize`).
    The result bytes per item of the last epochs limit the next one.

    >>> limit = ResultLimit(1_000_000)
    >>> limit.items
    1048576
    >>> limit.note(100, 20_000)  # 200 bytes an item
    >>> limit.items
    2500
    """

    def __init__(self, most_bytes: float) -> None:
        self.most_bytes = most_bytes
        self.items = self._most = MOST_ITEMS
        self._recent: deque[float] = deque(maxlen=2)  # bytes of an item

    def note(self, taken: int, result_bytes: int) -> None:
        """Record an epoch: its items, and the bytes that the driver received."""
        if taken:
            self._recent.append(result_bytes / taken)
            largest = max(self._recent)
            fitting = _SAFE * self.most_bytes / largest if largest else MOST_ITEMS
            self.items = max(1, int(min(self._most, fitting)))

    def refuse(self, taken: int) -> None:
        """Record an epoch that failed because its results did not fit."""
        self.items = self._most = max(1, taken // 2)


class Admission:
    """The items that an epoch takes of each source.

    They are as many as the user or a controller has `told`, or as many as is good; but
    not more than the driver can take results of.

    >>> admission = Admission(None)
    >>> admission.items, admission.is_settled
    (16, False)
    >>> admission.told = 1000
    >>> admission.items, admission.is_settled
    (1000, True)
    >>> admission.limit = ResultLimit(1_000_000)
    >>> admission.note_results(100, 500_000), admission.items
    (True, 100)
    """

    def __init__(self, told: int | None) -> None:
        self.told = told
        self.limit = ResultLimit(math.inf)  # known once there is a session
        self._size = EpochSize()
        self._is_limited = False

    @property
    def wanted(self) -> int:
        """The items of an epoch if the driver could take any results."""
        return self._size.items if self.told is None else self.told

    @property
    def items(self) -> int:
        """The items of the next epoch."""
        return min(self.wanted, self.limit.items)

    @property
    def is_settled(self) -> bool:
        """Whether their number is not a guess."""
        return self.told is not None or self._size.settled

    def note(self, rows: int, seconds: float, work_s: float) -> None:
        """Record an epoch: its items, its duration and the work of its tasks."""
        if self.told is None:
            self._size.note(rows, seconds, work_s)

    def note_results(self, rows: int, result_bytes: int) -> bool:
        """Record the bytes of an epoch's results; tell if they limit epochs from now on."""
        self.limit.note(rows, result_bytes)
        begins = self.limit.items < self.wanted and not self._is_limited
        self._is_limited |= begins
        return begins

    def refuse(self, rows: int) -> None:
        """Record an epoch whose results did not fit."""
        self.limit.refuse(rows)
        self._is_limited = True
