"""How many items a thread takes at a time: as many as fill a millisecond.

One item when items are rare or costly, so that nothing waits behind a long batch;
thousands when they are cheap, so that handing them over costs nothing. It also bounds
what waits in front of a thread to a few milliseconds of work, which bounds the time
that the flow stands still when it has to be drained for a change.
"""

from __future__ import annotations

from collections import deque

_REMEMBERED = 5  # batches; the median of so few follows a change and ignores a hiccup


class Pace:
    """Learns what an item costs. One thread at a time tells it; any may look.

    >>> pace = Pace(budget_s=0.001)
    >>> pace.limit
    1
    >>> for _ in range(9):
    ...     pace.observe(pace.limit, pace.limit * 10e-6)  # 10 microseconds an item
    >>> pace.limit
    100
    """

    def __init__(self, budget_s: float = 0.001, most: int = 8192) -> None:
        self.limit = 1
        self._budget_s = budget_s
        self._most = most
        self._recent_s: deque[float] = deque(maxlen=_REMEMBERED)

    def observe(self, items: int, elapsed_s: float) -> None:
        """Take note of how long a batch took."""
        if items == 0:
            return
        self._recent_s.append(elapsed_s / items)
        item_s = sorted(self._recent_s)[len(self._recent_s) // 2]
        fitting = self._budget_s / item_s if item_s > 0 else self._most
        # Doubling at most: one lucky batch must not invite thousands of items.
        self.limit = max(1, min(round(fitting), 2 * self.limit, self._most))
