"""How many items a second arrive, from looks at how many have arrived so far."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import numpy as np

RECENT_S = 2.0  # over which a load is measured
PARTS = 8


class RecentArrivals:
    """Remembers looks for as long as they tell about the load of late.

    >>> recent = RecentArrivals()
    >>> _ = recent.look(0.0, 0), recent.look(1.0, 100)
    >>> recent.look(2.0, 300)
    (100.0, 100.0, 100.0, 100.0, 200.0, 200.0, 200.0, 200.0)
    """

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def look(self, now_s: float, arrived: int) -> tuple[float, ...]:
        """Add a look; return the load in equal parts of the time of late, oldest first."""
        looks = self._looks
        looks.append((now_s, arrived))
        while len(looks) > 2 and now_s - looks[1][0] >= RECENT_S:  # noqa: PLR2004
            looks.popleft()
        first_s = max(looks[0][0], now_s - RECENT_S)
        if now_s <= first_s:
            return (0.0,)
        at_s, counts = zip(*looks, strict=True)
        ends_s = np.linspace(first_s, now_s, PARTS + 1)
        known = np.interp(ends_s, at_s, counts).tolist()
        part_s = (now_s - first_s) / PARTS
        return tuple((after - before) / part_s for before, after in pairwise(known))
