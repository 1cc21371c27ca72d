"""How many items an epoch takes when nobody has said.

Every epoch costs some tenths of a second, whatever it takes; a long one keeps whoever
stops the job, watches it or tunes it waiting. So epochs of some seconds are wanted.
Their sizes double and halve, in order that most epochs have the same size and can be
compared with each other.
"""

from __future__ import annotations

FIRST_ITEMS = 250_000
FIRST_TO_WAIT_FOR = 125  # of a source that makes items at a pace nobody knows
MOST_ITEMS = 1_000_000  # tasks hold them in memory
LEAST_ITEMS = 4
SHORT_S, LONG_S = 2.5, 5.0
_FILLED = 0.75  # of what an epoch was to take; less says little about its size


def next_items(items: int, taken: int, seconds: float) -> int:
    """Return how many items to take after an epoch that was to take `items`.

    >>> next_items(250_000, 250_000, 0.6)
    1000000
    >>> next_items(250_000, 250_000, 9.0)
    125000
    >>> next_items(250_000, 10_000, 0.1)
    250000
    """
    if taken < _FILLED * items:
        return items
    per_item_s = seconds / taken
    while items < MOST_ITEMS and 2 * items * per_item_s <= SHORT_S:
        items *= 2
    while items > LEAST_ITEMS and items * per_item_s > LONG_S:
        items //= 2
    return items
