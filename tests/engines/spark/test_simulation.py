"""The loop of epochs, its states and its checkpoint under schedules by chance.

A schedule is a seed. It says how many attempts a task has and in which order they run;
where each is held, dies, or lives on as a zombie into later epochs and runs; whether tasks
stay, and then what they do and hear in which order, with epochs that overlap; where the
driver dies; whether the machine then loses its power, so that what was not synced is
torn and the states of the hosts are gone; where a second driver takes over while the
first still lives; and whether checkpoint and outputs are in a store, which has no lock,
no rename and no link, and which keeps what it has taken. Two of the sinks are systems
outside, which tasks write: one fences a writer off when another one comes, as Kafka does;
all tasks write the other in parts, which the driver commits or, with an odd seed, a worker.
Whatever happens, the outputs must be those of one thread. The
same seed gives the same schedule: ``pytest --all tests/.../test_simulation.py -k seed7``.
More of them, until an hour is over or one of them fails:

    python -m tests.engines.spark.test_simulation --seeds 300:100000 --minutes 60

Everything is ours but Spark, for which `imitation` stands. The program is compiled once,
and what a stage costs is drawn from the seed instead of being measured.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import gc
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch import job
from anabranch.epochs.checkpoint import directory as upkeep
from anabranch.epochs.cluster import TRIES
from anabranch.epochs.division import OF_JOBS, Divider, StageCosts
from anabranch.epochs.faults import IN_DELIVERY, IN_WORKERS
from anabranch.epochs.state import buckets
from anabranch.epochs.state.store import close_buckets
from anabranch.epochs.transport import pickle, ship
from anabranch.errors import AnabranchError, FencedError
from anabranch.operators.sinks import WriteFiles
from anabranch.runtime.ambient import AmbientSettings
from tests import needs
from tests.connectors.own import Ledger, Parted
from tests.engines.spark.imitation import (
    Attempt,
    Batches,
    Body,
    Cluster,
    Killed,
    imitated,
)
from tests.engines.spark.test_attempts import won

ROWS, EPOCH_ITEMS, KEYS = 18, 6, "abc"
BUCKETS, STORES = 16, 4  # of keys, the fewest there are; of a unit
QUICK, ALL = 2, 300
FREE = StageCosts(0.0, 0.0)
HELD_AT = (None, *IN_WORKERS, *IN_DELIVERY)
COLLECT = 20  # schedules from one collection of garbage to the next
MOST_DEATHS = 6  # of drivers, in one schedule


class Item(NamedTuple):
    key: str
    n: int


ITEMS = [Item(KEYS[n * n % 3], n) for n in range(ROWS)]


def add(total: int, item: Item) -> tuple[int, Item]:
    return total + item.n, Item(item.key, total + item.n)


def join_numbers(items: list[Item]) -> str:
    return "+".join(str(item.n) for item in items)


def expected() -> tuple[list[str], list[str]]:
    """Return the running sums by key, and the windows of two of them, by hand."""
    sums: dict[str, int] = {}
    held: dict[str, list[str]] = {}
    rows, windows = [], []
    for key, n in ITEMS:
        sums[key] = sums.get(key, 0) + n
        rows.append(f"{key},{sums[key]}")
        held.setdefault(key, []).append(str(sums[key]))
        if len(held[key]) == 2:
            windows.append("+".join(held.pop(key)))
    return rows, windows + ["+".join(held[key]) for key in sorted(held)]


class Disk:
    """Knows what was synced; the rest is torn when the power fails."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._synced: set[int] = set()

    def sync(self, descriptor: int) -> None:
        self._synced.add(os.fstat(descriptor).st_ino)

    def lose_power(self) -> None:
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and path.stat().st_ino not in self._synced:
                size = path.stat().st_size
                os.truncate(path, self._chance.randint(0, size) if size else 0)


class Schedule:
    """What happens in one simulation, by a seed; `log` tells it."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.disk = Disk(folder, self.chance)
        self.log: list[str] = []
        self.deaths = 0
        self.second: Callable[[], None] | None = None  # starts a second driver
        self._losses = 0

    def run_task(self, cluster: Cluster, partition: int, body: Body) -> Batches:
        chance = self.chance
        attempts: list[Attempt] = []
        for _ in range(chance.choice([1, 1, 2, 3])):
            hold = chance.choice(HELD_AT)
            self.log.append(f"task {partition} to {hold}")
            attempts.append(cluster.attempt(partition, body, hold))
            self._wake(cluster, attempts)
        if chance.random() < 0.04 and self._losses < TRIES - 1:
            self._losses += 1
            self.log.append("a worker is lost")
            msg = "Python worker exited unexpectedly"
            raise RuntimeError(msg)
        winner = chance.choice(attempts)
        winner.go_on()
        return won(winner)

    def _wake(self, cluster: Cluster, but: list[Attempt]) -> None:
        for attempt in cluster.attempts:
            if attempt.held and attempt not in but and self.chance.random() < 0.2:
                hold = self.chance.choice(HELD_AT)
                self.log.append(f"zombie {attempt.number} to {hold}")
                attempt.go_on(hold)

    def choose(self, steps: Sequence[str]) -> str:
        chosen = self.chance.choice(steps)
        self.log.append(chosen)
        return chosen

    def hold_stage(self) -> str | None:
        return self.chance.choice(HELD_AT)

    def lose(self) -> bool:
        lost = self.chance.random() < 0.01 and self._losses < TRIES - 1
        if lost:
            self._losses += 1
            self.log.append("a resident task is lost")
        return lost

    def in_driver(self, place: str, epoch: int) -> None:
        if self.deaths < MOST_DEATHS and self.chance.random() < 0.08:
            self.deaths += 1
            self._losses = 0
            self.log.append(f"the driver dies: {place} {epoch}")
            raise Killed
        if self.second is not None and self.chance.random() < 0.05:
            start, self.second = self.second, None
            self.log.append(f"a second driver: {place} {epoch}")
            start()


@functools.cache
def make_ledger(path: Path, _driver: int) -> Ledger:
    """Return the sink outside of one driver; two of them share nothing but the system."""
    return Ledger(path)


@functools.cache
def make_parted(path: Path, _driver: int, *, in_workers: bool) -> Parted:
    """Return the sink in parts of one driver."""
    sink = Parted(path)
    sink.in_workers = in_workers
    return sink


class Simulation:
    """One job under one schedule, until it has come to its end."""

    def __init__(
        self, monkeypatch, folder: Path, seed: int, *, store=False, exist_ok=False
    ) -> None:
        self._store = store
        self.folder = folder / "job"
        self.folder.mkdir(exist_ok=exist_ok)
        self.hosts = folder / "hosts"
        self._ledgers = [make_ledger(folder / "ledger", n) for n in range(2)]
        self._parted = [
            make_parted(folder / "parted", n, in_workers=bool(seed % 2))
            for n in range(2)
        ]
        self._monkeypatch = monkeypatch
        self.schedule = Schedule(seed, self.folder)
        self._taken_over = False

    def run(self) -> None:
        if self.schedule.chance.random() < 0.4:
            self.schedule.second = self._take_over
        self.drive_to_the_end()

    def drive_to_the_end(self) -> None:
        """Start one driver after the other; between two of them the power may fail."""
        while not self._drive():
            if self.schedule.chance.random() < 0.5:
                self.schedule.log.append("the power fails")
                close_buckets()
                shutil.rmtree(self.hosts, ignore_errors=True)
                if not self._store:
                    self.schedule.disk.lose_power()

    def _drive(self) -> bool:
        """Run a driver; tell whether the job has come to its end."""
        schedule = self.schedule
        hosts = 1 + schedule.chance.randrange(2)
        stays = schedule.chance.random() < 0.5
        costs = schedule.chance.choice([OF_JOBS, FREE])
        cluster = Cluster(schedule.run_task, hosts, schedule if stays else None)
        patch = self._monkeypatch
        with (
            imitated(patch, cluster, self.hosts, self.schedule.in_driver),
            patch.context() as also,
        ):
            also.setattr(os, "fsync", self.schedule.disk.sync)
            also.setattr(
                Divider, "measure_costs", lambda one, _: setattr(one, "costs", costs)
            )
            try:
                self.start()
            except (Killed, FencedError):  # fenced off as often as it may try
                return False
            except AnabranchError:
                if not self._taken_over:
                    raise
                self._taken_over = False
                return False
        return True

    def _take_over(self) -> None:
        """Run a second driver to its end or death, as where locks do not work."""
        self._taken_over = True
        with self._monkeypatch.context() as patch:
            if not self._store:
                patch.setattr(fcntl, "flock", lambda *_: None)
            try:
                self.start(1)
            except Killed:
                self.schedule.log.append("the second driver is dead")

    def start(self, driver: int = 0) -> None:
        sums = ab.from_iterable(ITEMS, Item).key_by("key").scan(add, 0)
        ab.run(
            sums.write_csv(self._locate("sums")),
            sums.window(count=2)
            .aggregate(join_numbers)
            .write_jsonl(self._locate("windows.jsonl")),
            sums.write(self._ledgers[driver]),
            sums.write(self._parted[driver]),
            epoch_items=EPOCH_ITEMS,
            degree=2,
            checkpoint=self._locate("checkpoint"),
            buckets=BUCKETS,
            verify="off",
        )

    def _locate(self, name: str) -> str:
        return f"{'local://' if self._store else ''}{self.folder / name}"

    def outputs(self) -> tuple[list[str], list[str], list[str], list[str]]:
        parts = sorted((self.folder / "sums").glob("part-*"))
        rows = [row for part in parts for row in part.read_text().splitlines()[1:]]
        lines = (self.folder / "windows.jsonl").read_text().splitlines()
        assert (self.folder / "sums" / "_SUCCESS").exists()
        return (
            rows,
            [line.strip('"') for line in lines],
            [f"{key},{n}" for key, n in self._ledgers[0].rows()],
            [f"{key},{n}" for key, n in self._parted[0].rows()],
        )


def simulate(folder: Path, seed: int, *, store: bool) -> Schedule:
    """Run a job under the schedule of a seed; raise unless it gives what it must."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upkeep, "_LEAST", 1)  # snapshots in every epoch
        patch.setattr(upkeep, "_LISTED", 2)  # files that list parts
        patch.setattr(buckets, "_STORES", STORES)
        simulation = Simulation(patch, folder, seed, store=store)
        simulation.run()
    sums, windows = expected()
    found = simulation.outputs()
    assert (sums, windows, sums, sums) == found, "\n".join(simulation.schedule.log)
    return simulation.schedule


@contextlib.contextmanager
def hurry():
    """Do once what is the same in each run of this program, and is not under test."""
    made: dict[object, object] = {}
    compile_with = job.compile_with

    def compile_once(rules, sinks, on, on_error):
        kinds = [sink.draft.kind for sink in sinks]
        where = (
            rules,
            *(
                kind.path if isinstance(kind, WriteFiles) else kind.sink
                for kind in kinds
            ),
        )
        if where not in made:
            made[where] = compile_with(rules, sinks, on, on_error)
        return made[where]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "compile_with", compile_once)
        patch.setattr(AmbientSettings, "in_force", lambda _: contextlib.nullcontext())
        for module in (ship, pickle):
            patch.setattr(module, "not_importable", tuple)
        yield


@pytest.mark.parametrize("store", [False, True], ids=["disk", "store"])
@pytest.mark.parametrize(
    "seed", needs.quick(QUICK, range(ALL)), ids=lambda seed: f"seed{seed}"
)
def test_every_schedule_gives_what_one_thread_gives(tmp_path, seed, store):
    with hurry():
        simulate(tmp_path, seed, store=store)


@pytest.mark.long
def test_a_seed_gives_the_same_schedule_again(tmp_path):
    logs = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        logs.append(simulate(tmp_path / str(number), 3, store=False).log)

    assert logs[0] == logs[1]
    assert any("the driver dies" in line for line in logs[0])


def main() -> int:
    """Run schedules, on a disk and in a store in turn, and count what happened."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", default=f"0:{ALL}", metavar="FIRST:LAST")
    parser.add_argument("--minutes", type=float, default=60)
    chosen = parser.parse_args()
    first, last = map(int, chosen.seeds.split(":"))
    until_s = time.monotonic() + 60 * chosen.minutes
    warnings.simplefilter("ignore")
    happened: Counter[str] = Counter()
    failed = []
    gc.disable()  # see COLLECT
    with hurry(), tempfile.TemporaryDirectory() as made:
        for seed in range(first, last):
            if time.monotonic() > until_s:
                last = seed
                break
            if (seed - first) % COLLECT == 0:
                gc.collect()
            folder = Path(made) / "simulation"  # the same place: one compilation
            folder.mkdir()
            try:
                schedule = simulate(folder, seed, store=seed % 2 == 1)
            except Exception as error:  # noqa: BLE001 - the next seeds run all the same
                failed.append(seed)
                print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)  # noqa: T201 - a tool
            else:
                happened["deaths of drivers"] += schedule.deaths
                for words in ("power", "zombie", "second driver:", "is lost"):
                    happened[words] += sum(words in line for line in schedule.log)
            shutil.rmtree(folder)
    told = f"seeds {first} to {last - 1}: {len(failed)} failed {failed}"
    print(f"{told}; {dict(happened)}")  # noqa: T201 - a tool
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
