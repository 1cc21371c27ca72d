"""Hot keys move to another replica while a program runs; one that is too hot is named."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local import key_watch
from anabranch.runtime.split import bucket_of

BLOCK = bytes(200_000)


class Sale(NamedTuple):
    number: int
    shop: str
    total: int


def sign(total: int, sale: Sale) -> tuple[int, Sale]:
    total += hashlib.sha256(BLOCK).digest()[0] + sale.number
    return total, Sale(sale.number, sale.shop, total)


def sales(hot: int, count: int) -> list[Sale]:
    """Return sales of shops that the first of two replicas has, most of a few shops."""
    names = (f"shop{n}" for n in range(10_000))
    shops = [name for name in names if bucket_of(name) % 2 == 0][:20]
    return [
        Sale(n, shops[hot + n % 8] if n % 5 == 0 else shops[n % hot], 0)
        for n in range(count)
    ]


def run_on(on, items, **options):
    out = ab.from_iterable(items, Sale).key_by("shop").scan(sign, 0).to_list()
    job = ab.run(out, on=on, **options)
    return out.items, job


@pytest.fixture(autouse=True)
def _eager(monkeypatch):
    monkeypatch.setattr(key_watch, "LOOK_S", 0.02)
    monkeypatch.setattr(key_watch, "LEAST_ITEMS", 200)


def test_hot_buckets_move_and_the_results_stay():
    items = sales(hot=4, count=3000)
    expected, _ = run_on("sequential", items)

    actual, job = run_on("local", items, degree=2)

    assert expected == actual
    moves = [one for one in job.history if "to other replicas" in one.what]
    assert moves
    assert "one replica had 100% of the load of all 2" == moves[0].why
    assert "all items paused" in moves[0].effect


def test_a_key_that_is_too_hot_is_named_with_its_share():
    items = sales(hot=1, count=3000)
    expected, _ = run_on("sequential", items)

    actual, job = run_on("local", items, degree=2)

    assert expected == actual
    told = [one.why for one in job.history if "stays uneven" in one.what]
    assert len(told) == 1
    assert f"the key {items[1].shop!r} has " in told[0]
    assert told[0].endswith("more than the share of one of 2 replicas, 50%")
