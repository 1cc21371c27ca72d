"""Buckets move off a replica whose load stands out, as few as will do."""

from __future__ import annotations

from random import Random

import pytest

from anabranch.runtime.keys import add_up, find_hot_key, is_uneven, rebalance

REFUSALS = {
    "an even load": ([3.0, 3.0], (0, 1), 2),
    "a load that hardly stands out": ([11.0, 10.0, 1.0, 1.0], (0, 1, 0, 1), 2),
    "no load at all": ([0.0, 0.0], (0, 1), 2),
    "one replica": ([5.0, 1.0], (0, 0), 1),
    "a single bucket that is hotter than the rest together": ([9.0, 1.0], (0, 1), 2),
    "two hot buckets that would only change places": ([9.0, 0.1], (0, 1), 2),
}


@pytest.mark.parametrize(
    ("loads", "table", "replicas"), REFUSALS.values(), ids=REFUSALS
)
def test_a_table_stays_as_it_is(loads, table, replicas):
    assert rebalance(loads, table, replicas) is None


def test_hot_buckets_are_shared_out():
    found = rebalance([40.0, 40.0, 5.0, 5.0, 5.0, 5.0], (0, 0, 0, 1, 1, 1), 2)

    assert found is not None
    assert {found.table[0], found.table[1]} == {0, 1}
    assert found.before == pytest.approx(0.85)
    assert found.after == pytest.approx(0.5, abs=0.051)


def test_buckets_without_load_do_not_move():
    found = rebalance([4.0, 4.0, 0.0, 0.0], (0, 0, 0, 1), 2)

    assert found is not None
    assert len(found.moved) == 1
    assert found.moved[0] in (0, 1)


@pytest.mark.parametrize("seed", range(50))
def test_no_move_makes_the_busiest_replica_busier(seed):
    rng = Random(seed)
    replicas = rng.randint(2, 5)
    loads = [rng.choice([0.0, 1.0, rng.expovariate(0.1)]) for _ in range(32)]
    table = tuple(rng.randrange(replicas) for _ in loads)

    found = rebalance(loads, table, replicas)

    if found is None:
        return
    before, after = (add_up(loads, t, replicas) for t in (table, found.table))
    assert max(before) > max(after)
    assert sum(before) == pytest.approx(sum(after))
    assert found.moved == tuple(
        b for b in range(len(table)) if table[b] != found.table[b]
    )


def test_an_uneven_load_is_seen():
    assert is_uneven([2.0, 1.0], (0, 1), 2)
    assert not is_uneven([1.0, 1.0, 1.1], (0, 1, 2), 3)


def test_only_a_key_beyond_the_share_of_a_replica_is_hot():
    counts = {"hot": 40, "warm": 30, "cold": 1}

    assert find_hot_key(counts, 100, 2) is None
    assert find_hot_key(counts, 100, 3) == ("hot", 0.4)
    assert find_hot_key({}, 0, 2) is None
