"""How many items a thread takes at a time: as many as fill two milliseconds.

One item when items are rare or costly, so that nothing waits behind a long batch;
thousands when they are cheap, so that handing them over costs nothing. It also bounds
what waits in front of a thread to a few milliseconds of work, which bounds the time
that the flow stands still when it has to be drained for a change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from anabranch.runtime.cache import batch_that_fits

_MOST = 8192
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

    def __init__(self, budget_s: float = 0.002, most: int | None = None) -> None:
        self.limit = 1
        self._budget_s = budget_s
        self._most = most or _MOST
        self._fitted = most is not None
        self._fixed = False
        self._recent_s: deque[float] = deque(maxlen=_REMEMBERED)

    @classmethod
    def fixed(cls, size: int) -> Pace:
        """Return a pace that takes so many items at a time, whatever they cost.

        >>> pace = Pace.fixed(100)
        >>> pace.observe(100, 10.0)
        >>> pace.limit
        100
        """
        made = cls(most=size)
        made.limit = size
        made._fixed = True
        return made

    def fit(self, items: Sequence[Any]) -> None:
        """Take no more at a time than fit the cache, going by the first items.

        >>> pace = Pace(budget_s=1)
        >>> pace.fit(["x" * 100_000])
        >>> for _ in range(20):
        ...     pace.observe(1, 1e-6)
        >>> pace.limit < 100
        True
        """
        if not self._fitted:
            self._fitted = True
            self._most = max(1, min(_MOST, batch_that_fits(items)))

    def observe(self, items: int, elapsed_s: float) -> None:
        """Take note of how long a batch took."""
        if items == 0 or self._fixed:
            return
        self._recent_s.append(elapsed_s / items)
        item_s = sorted(self._recent_s)[len(self._recent_s) // 2]
        fitting = self._budget_s / item_s if item_s > 0 else self._most
        # Doubling at most: one lucky batch must not invite thousands of items.
        self.limit = max(1, min(round(fitting), 2 * self.limit, self._most))
