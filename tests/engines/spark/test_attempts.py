"""Every task runs twice and either attempt dies, or lives on, at every named place.

The outputs and the states must be those of one undisturbed run, on an imitation of
Spark (see `imitation`).
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.cluster import TRIES
from anabranch.epochs.faults import IN_DRIVER, IN_WORKERS
from anabranch.epochs.task import REPORT
from anabranch.errors import EngineError
from tests import needs
from tests.engines.spark.imitation import (
    Attempt,
    Batches,
    Body,
    Cluster,
    Killed,
)

ROWS, EPOCH_ITEMS, KEYS = 84, 12, 5
BAD = {13, 14, 40, 83}  # items that a function fails on


class Item(NamedTuple):
    number: int
    key: str


class Count(NamedTuple):
    number: int
    key: str
    count: int


class Window(NamedTuple):
    key: str
    numbers: str


def keyed(number: int) -> str:
    return "abcde"[number * number % KEYS]


GOOD = [Item(n, keyed(n)) for n in range(ROWS) if n not in BAD]
COUNTS = [
    Count(item.number, item.key, [other.key for other in GOOD[: n + 1]].count(item.key))
    for n, item in enumerate(GOOD)
]
TOTALS = {key: [item.key for item in GOOD].count(key) for key in "abe"}


def windows() -> list[str]:
    """Return the windows of three items of a key, full ones when they are full."""
    held: dict[str, list[int]] = {}
    found = []
    for item in GOOD:
        held.setdefault(item.key, []).append(item.number)
        if len(held[item.key]) == 3:
            found.append([item.key, " ".join(map(str, held.pop(item.key)))])
    left = [[key, " ".join(map(str, held[key]))] for key in sorted(held)]
    return [json.dumps({"key": key, "numbers": ns}) for key, ns in found + left]


def check(item: Item) -> Item:
    if item.number in BAD:
        msg = "a bad one"
        raise ValueError(msg)
    return item


def count(n: int, item: Item) -> tuple[int, Count]:
    return n + 1, Count(item.number, item.key, n + 1)


def joined(items: list[Count]) -> Window:
    return Window(items[0].key, " ".join(str(item.number) for item in items))


class Job:
    """A program with states, all kinds of sinks, and dead letters."""

    def __init__(self, folder: Path, *, checkpoint: bool) -> None:
        self.folder = folder
        self.checkpoint = folder / "checkpoint" if checkpoint else None
        self.lost: list[int] = []
        self.listed: list[Count] = []

    def run(self) -> None:
        items = [Item(n, keyed(n)) for n in range(ROWS)]
        checked = ab.from_iterable(items, type=Item).map(check)
        counts = checked.key_by("key").scan(count, 0)
        listed = counts.to_list()
        try:
            ab.run(
                counts.write_csv(self.folder / "counts"),
                counts.write_parquet(self.folder / "counts.parquet"),
                counts.window(count=3)
                .aggregate(joined)
                .write_jsonl(self.folder / "windows.jsonl"),
                listed,
                epoch_items=EPOCH_ITEMS,
                degree=2,
                checkpoint=self.checkpoint,
                on_error=ab.dead_letter(lambda one: self.lost.append(one.item.number)),
            )
        finally:
            self.listed += listed.items

    def check_files(self) -> None:
        folder = self.folder
        parts = sorted((folder / "counts").iterdir())
        assert "_SUCCESS" == parts.pop(0).name
        rows = "".join(part.read_text().partition("\n")[2] for part in parts)
        assert "".join(f"{c.number},{c.key},{c.count}\n" for c in COUNTS) == rows
        table = pq.read_table(folder / "counts.parquet")
        assert [c._asdict() for c in COUNTS] == table.to_pylist()
        lines = (folder / "windows.jsonl").read_text().splitlines()
        assert windows() == lines
        assert [] == [path for path in folder.iterdir() if path.name.startswith(".")]

    def check_states(self) -> None:
        if self.checkpoint is not None:
            states = dict(Contents(self.checkpoint).states("scan"))
            assert TOTALS == {key: total for key, (total,) in states.items()}


def won(attempt: Attempt) -> Batches:
    """Return what an attempt gave that Spark takes as the one that counts."""
    if attempt.error is not None:
        raise attempt.error
    assert attempt.over
    return attempt.gave


Twice = Callable[[Cluster, int, Body, str], Batches]


def kill_first(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    cluster.attempt(partition, body, hold=place)
    return won(cluster.attempt(partition, body))


def kill_second(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    first = cluster.attempt(partition, body, hold=place)
    cluster.attempt(partition, body, hold=place)
    first.go_on()
    return won(first)


def let_first_win(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    first = cluster.attempt(partition, body, hold=place)
    cluster.attempt(partition, body)
    first.go_on()
    return won(first)


def let_second_win(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    first = cluster.attempt(partition, body, hold=place)
    second = cluster.attempt(partition, body)
    first.go_on()
    return won(second)


def kill_late(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    first = cluster.attempt(partition, body)
    cluster.attempt(partition, body, hold=place)
    return won(first)


def wake_zombies(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    """Let all that was left behind go on while this task is at the place.

    Some of it comes to its end, some only to another place.
    """
    left = [attempt for attempt in cluster.attempts if attempt.held]
    this = cluster.attempt(partition, body, hold=place)
    for attempt, hold in zip(left, itertools.cycle([None, *IN_WORKERS]), strict=False):
        attempt.go_on(hold)
    this.go_on()
    return won(this)


def begin_late(cluster: Cluster, partition: int, body: Body, place: str) -> Batches:
    """Leave an attempt behind that has done nothing yet; see `wake_zombies`."""
    cluster.attempt(partition, body, hold="begun")
    return let_first_win(cluster, partition, body, place)


TWICE: tuple[Twice, ...] = (
    kill_first,
    let_first_win,
    kill_second,
    begin_late,
    let_second_win,
    wake_zombies,
    kill_late,
)


@pytest.mark.parametrize(
    ("place", "checkpoint"),
    [
        pytest.param(place, checkpoint, marks=() if quick else pytest.mark.long)
        for number, place in enumerate(IN_WORKERS)
        for checkpoint in (False, True)
        for quick in (number % 8 == checkpoint,)
    ],
)
def test_every_task_runs_twice(tmp_path, cluster_of, place, checkpoint):
    tasks = itertools.count()

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        task = next(tasks)  # so that each task of an epoch meets each way in turn
        way = TWICE[(task + task // len(TWICE)) % len(TWICE)]
        return way(cluster, partition, body, place)

    job = Job(tmp_path / "job", checkpoint=checkpoint)
    cluster = cluster_of(run_task)

    job.run()
    job.check_files()
    job.check_states()
    for attempt in cluster.attempts:
        attempt.go_on()  # long after the end of the job

    job.check_files()
    assert COUNTS == job.listed
    assert sorted(BAD) == job.lost


class Chance:
    """Attempts, losses and zombies by chance; the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._losses = 0  # no more than one epoch may have
        self.deaths = 0  # of drivers

    def run_task(self, cluster: Cluster, partition: int, body: Body) -> Batches:
        chance = self._chance
        attempts = []
        for _ in range(chance.choice([1, 2, 2, 3])):
            hold = chance.choice([None, *IN_WORKERS])
            attempts.append(cluster.attempt(partition, body, hold))
            self._wake(cluster, attempts)
        if chance.random() < 0.05 and self._losses < TRIES - 1:
            self._losses += 1
            msg = "Python worker exited unexpectedly"
            raise RuntimeError(msg)
        winner = chance.choice(attempts)
        winner.go_on()
        return won(winner)

    def _wake(self, cluster: Cluster, but: Collection[Attempt]) -> None:
        for attempt in cluster.attempts:
            if attempt.held and attempt not in but and self._chance.random() < 0.2:
                attempt.go_on(self._chance.choice([None, *IN_WORKERS]))

    def kill_driver(self, place: str, epoch: int) -> None:
        assert place in IN_DRIVER
        if self._chance.random() < 0.03:
            self.deaths += 1
            raise Killed


@pytest.mark.parametrize("seed", needs.quick(1, range(8)))
def test_attempts_overlap_by_chance(tmp_path, cluster_of, seed):
    """
    Every other seed has a checkpoint; then there are several hosts, and drivers die.
    """
    chance = Chance(seed)
    job = Job(tmp_path / "job", checkpoint=seed % 2 == 1)
    if job.checkpoint is None:
        cluster = cluster_of(chance.run_task)
        job.run()
    else:
        cluster = cluster_of(chance.run_task, hosts=3, in_driver=chance.kill_driver)
        while True:
            try:
                job.run()
                break
            except Killed:
                pass

    job.check_files()
    job.check_states()
    for attempt in cluster.attempts:
        attempt.go_on()
    job.check_files()
    if not chance.deaths:
        assert COUNTS == job.listed
        assert sorted(BAD) == job.lost


@pytest.mark.parametrize("reports", [0, 2])
def test_an_epoch_without_the_one_report_of_each_task_does_not_count(
    tmp_path, cluster_of, reports
):
    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        gave = won(cluster.attempt(partition, body))
        kept = []
        for batch in gave:
            own = pa.compute.equal(batch.column("unit"), REPORT)
            kept += [batch.filter(pa.compute.invert(own))]
            kept += [batch.filter(own)] * reports
        return kept

    cluster_of(run_task)

    with pytest.raises(EngineError, match="each task must report once"):
        Job(tmp_path / "job", checkpoint=False).run()
    assert not (tmp_path / "job" / "counts").exists()
