"""Regions that part and meet on Spark: the sequential result, by several workers."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.loop import Epochs
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed
from tests.programs.generate import assert_same, program


@pytest.mark.spark
@pytest.mark.parametrize(
    "seeds",
    [range(2), pytest.param(range(2, 300), marks=pytest.mark.long)],
    ids=["some", "many"],
)
def test_any_degree_and_epoch_size_gives_the_sequential_result(seeds):
    for seed in seeds:
        rng = Random(seed)
        degree, epoch_items = rng.randint(1, 3), rng.choice([7, 100, 100])

        assert_same(
            program(seed, graphs=True),
            lambda sinks, degree=degree, epoch_items=epoch_items: ab.run(
                *sinks, on="spark", degree=degree, epoch_items=epoch_items
            ),
        )


@pytest.mark.parametrize("seed", needs.quick(1, range(7000, 7300)))
def test_degrees_that_change_from_epoch_to_epoch_change_nothing(
    seed, monkeypatch, tmp_path
):
    rng = Random(seed)
    epoch_items = rng.choice([7, 20, 100])
    run_epoch = Epochs.run

    def run_with_any_degree(self, pieces):
        self.divider.degree = rng.randint(1, 4)
        run_epoch(self, pieces)

    monkeypatch.setattr(Epochs, "run", run_with_any_degree)

    def run(sinks):
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
            ab.run(*sinks, on="spark", degree=2, epoch_items=epoch_items)

    assert_same(program(seed, graphs=True), run)


class Score(NamedTuple):
    name: str
    points: int


def renamed(score: Score) -> Score:
    return Score(f"{score.name}{score.points % 7}", score.points)


def add_points(total: int, score: Score) -> tuple[int, Score]:
    return total + score.points, Score(score.name, total + score.points)


def twice(seen: list[Score]) -> list[Score]:
    return [*seen, *seen]


class Doubled(ab.Operator):
    """Keeps nothing, so that it may be in a region of another key than its own."""

    def process(self, score: Score) -> list[Score]:
        return [score, score]


@ab.declare(state="stateless")
class Recalled(ab.Operator):
    """Keeps what makes no difference."""

    def setup(self) -> None:
        self.known: dict[Score, list[Score]] = {}

    def process(self, score: Score) -> list[Score]:
        return self.known.setdefault(score, [score, score])


@pytest.mark.parametrize("how", [Doubled, Recalled, "block"])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_what_keeps_nothing_may_follow_a_key_that_has_changed(
    how, degree, monkeypatch, tmp_path
):
    scores = [Score("abc"[n % 3], n) for n in range(60)]
    sums = ab.from_iterable(scores, Score).key_by("name").scan(add_points, 0)
    again = sums.map(renamed).key_by("name")
    last = again.block(twice, pop=1, push=2) if how == "block" else again.apply(how)
    out = last.to_list()
    totals, expected = dict.fromkeys("abc", 0), []
    for name, points in scores:
        totals[name] += points
        expected += [Score(f"{name}{totals[name] % 7}", totals[name])] * 2

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(out, on="spark", degree=degree, epoch_items=7)

    assert expected == out.items
    assert any(len(one.operators) > 2 for one in ab.compile(out).plan.regions)


class Order(NamedTuple):
    number: int
    user: str
    worker: int


def worked(order: Order) -> Order:
    return Order(order.number, order.user, os.getpid())


def is_third(order: Order) -> bool:
    return order.number % 3 == 0


def write_orders(path: Path, count: int) -> None:
    rows = "".join(f"{n},u{n % 7},0\n" for n in range(count))
    path.write_text(f"number,user,worker\n{rows}")


@ab.declare(state="stateless")
def by_worker(order: Order) -> Order:
    return worked(order)


@pytest.mark.spark
def test_a_map_with_two_consumers_runs_in_several_workers(tmp_path):
    write_orders(tmp_path / "orders.csv", 4000)
    done = ab.read_csv(str(tmp_path / "orders.csv"), Order).map(by_worker, name="done")
    every, third = done.to_list(), done.filter(is_third, name="third").to_list()

    ab.run(every, third, on="spark", degree=2, epoch_items=2000, verify="off")

    assert list(range(4000)) == [order.number for order in every.items]
    assert list(range(0, 4000, 3)) == [order.number for order in third.items]
    assert len({order.worker for order in every.items[:2000]}) >= 2  # in one epoch


@pytest.mark.spark
def test_a_region_writes_several_sinks(tmp_path):
    write_orders(tmp_path / "orders.csv", 500)

    def sinks(to):
        orders = ab.read_csv(str(tmp_path / "orders.csv"), Order)
        low, high = orders.split(lambda o: o.number % 2, 2, name="parity")
        return [
            low.write_csv(str(tmp_path / to / "low")),
            high.filter(is_third).write_csv(str(tmp_path / to / "high")),
            ab.union(low, high, name="all").write_csv(str(tmp_path / to / "all")),
        ]

    def contents(to, name):
        parts = sorted((tmp_path / to / name).glob("part-*.csv"))
        rows = [part.read_text().splitlines()[1:] for part in parts]
        return [row for some in rows for row in some]

    ab.run(*sinks("one"), on="sequential")
    ab.run(*sinks("two"), on="spark", degree=2, epoch_items=120)

    for name in ("low", "high", "all"):
        assert contents("one", name) == contents("two", name)
        assert contents("two", name)
    [region] = ab.compile(*sinks("three"), on="spark").plan.regions
    assert "parallel_sink" == region.last_joint
