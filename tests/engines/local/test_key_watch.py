"""Hot keys move to another replica while a program runs; one that is too hot is named."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local import key_watch, run
from anabranch.runtime.split import bucket_of, even_table

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
    shops = [name for name in names if not even_table(2)[bucket_of(name)]][:20]
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
    assert moves[0].effect.endswith("buckets of r0 moved; items kept flowing")


def test_a_key_that_is_too_hot_is_named_with_its_share():
    items = sales(hot=1, count=3000)
    expected, _ = run_on("sequential", items)

    actual, job = run_on("local", items, degree=2)

    assert expected == actual
    told = [one.why for one in job.history if "stays uneven" in one.what]
    assert len(told) == 1
    assert f"the key {items[1].shop!r} has " in told[0]
    assert told[0].endswith("more than the share of one of 2 replicas, 50%")


def test_counted_keys_tell_how_other_degrees_would_divide_them():
    """One shop of five has every other sale: no number of replicas divides it."""
    shops = [f"shop{n}" for n in range(5)]
    items = [Sale(n, shops[0 if n % 2 else n % 5], 0) for n in range(400)]
    seen = []

    class Watched(key_watch.KeyWatch):
        def look(self, region):
            super().look(region)
            seen.append(self.find_shares(region.name))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(run, "KeyWatch", Watched)
        run_on("local", items, degree=2)

    shares = [one for one in seen if one][-1]
    assert shares[1] == pytest.approx(1.0)
    assert min(shares.values()) == pytest.approx(0.6, abs=0.1)
    assert shares[64] == pytest.approx(0.6, abs=0.1)
