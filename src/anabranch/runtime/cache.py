"""How many items fit into the cache: the largest batch that is worth making.

A batch that is larger than the cache has left it before the next operator looks at it
(Figure 5 (d) of the paper on hybrid scheduling).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_UNKNOWN_BYTES = 1 << 20
_SEEN = 20  # items that are looked at
_PLACE_BYTES = 8  # of an item in a list
_SHARE = 4  # of the cache for one batch: code, states and the outputs need some too


@cache
def cache_bytes() -> int:
    """Return the size of the second-level cache of a core, 1 MiB if it is not known.

    >>> cache_bytes() > 0
    True
    """
    for index in sorted(_CACHES.glob("index*")):
        try:
            level = (index / "level").read_text().strip()
            size = (index / "size").read_text().strip()
        except OSError:
            continue
        if level == "2" and size.endswith("K"):
            return int(size[:-1]) << 10
    return _UNKNOWN_BYTES


def item_bytes(items: Sequence[Any]) -> int:
    """Return about how much room an item takes, with its attributes.

    >>> item_bytes([1.5, 2.5]) == sys.getsizeof(1.5) + 8
    True
    """
    seen = items[:_SEEN]
    total = sum(sys.getsizeof(item) + _parts(item) for item in seen)
    return _PLACE_BYTES + total // max(len(seen), 1)


def _parts(item: Any) -> int:
    return sum(map(sys.getsizeof, item)) if isinstance(item, tuple) else 0


def batch_that_fits(items: Sequence[Any]) -> int:
    """Return how many such items make a batch that stays in the cache.

    >>> 1 <= batch_that_fits(["a" * 1000]) < batch_that_fits([1.5])
    True
    """
    return max(1, cache_bytes() // _SHARE // item_bytes(items))
