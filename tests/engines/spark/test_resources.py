"""What a job needs runs out: space, file handles, processes; or a disk is slow, or the
clock is set.

The error names what ran out and what to do. When there is enough again, the same
command resumes, and the output is that of one thread. The epochs run on an imitation of
Spark (see `imitation`), with everything else real: the full disk is a small file system.
"""

from __future__ import annotations

import itertools
import os
import random
import resource
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.errors import PySparkException

import anabranch as ab
from anabranch.connectors.storage import StorePath
from anabranch.epochs.cluster import TRIES
from anabranch.epochs.state import store
from anabranch.errors import (
    AnabranchError,
    CheckpointError,
    EngineError,
    OutputError,
)
from tests import needs
from tests.engines.spark.imitation import (
    Batches,
    Body,
    Cluster,
    imitated,
    undisturbed,
)

ROWS, KEYS, EPOCH_ITEMS = 400, 7, 80
LOST = "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"


class Item(NamedTuple):
    key: int
    number: int


ITEMS = [Item(n * n % KEYS, n) for n in range(ROWS)]


def add(total: int, item: Item) -> tuple[int, Item]:
    return total + item.number, Item(item.key, total + item.number)


def expected() -> list[str]:
    """Return the running sums by key, by hand."""
    sums = dict.fromkeys(range(KEYS), 0)
    rows = []
    for key, number in ITEMS:
        sums[key] += number
        rows.append(f"{key},{sums[key]}")
    return rows


class Places(NamedTuple):
    """Where a job keeps what."""

    output: Path
    checkpoint: Path
    states: Path

    def read(self) -> list[str]:
        if self.output.is_file():
            return self.output.read_text().splitlines()[1:]
        parts = sorted(self.output.glob("part-*"))
        assert (self.output / "_SUCCESS").exists()
        return [row for part in parts for row in part.read_text().splitlines()[1:]]


@pytest.fixture
def places(tmp_path) -> Places:
    return Places(tmp_path / "sums", tmp_path / "checkpoint", tmp_path / "states")


def run(
    places: Places,
    run_task: Callable[[Cluster, int, Body], Batches] = undisturbed,
    url: str = "",
) -> None:
    sums = ab.from_iterable(ITEMS, Item).key_by("key").scan(add, 0)
    with imitated(pytest.MonkeyPatch(), Cluster(run_task), places.states):
        ab.run(
            sums.write_csv(f"{url}{places.output}"),
            on="spark",
            degree=2,
            epoch_items=EPOCH_ITEMS,
            checkpoint=f"{url}{places.checkpoint}",
        )


class Disk:
    """A file system of its own, with little space at first."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _mount(self, *options: str) -> subprocess.CompletedProcess[bytes]:
        command = ["mount", *options, "tmpfs", str(self.path)]
        return subprocess.run(command, check=False, capture_output=True)

    def mount(self, kilobytes: int) -> bool:
        return not self._mount(
            "-t", "tmpfs", "-o", f"size={kilobytes}k,mode=700"
        ).returncode

    def grow(self) -> None:
        assert not self._mount("-o", "remount,size=100m").returncode


@pytest.fixture
def disk(tmp_path, request) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk")
    made.path.mkdir()
    if os.geteuid() or not made.mount(4):
        needs.leave_out(request.config, needs.MOUNT)
    subprocess.run(["umount", made.path], check=True)
    yield made
    subprocess.run(["umount", "-q", "-l", made.path], check=False)


FULL = {
    "output": (OutputError, "sums must be writable; No space left on device; free"),
    "checkpoint": (CheckpointError, "/checkpoint.*: No space left on device; free"),
    "states": (
        EngineError,
        "use the disk of its host; .* on .*; (free|check the) spac",
    ),
}


@pytest.mark.parametrize("kilobytes", needs.quick(1, [16, 4, 8, 12, 20]))
@pytest.mark.parametrize("full", FULL)
def test_a_job_on_a_full_disk_says_so_and_resumes_when_there_is_space(
    places, disk, full, kilobytes
):
    assert disk.mount(kilobytes)
    places = places._replace(**{full: disk.path / full})
    if full == "output":
        disk.path.joinpath(full).mkdir()
        places = places._replace(output=disk.path / full / "sums")
    error, text = FULL[full]
    with pytest.raises(error, match=text):
        run(places)
    assert not (places.output / "_SUCCESS").exists()

    disk.grow()
    run(places)
    assert expected() == places.read()


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_full_disk_leaves_no_output_that_looks_complete(disk, on):
    assert disk.mount(4)
    out = disk.path / "sums.csv"
    sums = ab.from_iterable(ITEMS * 9, Item).key_by("key").scan(add, 0).write_csv(out)

    with pytest.raises(OutputError, match=r"sums.csv must be writable; No space left"):
        ab.run(sums, on=on)
    assert [] == list(disk.path.iterdir())


def count_handles() -> int:
    return len(os.listdir("/proc/self/fd")) - 1  # noqa: PTH208 - and the listing's own


@pytest.fixture
def handles(monkeypatch) -> Iterator[Callable[[int | None], None]]:
    """Allow so many files more than are open; None: as many as before."""
    set_limit, before = resource.setrlimit, resource.getrlimit(resource.RLIMIT_NOFILE)
    monkeypatch.setattr(resource, "setrlimit", lambda *_: None)  # jobs may not raise it

    def allow(more: int | None) -> None:
        soft = before[0] if more is None else count_handles() + more
        set_limit(resource.RLIMIT_NOFILE, (soft, before[1]))

    yield allow
    allow(None)


@pytest.mark.parametrize("more", needs.quick(2, [6, 1, 0, 2, 3, 4, 9, 12, 15, 18]))
def test_without_file_handles_a_job_says_so_and_resumes_with_them(
    places, handles, more
):
    run_some = run_at_most(3)
    with pytest.raises(EngineError, match="one was lost"):
        run(places, run_some)  # so that there is something to read again
    warnings.simplefilter("error")  # nothing is damaged
    handles(more)
    with pytest.raises(AnabranchError) as told:
        run(places)
    handles(None)

    assert "Too many open files" in str(told.value)
    assert "allow more open files (ulimit -n)" in str(told.value)
    run(places)
    assert expected() == places.read()


def run_at_most(tasks: int) -> Callable[[Cluster, int, Body], Batches]:
    """Run so many tasks; then the system ends each process for want of memory."""
    left = iter(range(tasks))

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        if next(left, None) is None:
            raise PySparkException(LOST)
        return undisturbed(cluster, partition, body)

    return run_task


@pytest.mark.parametrize("tasks", needs.quick(2, [0, 12, 1, 4, 9, 14]))
def test_a_process_that_is_ended_again_and_again_is_named_with_what_to_do(
    places, tasks
):
    with pytest.raises(EngineError) as told:
        run(places, run_at_most(tasks))

    assert "one was lost while 'from_iterable' or 'scan'" in str(told.value)
    assert "for want of memory" in str(told.value)
    assert "epoch_items=" in str(told.value)
    run(places)
    assert expected() == places.read()


def test_a_process_that_is_ended_for_a_while_costs_nothing_but_time(places):
    ended = itertools.count()

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        if next(ended) % TRIES:
            raise PySparkException(LOST)
        return undisturbed(cluster, partition, body)

    with pytest.raises(EngineError, match="one was lost"):
        run(places, run_task)
    run(places)
    assert expected() == places.read()


@pytest.mark.parametrize("calls", needs.quick(1, [3, 0, 1, 9, 19]))  # of 20
def test_a_task_that_runs_out_of_memory_says_so_and_the_job_resumes(
    places, monkeypatch, calls
):
    left, write = iter(range(calls)), store.BucketStore.write

    def write_some(*given: Any, **named: Any) -> list[int]:
        if next(left, None) is None:
            raise MemoryError
        return write(*given, **named)

    monkeypatch.setattr(store.BucketStore, "write", write_some)
    with pytest.raises(EngineError) as told:
        run(places)
    monkeypatch.setattr(store.BucketStore, "write", write)

    assert "a task must have enough memory" in str(told.value)
    assert "epoch_items=" in str(told.value)
    run(places)
    assert expected() == places.read()


def test_a_slow_store_changes_nothing(places, monkeypatch):
    """Every look and every write takes its time; tasks overlap as they like."""
    chance = random.Random(4)
    for name in ("exists", "open", "put", "unlink", "iterdir"):
        if not hasattr(StorePath, name):
            continue
        quick = getattr(StorePath, name)

        def slow(*given, quick=quick, **named):
            time.sleep(chance.choice([0, 0.002, 0.01]))
            return quick(*given, **named)

        monkeypatch.setattr(StorePath, name, slow)
    run(places, url="local://")

    assert expected() == places.read()


@pytest.fixture
def jumping(monkeypatch) -> None:
    """The clock of the machine is set by hours at every look."""
    chance, wall = random.Random(7), time.time
    monkeypatch.setattr(time, "time", lambda: wall() + chance.uniform(-1e5, 1e5))


@pytest.mark.usefixtures("jumping")
def test_a_clock_that_is_set_changes_no_result_and_no_phase_of_an_epoch(places):
    run(places)

    assert expected() == places.read()


@pytest.mark.usefixtures("jumping")
@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_clock_that_is_set_changes_no_result_here(on):
    sums = ab.from_iterable(ITEMS, Item).key_by("key").scan(add, 0).to_list()
    ab.run(sums, on=on, item_timeout="1 min")

    assert expected() == [f"{key},{total}" for key, total in sums.items]
