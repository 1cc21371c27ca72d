"""Epochs become as large as is good for them, and then stay so."""

import pytest

from anabranch.engines.spark.admission import (
    FIRST_ITEMS,
    FIRST_TO_WAIT_FOR,
    LEAST_ITEMS,
    LONG_S,
    MOST_ITEMS,
    next_items,
)


@pytest.mark.parametrize("first", [FIRST_ITEMS, FIRST_TO_WAIT_FOR])
@pytest.mark.parametrize("per_second", [10, 3_000, 40_000, 333_333, 9_000_000])
def test_the_size_settles(first, per_second):
    """
    Whatever the speed, with a tenth of a second that every epoch takes.
    """
    sizes = [first]
    for _ in range(8):
        items = sizes[-1]
        sizes.append(next_items(items, items, 0.1 + items / per_second))

    settled = sizes[-1]
    assert [settled] * 5 == sizes[-5:]
    assert settled == LEAST_ITEMS or 0.1 + settled / per_second <= LONG_S
    assert LEAST_ITEMS <= settled < 2 * MOST_ITEMS


def test_an_epoch_that_was_not_filled_changes_nothing():
    assert FIRST_ITEMS == next_items(FIRST_ITEMS, FIRST_ITEMS // 2, 60.0)
