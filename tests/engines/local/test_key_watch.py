"""Hot keys move to another replica while a program runs; one that is too hot is named."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local import key_watch, run
from anabranch.runtime.split import bucket_of, even_table
from tests.waiting import Tap

BLOCK = bytes(200_000)


class Sale(NamedTuple):
    number: int
    shop: str
    total: int


def sign(total: int, sale: Sale) -> tuple[int, Sale]:
    total += hashlib.sha256(BLOCK).digest()[0] + sale.number
    return total, Sale(sale.number, sale.shop, total)


def sales(hot: int) -> Tap:
    """Return sales of shops that the first of two replicas has, most of a few shops."""
    names = (f"shop{n}" for n in range(10_000))
    shops = [name for name in names if not even_table(2)[bucket_of(name)]][:20]
    return Tap(
        lambda n: Sale(n, shops[hot + n % 8] if n % 5 == 0 else shops[n % hot], 0)
    )


def signed(stream):
    return stream.key_by("shop").scan(sign, 0)


def run_until(reached, tap):
    """Return the outputs of a run that goes on until something is so, and the job."""
    sink = signed(ab.generate(tap.read, Sale)).to_list()
    job = tap.run_until(reached, sink, on="local", degree=2)
    return sink.items, job


def expected_of(tap):
    return ab.testing.outputs(signed(ab.from_iterable(tap.given, Sale)))


@pytest.fixture(autouse=True)
def _eager(monkeypatch):
    monkeypatch.setattr(key_watch, "LOOK_S", 0.02)
    monkeypatch.setattr(key_watch, "LEAST_ITEMS", 200)


def find(words, job):
    return [one for one in job.history if words in one.what]


def test_hot_buckets_move_and_the_results_stay():
    tap = sales(hot=4)

    actual, job = run_until(partial(find, "to other replicas"), tap)

    assert expected_of(tap) == actual
    first = find("to other replicas", job)[0]
    assert "one replica had 100% of the load of all 2" == first.why
    assert first.effect.endswith("buckets of r0 moved; items kept flowing")


def test_a_key_that_is_too_hot_is_named_with_its_share():
    tap = sales(hot=1)

    actual, job = run_until(partial(find, "stays uneven"), tap)

    assert expected_of(tap) == actual
    told = [one.why for one in find("stays uneven", job)]
    assert len(told) == 1
    assert f"the key {tap.given[1].shop!r} has " in told[0]
    assert told[0].endswith("more than the share of one of 2 replicas, 50%")


def test_counted_keys_tell_how_other_degrees_would_divide_them(monkeypatch):
    """One shop of five has every other sale: no number of replicas divides it."""
    tap = Tap(lambda n: Sale(n, f"shop{0 if n % 2 else n % 5}", 0))
    seen = []

    class Watched(key_watch.KeyWatch):
        def look(self, region):
            super().look(region)
            seen.extend(filter(None, [self.find_shares(region.name)]))

    monkeypatch.setattr(run, "KeyWatch", Watched)
    run_until(lambda _: seen, tap)

    shares = seen[0]
    assert shares[1] == pytest.approx(1.0)
    assert min(shares.values()) == pytest.approx(0.6, abs=0.1)
    assert shares[64] == pytest.approx(0.6, abs=0.1)
