"""Epochs stay small until it is known how the keys have to be divided."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs import division
from tests.engines.spark.imitation import undisturbed


class Sale(NamedTuple):
    number: int
    shop: str


def count(total: int, sale: Sale) -> tuple[int, int]:
    return total + 1, total + 1


def is_tenth(sale: Sale) -> bool:
    return sale.number % 10 == 0


def never(sale: Sale) -> bool:
    return sale.number < 0


@pytest.fixture(autouse=True)
def _small(monkeypatch, cluster_of):
    monkeypatch.setattr(division, "LEAST_ITEMS", 5)
    monkeypatch.setattr(division, "FIRST_LOOK", 10)
    cluster_of(undisturbed)


def epochs_of(build, **options):
    """Return the rows of each epoch of a job with 500 items, by shop and in order."""
    items = [Sale(n, f"shop{n % 7}") for n in range(500)]
    expected = build(ab.from_iterable(items, Sale)).to_list()
    ab.run(expected, on="sequential")
    out = build(ab.from_iterable(items, Sale)).to_list()

    job = ab.run(out, on="spark", epoch_items=200, **options)

    assert expected.items == out.items
    return job.metrics().epoch_items


def test_the_first_epoch_shows_how_keys_are_divided():
    found = epochs_of(lambda s: s.key_by("shop").scan(count, 0), degree=2)

    assert (10, 200, 200, 90) == found


@pytest.mark.parametrize(
    ("keep", "epochs"),
    [(is_tenth, (10, 100, 200, 190)), (never, (10, 100, 200, 190))],
)
def test_another_look_is_wider_if_few_items_came_as_far_as_the_keys(keep, epochs):
    found = epochs_of(lambda s: s.filter(keep).key_by("shop").scan(count, 0), degree=2)

    assert epochs == found


@pytest.mark.parametrize(
    ("build", "degree"),
    [
        (lambda s: s.map(lambda sale: sale.number), 2),
        (lambda s: s.key_by("shop").scan(count, 0), 1),
    ],
)
def test_nothing_is_looked_at_where_no_keys_are_divided(build, degree):
    assert (200, 200, 100) == epochs_of(build, degree=degree)
