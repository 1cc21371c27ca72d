"""Sinks that tasks write in parts: each item once and in order, whatever is killed where."""

from __future__ import annotations

import itertools
import json
import threading

import pytest

import anabranch as ab
from anabranch.connectors.delta import DeltaSink
from anabranch.connectors.iceberg import IcebergSink
from anabranch.engines.spark.engine import SparkBackend
from anabranch.epochs.epoch_stages import EpochStages
from anabranch.epochs.faults import IN_DELIVERY, IN_DRIVER, IN_WORKERS
from anabranch.errors import EngineError, OperatorError, OutputError
from tests import needs
from tests.connectors.own import Numbering, Parted
from tests.engines.spark.imitation import Batches, Body, Cluster, Killed, undisturbed
from tests.engines.spark.test_attempts import TWICE, won
from tests.engines.spark.test_delivery import ITEMS, ROWS, Item, add, sums
from tests.programs.compare import compare

EPOCH_ITEMS, DEGREE = 6, 3


def run(sink: ab.Sink, checkpoint=None, *, keyed: bool = True, **options) -> ab.Job:
    stream = ab.from_iterable(ITEMS, Item)
    if keyed:
        stream = stream.key_by("key").scan(add, 0)
    written = stream.write(sink, name="parts")
    return ab.run(
        written,
        epoch_items=EPOCH_ITEMS,
        degree=DEGREE,
        checkpoint=checkpoint,
        **options,
    )


def run_until_done(sink: ab.Sink, checkpoint) -> int:
    """Run a job again and again while its driver dies; return how often it died."""
    for deaths in itertools.count():
        try:
            run(sink, checkpoint)
        except Killed:
            continue
        return deaths
    raise AssertionError


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
def test_tasks_write_parts_in_the_order_of_the_items(
    tmp_path, cluster_of, monkeypatch, checkpoint, keyed
):
    cluster_of(undisturbed)
    sink = Parted(tmp_path / "out")
    found = []
    collect = EpochStages.collect_sinks
    monkeypatch.setattr(
        EpochStages,
        "collect_sinks",
        lambda stages, rows: found.append(collect(stages, rows)) or found[-1],
    )

    job = run(sink, tmp_path / "checkpoint" if checkpoint else None, keyed=keyed)

    assert (sums() if keyed else [list(item) for item in ITEMS]) == sink.rows()
    assert [DEGREE] * 4 == [len(parts) for parts in sink.epochs()]
    assert [{}] * 4 == found  # no item reaches the driver
    assert {"parts": ROWS} == dict(job.metrics().delivered)


@pytest.mark.parametrize("checkpoint", needs.quick(1, [True, False]))
@pytest.mark.parametrize("place", [*IN_WORKERS, *IN_DELIVERY])
def test_of_two_attempts_one_part_counts(tmp_path, cluster_of, place, checkpoint):
    tasks = itertools.count()

    def run_task(cluster: Cluster, partition: int, body: Body) -> Batches:
        task = next(tasks)
        way = TWICE[(task + task // len(TWICE)) % len(TWICE)]
        return way(cluster, partition, body, place)

    cluster = cluster_of(run_task)
    sink = Parted(tmp_path / "out")
    sink.in_workers = place in IN_DELIVERY

    run(sink, tmp_path / "checkpoint" if checkpoint else None)
    for attempt in cluster.attempts:
        attempt.go_on()  # long after the end of the job

    assert sums() == sink.rows()


@pytest.mark.parametrize("in_workers", needs.quick(1, [False, True]))
@pytest.mark.parametrize("kind", [Parted, Numbering])
@pytest.mark.parametrize("place", sorted({*IN_DRIVER, "delivering", "sent"}))
def test_a_driver_that_dies_in_every_epoch_loses_and_doubles_nothing(
    tmp_path, cluster_of, place, kind, in_workers
):
    met = set()

    def die(at: str, epoch: int) -> None:
        if at == place and epoch not in met:
            met.add(epoch)
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    sink = kind(tmp_path / "out")
    sink.in_workers = in_workers

    deaths = run_until_done(sink, tmp_path / "checkpoint")

    unmet = {"half-published", "half-completed"}
    if in_workers:
        unmet |= {"delivering", "sent"}
    assert sums() == sink.rows()
    assert len(met) == deaths
    assert (len(met) > 0) == (place not in unmet)


@pytest.mark.parametrize("place", IN_DELIVERY)
def test_a_driver_that_dies_with_the_worker_that_commits_loses_and_doubles_nothing(
    tmp_path, cluster_of, place
):
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
    sink = Numbering(tmp_path / "out")
    sink.in_workers = True

    run_until_done(sink, tmp_path / "checkpoint")

    assert sums() == sink.rows()
    assert {"worker", *(["driver"] if place != "prepared" else [])} == met


@pytest.mark.parametrize("refused", [Item("a", 3), Item("b", 13)])
def test_a_refused_item_is_left_out_with_its_place(tmp_path, cluster_of, refused):
    cluster_of(undisturbed)
    sink = Parted(tmp_path / "out", refused=refused)
    path = tmp_path / "letters.jsonl"

    job = run(sink, keyed=False, on_error=ab.dead_letter(str(path)))

    assert [list(item) for item in ITEMS if item != refused] == sink.rows()
    (letter,) = map(json.loads, path.read_text().splitlines())
    assert f"item {refused.n + 1} of from_iterable" == letter["where"]
    assert {"parts": ROWS - 1} == dict(job.metrics().delivered)


def test_a_refused_item_stops_a_job_that_does_not_skip(tmp_path, cluster_of):
    cluster_of(undisturbed)
    sink = Parted(tmp_path / "out", refused=Item("b", 14))

    with pytest.raises(OutputError, match=r"does not take .*n=14.* not for us"):
        run(sink, keyed=False)

    assert [list(item) for item in ITEMS[:12]] == sink.rows()


def test_a_refused_item_is_a_dead_letter_although_the_driver_dies(tmp_path, cluster_of):
    met = []

    def die(at: str, epoch: int) -> None:
        if at in {"sent", "delivered"} and (at, epoch) not in met:
            met.append((at, epoch))
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    sink = Numbering(tmp_path / "out", refused=["a", 5])
    path = tmp_path / "letters.jsonl"

    while True:
        try:
            stream = ab.from_iterable([["a", n] for n in range(12)])
            ab.run(
                stream.write(sink),
                epoch_items=EPOCH_ITEMS,
                degree=DEGREE,
                checkpoint=tmp_path / "checkpoint",
                on_error=ab.dead_letter(str(path)),
            )
            break
        except Killed:
            continue

    assert [["a", n] for n in range(12) if n != 5] == sink.rows()
    letters = [json.loads(line) for line in path.read_text().splitlines()]
    assert {"['a', 5]"} == {letter["item"] for letter in letters}


@pytest.mark.parametrize("seed", needs.quick(3, range(9)))
@pytest.mark.parametrize("of", ["graphs", "timed", "fragile"])
def test_parts_of_generated_programs_are_in_order(seed, of):
    assert [] == compare("parts", seed, of)


def fail_at_15(item: Item) -> Item:
    if item.n == 15:
        raise ValueError
    return item


def test_items_before_a_failure_are_committed(tmp_path, cluster_of):
    cluster_of(undisturbed)
    sink = Parted(tmp_path / "out")
    stream = ab.from_iterable(ITEMS, Item).map(fail_at_15).write(sink)

    with pytest.raises(OperatorError):
        ab.run(stream, epoch_items=EPOCH_ITEMS, degree=DEGREE)

    assert [list(item) for item in ITEMS[:15]] == sink.rows()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("place", ["ran", "committed", "published", "delivered"])
def test_a_table_has_each_epoch_once_whenever_the_driver_dies(
    tmp_path, cluster_of, place, kind
):
    met = set()

    def die(at: str, epoch: int) -> None:
        if at == place and epoch not in met:
            met.add(epoch)
            raise Killed

    cluster_of(undisturbed, in_driver=die)
    (tmp_path / "warehouse").mkdir()
    sink, table = open_table(kind, tmp_path)

    deaths = run_until_done(sink, tmp_path / "checkpoint")

    assert sums() == [list(item) for item in ab.testing.outputs(table)]
    assert 4 == len(met) == deaths


def open_table(kind: str, folder) -> tuple[ab.Sink, ab.Stream]:
    """Return a sink of a table, and a stream of its rows."""
    if kind == "delta":
        path = str(folder / "table")
        return DeltaSink(path), ab.read_delta(path, Item)
    catalog = {
        "name": "test",
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db",
        "warehouse": f"file://{folder}/warehouse",
    }
    sink = IcebergSink("shop.table", (), tuple(catalog.items()))
    return sink, ab.read_iceberg("shop.table", Item, catalog=catalog)


def test_a_sink_that_cannot_travel_is_refused(tmp_path, cluster_of):
    cluster_of(undisturbed)
    sink = Parted(tmp_path / "out")
    sink.lock = threading.Lock()

    with pytest.raises(EngineError, match=r"must be picklable, because tasks call its"):
        run(sink)


class Opaque(Parted):
    def write_part(self, part, items):
        return {part.name}


@pytest.mark.parametrize("on", ["sequential", "local", "spark"])
def test_a_description_that_json_does_not_preserve_is_refused(tmp_path, cluster_of, on):
    cluster_of(undisturbed)
    with pytest.raises(OutputError, match=r"must describe a part by what JSON"):
        run(Opaque(tmp_path / "out"), on=on)


@pytest.mark.parametrize("in_workers", [False, True])
def test_a_cluster_without_a_checkpoint_writes_parts_too(
    tmp_path, cluster_of, monkeypatch, in_workers
):
    """
    Its hosts share no directory, so the driver commits.
    """
    places = []
    cluster_of(undisturbed, in_driver=lambda place, _: places.append(place))
    monkeypatch.setattr(SparkBackend, "is_on_this_machine", False)
    sink = Parted(tmp_path / "out")
    sink.in_workers = in_workers

    run(sink)

    assert sums() == sink.rows()
    assert 4 == places.count("delivering")
    assert [DEGREE] * 4 == [len(parts) for parts in sink.epochs()]
