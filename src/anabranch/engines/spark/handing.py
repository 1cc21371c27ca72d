"""How what the first half of a cut unit gives reaches the second half at once.

Spark gathers: a worker writes through a buffer, and the rows for the next worker become
one batch of many. Both would let the second half wait until the first has ended. So after
each chunk comes a row that fills the buffer, which nobody reads, and where there is a
cut, rows go in batches of one. Each is a chunk of items, so there are few.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from anabranch.runtime.pace import Pace

MOST_ITEMS = 8192  # handed from half to half at a time
CHUNK_S = 0.02  # of the first half's work
_BUFFER_BYTES = int(os.environ.get("SPARK_BUFFER_SIZE", "65536"))

_SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.adaptive.enabled": "false",
}

Fed: TypeAlias = tuple[list[Any], list[list[int]], list[int] | None]


def filler() -> bytes:
    """Return so much that nothing written before it stays in a worker's buffer."""
    return bytes(2 * _BUFFER_BYTES)


def row_by_row(spark: SparkSession) -> SparkSession:
    """Return a session like this one, whose workers get every row at once."""
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def in_chunks(fed: Iterator[Fed]) -> Iterator[Fed]:
    """Cut what a program takes into parts that are handed on one by one.

    As many items as take the first half a moment: whoever asks for the next part has
    dealt with the one before.

    >>> whole = [1, 2, 3], [[1, 2, 3]], None
    >>> parts = list(in_chunks(iter([whole])))
    >>> [item for items, _, _ in parts for item in items]
    [1, 2, 3]
    >>> parts[0]
    ([1], [[1]], None)
    """
    pace = Pace(CHUNK_S, MOST_ITEMS)
    for items, positions, entries in fed:
        start = 0
        while start < len(items):
            part = slice(start, start + pace.limit)
            began_s = time.perf_counter()
            yield (
                items[part],
                [column[part] for column in positions],
                None if entries is None else entries[part],
            )
            pace.observe(pace.limit, time.perf_counter() - began_s)
            start = part.stop
