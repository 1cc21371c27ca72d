"""Epochs begin small, become as large as is good for them, and then stay so."""

import pytest

from anabranch.epochs.epoch_size import (
    FIRST_ITEMS,
    LEAST_ITEMS,
    LONG_S,
    MOST_ITEMS,
    EpochSize,
)


def epochs_of(items_per_s, fixed_s, count=10, tasks=1.0):
    """Return the sizes of so many epochs, and how long each takes.

    Of the time of the items, tasks report a share.
    """
    size = EpochSize()
    found = []
    for _ in range(count):
        work_s = size.items / items_per_s
        found.append((size.items, fixed_s + work_s))
        size.note(size.items, fixed_s + work_s, tasks * work_s)
    return found


@pytest.mark.parametrize("fixed_s", [0.01, 0.1, 0.4])
@pytest.mark.parametrize("per_second", [1, 10, 265, 3_000, 40_000, 333_333, 9_000_000])
@pytest.mark.parametrize("tasks", [1.0, 0.5])
def test_the_size_settles_after_three_epochs(per_second, fixed_s, tasks):
    found = epochs_of(per_second, fixed_s, tasks=tasks)

    items, seconds = found[-1]
    assert {items} == {size for size, _ in found[4:]}
    assert items == LEAST_ITEMS or seconds <= 2 * LONG_S
    assert LEAST_ITEMS <= items <= MOST_ITEMS


@pytest.mark.parametrize("per_second", [8, 64, 265, 3_000, 40_000, 333_333, 9_000_000])
def test_first_results_come_within_two_seconds_plus_what_an_epoch_costs(per_second):
    (items, seconds), *_ = epochs_of(per_second, fixed_s=0.1)

    assert FIRST_ITEMS == items
    assert 2.1 >= seconds


def test_six_thousand_heavy_items_have_many_epochs():
    """23 seconds in all; a first release had one epoch of them."""
    found = epochs_of(265, fixed_s=0.1, count=40)
    behind, epochs = 0, 0
    while behind < 6_000:
        behind += found[epochs][0]
        epochs += 1

    assert 10 <= epochs <= 25


def test_cheap_items_cost_two_small_epochs():
    sizes = [items for items, _ in epochs_of(400_000, fixed_s=0.1)]

    assert sizes[2] >= 250_000


def test_an_epoch_that_was_not_filled_changes_nothing():
    size = EpochSize()
    size.note(FIRST_ITEMS // 2, seconds=60.0, work_s=60.0)

    assert FIRST_ITEMS == size.items


def test_where_epochs_cost_much_they_are_longer():
    """Smaller ones would not be quicker."""
    _, (items, _), *_ = epochs_of(1_000, fixed_s=0.05)
    _, (more, _), *_ = epochs_of(1_000, fixed_s=0.2)

    assert items < more


def test_a_costly_epoch_is_not_halved_for_what_it_costs_anyway():
    size = EpochSize(items=64)
    size.note(64, seconds=20.0, work_s=0.1)

    assert 64 <= size.items
