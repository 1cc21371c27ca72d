"""External sinks that tasks write: each epoch once, whatever is killed where."""

from __future__ import annotations

import itertools
import re
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pytest
from pyarrow import feather

import anabranch as ab
from anabranch.epochs.epoch_stages import EpochStages
from anabranch.epochs.faults import IN_DELIVERY, IN_DRIVER
from anabranch.errors import CheckpointError, FencedError, OperatorError, OutputError
from tests import needs
from tests.connectors.own import Files, Ledger
from tests.engines.spark.imitation import Batches, Body, Cluster, Killed, undisturbed
from tests.engines.spark.test_attempts import TWICE, won

ROWS, EPOCH_ITEMS = 24, 6


class Item(NamedTuple):
    key: str
    n: int


class Bag(NamedTuple):
    """An item that is no row of a table."""

    key: str
    held: object


ITEMS = [Item("abc"[n * n % 3], n) for n in range(ROWS)]


def add(total: int, item: Item) -> tuple[int, Item]:
    return total + item.n, Item(item.key, total + item.n)


def sums() -> list[list[object]]:
    """Return the running sums by key, by hand."""
    totals: dict[str, int] = {}
    rows = []
    for key, n in ITEMS:
        totals[key] = totals.get(key, 0) + n
        rows.append([key, totals[key]])
    return rows


def run(*sinks: ab.Sink, checkpoint=None, **options) -> ab.Job:
    stream = ab.from_iterable(ITEMS, Item).key_by("key").scan(add, 0)
    written = [stream.write(sink, name=f"s{n}") for n, sink in enumerate(sinks)]
    return ab.run(
        *written, epoch_items=EPOCH_ITEMS, degree=2, checkpoint=checkpoint, **options
    )


def run_until_done(sink: ab.Sink, checkpoint) -> int:
    """Run a job again and again while its driver dies; return how often it died."""
    for deaths in itertools.count():
        try:
            run(sink, checkpoint=checkpoint)
        except Killed:
            continue
        return deaths
    raise AssertionError


@pytest.fixture
def in_driver(monkeypatch):
    """The numbers of items that reach the driver, by sink, for each epoch."""
    found = []
    collect = EpochStages.collect_sinks

    def spy(stages, rows):
        sunk = collect(stages, rows)
        found.append({sink: len(items) for sink, items in sunk.items()})
        return sunk

    monkeypatch.setattr(EpochStages, "collect_sinks", spy)
    return found


@pytest.mark.parametrize("checkpoint", [False, True])
def test_the_items_of_two_sinks_are_written_by_tasks(
    tmp_path, cluster_of, in_driver, checkpoint
):
    cluster_of(undisturbed)
    first, second = Ledger(tmp_path / "first"), Ledger(tmp_path / "second")

    job = run(first, second, checkpoint=tmp_path / "checkpoint" if checkpoint else None)

    assert [sums(), sums()] == [first.rows(), second.rows()]
    assert [{}] * 4 == in_driver
    assert {"s0": ROWS, "s1": ROWS} == dict(job.metrics().delivered)


def test_a_sink_stays_in_the_driver_unless_it_may_leave_it(
    tmp_path, cluster_of, in_driver
):
    cluster_of(undisturbed)
    here, fixed = Ledger(tmp_path / "here"), Ledger(tmp_path / "fixed")
    here.in_workers = False
    fixed.lock = threading.Lock()  # which cannot be pickled

    run(here, fixed)

    assert [sums(), sums()] == [here.rows(), fixed.rows()]
    assert [{"s0": EPOCH_ITEMS, "s1": EPOCH_ITEMS}] * 4 == in_driver


@pytest.mark.parametrize("checkpoint", needs.quick(1, [True, False]))
@pytest.mark.parametrize("place", IN_DELIVERY)
def test_an_epoch_that_two_attempts_deliver_is_there_once(
    tmp_path, cluster_of, place, checkpoint
):
    tasks = itertools.count()

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        task = next(tasks)
        way = TWICE[(task + task // len(TWICE)) % len(TWICE)]
        return way(cluster, partition, body, place)

    cluster = cluster_of(run_task)
    sink = Ledger(tmp_path / "ledger")

    run(sink, checkpoint=tmp_path / "checkpoint" if checkpoint else None)
    for attempt in cluster.attempts:
        attempt.go_on()  # long after the end of the job

    assert sums() == sink.rows()


@pytest.mark.parametrize("place", needs.quick(2, sorted(IN_DRIVER)))
def test_a_driver_that_dies_in_every_epoch_loses_and_doubles_nothing(
    tmp_path, cluster_of, place
):
    met = set()

    def die(at: str, epoch: int) -> None:
        if at == place and epoch not in met:
            met.add(epoch)
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    sink = Ledger(tmp_path / "ledger")

    deaths = run_until_done(sink, tmp_path / "checkpoint")

    assert sums() == sink.rows()
    assert len(met) == deaths


@pytest.mark.parametrize("place", IN_DELIVERY)
def test_a_driver_that_dies_with_its_delivery_loses_and_doubles_nothing(
    tmp_path, cluster_of, place
):
    """
    The driver and the worker die while an epoch is delivered; the next driver delivers
    it itself, and dies there too.
    """
    met = set()

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        attempt = cluster.attempt(partition, body, hold=place)
        if attempt.held and "worker" not in met:
            met.add("worker")
            raise Killed
        attempt.go_on()
        return won(attempt)

    def die(at: str, epoch: int) -> None:
        if at == place and "driver" not in met:
            met.add("driver")
            raise Killed

    cluster_of(run_task, in_driver=die)
    sink = Ledger(tmp_path / "ledger")

    run_until_done(sink, tmp_path / "checkpoint")

    assert sums() == sink.rows()
    assert {"worker", *(["driver"] if place != "prepared" else [])} == met


def kill_once(cluster_of, place: str, epoch: int) -> None:
    """Let the driver die once, in an epoch."""
    met = []

    def die(at: str, now: int) -> None:
        if (at, now) == (place, epoch) and not met:
            met.append(now)
            raise Killed

    cluster_of(undisturbed, in_driver=die)


@pytest.mark.parametrize("in_workers", [False, True])
@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ("DELETE FROM rows", 0),
        ("DELETE FROM rows WHERE epoch > 1", 1),
        ("INSERT INTO rows VALUES (6, 0, '[]')", 6),
    ],
)
def test_a_sink_that_is_not_as_the_job_left_it_is_refused(
    tmp_path, cluster_of, change, answer, in_workers
):
    """Epoch 3 has begun: the sink has 2 epochs, and none waits."""
    kill_once(cluster_of, "ran", 3)
    sink = Ledger(tmp_path / "ledger")
    sink.in_workers = in_workers
    with pytest.raises(Killed):
        run(sink, checkpoint=tmp_path / "checkpoint")
    with closing(sqlite3.connect(sink.path)) as db, db:
        db.execute(change)

    for _ in range(2):  # it does not depend on who asks first
        with pytest.raises(
            OutputError,
            match=rf"sink 's0' \(Ledger, .* by the checkpoint 2; it returned {answer}: .*"
            "; restore the target",
        ):
            run(sink, checkpoint=tmp_path / "checkpoint")


@pytest.mark.parametrize("place", ["published", "delivered"])
@pytest.mark.parametrize("last", range(4))
def test_a_sink_may_lack_the_epoch_that_waits_and_no_other(
    tmp_path, cluster_of, place, last
):
    """The driver dies before or after it has delivered epoch 2."""
    kill_once(cluster_of, place, 2)
    sink = Ledger(tmp_path / "ledger")
    with pytest.raises(Killed):
        run(sink, checkpoint=tmp_path / "checkpoint")
    with closing(sqlite3.connect(sink.path)) as db, db:
        db.execute("DELETE FROM rows WHERE epoch > ?", [last])
        if last > len(db.execute("SELECT DISTINCT epoch FROM rows").fetchall()):
            db.execute("INSERT INTO rows VALUES (?, 0, '[]')", [last])

    if last in {1, 2}:
        run(sink, checkpoint=tmp_path / "checkpoint")
    else:
        with pytest.raises(OutputError, match=f"1 or 2; it returned {last}"):
            run(sink, checkpoint=tmp_path / "checkpoint")


def test_a_sink_without_items_in_the_last_epochs_resumes(tmp_path, cluster_of):
    """Only the first of four epochs has items for it; the driver dies in each."""
    met = set()

    def die(at: str, epoch: int) -> None:
        if at == "delivered" and epoch not in met:
            met.add(epoch)
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    sink = Ledger(tmp_path / "ledger")

    def start():
        few = ab.from_iterable(ITEMS, Item).filter(lambda item: item.n < 2)
        ab.run(
            few.write(sink),
            epoch_items=EPOCH_ITEMS,
            degree=2,
            checkpoint=tmp_path / "checkpoint",
        )

    for _ in range(4):
        with pytest.raises(Killed):
            start()
    start()

    assert [["a", 0], ["b", 1]] == sink.rows()
    assert {1, 2, 3, 4} == met


@pytest.mark.parametrize("place", ["delivered", "ran"])
def test_a_sink_that_refuses_whole_epochs_need_not_know_them(
    tmp_path, cluster_of, place
):
    met = set()

    def die(at: str, epoch: int) -> None:
        if at == place and epoch not in met:
            met.add(epoch)
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    sink = Ledger(tmp_path / "ledger", refused=7)

    def start():
        same = ab.from_iterable([1, 7, 7, 7, 2, 7], int).map(lambda n: n)
        ab.run(
            same.write(sink),
            epoch_items=1,
            degree=2,
            on_error="skip",
            checkpoint=tmp_path / "checkpoint",
        )

    for _ in range(6):
        with pytest.raises(Killed):
            start()
    start()

    assert [1, 2] == sink.rows()


def test_items_that_are_no_rows_survive_a_kill(tmp_path, cluster_of):
    met = []

    def die(at: str, epoch: int) -> None:
        if at == "published" and not met:
            met.append(epoch)
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    sink = Ledger(tmp_path / "ledger")

    def start():
        bags = ab.from_iterable(ITEMS, Item).map(
            lambda item: Bag(item.key, {"n": [item.n]}), type=Bag
        )
        ab.run(bags.write(sink), degree=2, checkpoint=tmp_path / "checkpoint")

    with pytest.raises(Killed):
        start()
    start()

    assert [[key, {"n": [n]}] for key, n in ITEMS] == sink.rows()


@pytest.mark.parametrize("place", ["prepared", "sent"])
def test_a_refused_item_is_a_dead_letter_although_the_driver_dies(
    tmp_path, cluster_of, place
):
    met = []

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        attempt = cluster.attempt(partition, body, hold=place)
        if attempt.held and not met:
            met.append(place)
            raise Killed
        attempt.go_on()
        return won(attempt)

    cluster_of(run_task)
    bad = Item(*sums()[3])
    sink = Ledger(tmp_path / "ledger", refused=bad)
    lost = []
    options = {"on_error": ab.dead_letter(lambda one: lost.append(one.item))}

    with pytest.raises(Killed):
        run(sink, checkpoint=tmp_path / "checkpoint", **options)
    job = run(sink, checkpoint=tmp_path / "checkpoint", **options)

    assert [row for row in sums() if row != list(bad)] == sink.rows()
    assert [bad] == lost
    assert ROWS - 1 == job.metrics().delivered["s0"]


def test_a_refused_item_stops_a_job_that_does_not_skip(tmp_path, cluster_of):
    cluster_of(undisturbed)
    bad = Item(*sums()[EPOCH_ITEMS + 1])
    sink = Ledger(tmp_path / "ledger", refused=bad)

    with pytest.raises(OutputError, match="not for us"):
        run(sink)

    assert sums()[:EPOCH_ITEMS] == sink.rows()


def test_items_before_a_failure_are_delivered(tmp_path, cluster_of):
    cluster_of(undisturbed)
    sink = Ledger(tmp_path / "ledger")
    halves = ab.from_iterable(ITEMS, Item).map(lambda item: 1 // (item.n - 8))

    with pytest.raises(OperatorError, match="ZeroDivisionError"):
        ab.run(halves.write(sink), epoch_items=EPOCH_ITEMS, degree=2)

    assert [1 // (n - 8) for n in range(8)] == sink.rows()


@dataclass
class Chunks(ab.Sink):
    """One Arrow file for each epoch that came as a table, one of lines for another."""

    directory: str
    in_workers = takes_tables = True

    def write(self, items):
        self.items = items

    def commit(self, epoch):
        path = Path(self.directory) / f"{epoch:05}"
        table = getattr(self.items, "table", None)
        if table is None:
            path.with_suffix(".txt").write_text("".join(f"{i}\n" for i in self.items))
        else:
            feather.write_feather(table, str(path.with_suffix(".arrow")))

    def rows(self):
        files = sorted(Path(self.directory).glob("*.arrow"))
        tables = [feather.read_table(file).to_pylist() for file in files]
        return [list(row.values()) for table in tables for row in table]


def test_a_sink_of_ones_own_takes_the_items_of_an_epoch_as_a_table(
    tmp_path, cluster_of, in_driver
):
    cluster_of(undisturbed)
    sink = Chunks(str(tmp_path))

    run(sink)

    assert sums() == sink.rows()
    assert [{}] * 4 == in_driver
    assert [] == list(tmp_path.glob("*.txt"))


def test_items_that_are_no_rows_come_one_by_one_to_a_sink_that_takes_tables(
    tmp_path, cluster_of
):
    cluster_of(undisturbed)
    bags = ab.from_iterable(ITEMS, Item).map(lambda item: Bag(item.key, {item.n: ()}))

    ab.run(bags.write(Chunks(str(tmp_path))), epoch_items=EPOCH_ITEMS, degree=2)

    lines = [file.read_text() for file in sorted(tmp_path.glob("*.txt"))]
    assert "".join(f"{Bag(i.key, {i.n: ()})}\n" for i in ITEMS) == "".join(lines)
    assert [] == list(tmp_path.glob("*.arrow"))


def test_a_sink_that_does_not_take_tables_gets_a_list(tmp_path, cluster_of):
    cluster_of(undisturbed)
    sink = Chunks(str(tmp_path))
    sink.takes_tables = False

    run(sink)

    assert [] == sink.rows()
    assert 4 == len(list(tmp_path.glob("*.txt")))


class Fenced(Files):
    """Says at every commit that another process writes."""

    in_workers = True

    def commit(self, epoch):
        msg = "somebody else writes"
        raise FencedError(msg)


def test_a_sink_that_is_always_fenced_ends_the_job(tmp_path, cluster_of):
    cluster_of(undisturbed)

    with pytest.raises(FencedError, match="somebody else"):
        run(Fenced(str(tmp_path)))


def test_a_run_that_was_replaced_does_not_try_again(tmp_path, cluster_of):
    """
    A later run has the checkpoint: the earlier one says so instead of fencing it off.
    """

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        attempt = cluster.attempt(partition, body, hold="prepared")
        if attempt.held:
            (tmp_path / "checkpoint" / "runs" / "99").touch()
        attempt.go_on()
        return won(attempt)

    cluster_of(run_task)

    with pytest.raises(CheckpointError, match="another one has gone on"):
        run(Fenced(str(tmp_path)), checkpoint=tmp_path / "checkpoint")


def test_nothing_is_left_of_items_that_were_delivered(tmp_path, cluster_of):
    cluster_of(undisturbed)

    run(Ledger(tmp_path / "ledger"), checkpoint=tmp_path / "checkpoint")

    (mark,) = (tmp_path / "checkpoint" / "deliveries").iterdir()
    assert (".delivered", b"") == (mark.suffix, mark.read_bytes())


@pytest.mark.parametrize("gone", ["*.pickle", "*.items"])
def test_items_that_vanish_before_they_are_delivered_are_told(
    tmp_path, cluster_of, gone
):
    cluster_of(undisturbed, in_driver=die_at("published", 3))
    sink, checkpoint = Ledger(tmp_path / "ledger"), tmp_path / "checkpoint"
    with pytest.raises(Killed):
        run(sink, checkpoint=checkpoint)
    file = max((checkpoint / "deliveries").glob(gone))  # of the last epoch
    kept = file.read_bytes()
    file.unlink()

    with pytest.raises(CheckpointError, match=re.escape(file.name)):
        run(sink, checkpoint=checkpoint)

    assert sums()[: 2 * EPOCH_ITEMS] == sink.rows()
    file.write_bytes(kept)
    run(sink, checkpoint=checkpoint)
    assert sums() == sink.rows()


def test_items_for_the_driver_that_vanish_are_computed_again(tmp_path, cluster_of):
    """A function gets an epoch again rather than never."""
    cluster_of(undisturbed, in_driver=die_at("published", 3))
    seen: list[int] = []
    checkpoint = tmp_path / "checkpoint"

    def start() -> None:
        numbers = ab.from_iterable(range(ROWS), int).map(abs)
        ab.run(
            numbers.for_each(seen.append),
            epoch_items=EPOCH_ITEMS,
            degree=2,
            checkpoint=checkpoint,
        )

    with pytest.raises(Killed):
        start()
    (file,) = (checkpoint / "deliveries").glob("*.pickle")
    file.unlink()

    with pytest.warns(RuntimeWarning, match=re.escape(file.name)):
        start()

    assert [*range(ROWS)] == seen


def test_dead_letters_of_a_sink_that_vanish_are_told(tmp_path, cluster_of):
    cluster_of(undisturbed, in_driver=die_at("delivered", 1))
    sink, checkpoint = Ledger(tmp_path / "ledger"), tmp_path / "checkpoint"
    sink.refused = Item(*sums()[3])
    lost: list[Item] = []
    options = {"on_error": ab.dead_letter(lambda one: lost.append(one.item))}
    with pytest.raises(Killed):
        run(sink, checkpoint=checkpoint, **options)
    (file,) = (checkpoint / "deliveries").glob("*-refused.pickle")
    file.unlink()

    with pytest.raises(CheckpointError, match=re.escape(file.name)):
        run(sink, checkpoint=checkpoint, **options)


def die_at(place: str, epoch: int):
    """Return what kills the driver there, once."""
    left = [(place, epoch)]

    def die(*at: object) -> None:
        if at in left:
            left.clear()
            raise Killed

    return die
