"""What the first half of a cut unit gives reaches the second half at once."""

from __future__ import annotations

import itertools
import time

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.engines.spark.session import filler
from anabranch.epochs.shuffle import TaskRows
from anabranch.epochs.task import ALONG, ALONG_CHUNK, ALONG_FILLER
from anabranch.epochs.task_runner import _along
from anabranch.epochs.unit import inputs
from anabranch.epochs.unit.inputs import CHUNK_S, MOST_ITEMS, in_chunks


def sizes(monkeypatch, items: int, item_s: float) -> list[int]:
    """Return how many items go at a time if each takes so long."""
    now_s = 0.0
    monkeypatch.setattr(inputs.time, "perf_counter", lambda: now_s)
    found = []
    for part, _, _ in in_chunks(iter([(list(range(items)), [], None)])):
        found.append(len(part))
        now_s += len(part) * item_s
    return found


def test_costly_items_go_on_a_few_at_a_time(monkeypatch):
    found = sizes(monkeypatch, 100, item_s=CHUNK_S / 4)

    assert [1, 4, 4, 4] == found[:4]
    assert sum(found) == 100


def test_cheap_items_go_on_many_at_a_time_but_not_all(monkeypatch):
    found = sizes(monkeypatch, 10 * MOST_ITEMS, item_s=1e-9)

    assert max(found) == MOST_ITEMS
    assert sum(found) == 10 * MOST_ITEMS


def test_parts_keep_what_belongs_to_their_items_together():
    whole = list(range(50)), [list(range(100, 150))], list(range(200, 250))

    for items, (positions,), entries in in_chunks(iter([whole, whole])):
        assert [item + 100 for item in items] == positions
        assert entries is not None
        assert [item + 200 for item in items] == entries


def test_nobody_reads_what_only_fills_a_buffer():
    rows = TaskRows()
    columns = [
        pa.array([0, 0, 0], pa.int32()),
        pa.array([ALONG, ALONG_CHUNK, ALONG_FILLER], pa.int32()),
        pa.array([0, 0, 0], pa.int32()),
        pa.array([7, 0, 0], pa.int32()),
        pa.array([b"items", b"", filler()], pa.binary()),
    ]

    batch = pa.RecordBatch.from_arrays(columns, schema=rows.schema)
    (chunk,) = _along([batch], rows, end=lambda _: None)

    assert [(7, b"items")] == [(entry, blob.to_pybytes()) for entry, blob in chunk]
    assert [] == rows.list_rows()


@ab.declare(state="stateless")
def slowly(count: int, item: int) -> tuple[int, float]:
    time.sleep(0.002)
    return count + 1, time.monotonic()


@ab.declare(state="stateless")
def stamped(count: int, before_s: float) -> tuple[int, tuple[float, float]]:
    return count + 1, (before_s, time.monotonic())


@pytest.mark.spark
def test_the_second_half_begins_before_the_first_has_ended():
    source = ab.generate(lambda: itertools.islice(itertools.count(), 400), int)
    first = source.scan(slowly, 0, name="first")
    out = first.scan(stamped, 0, name="second").to_list()
    job = ab.start(out, on="spark", degree=1, epoch_items=200)
    job._running.set_cuts({"second"})
    job.wait()

    last_epoch = out.items[200:]

    _, second_begins_s = last_epoch[0]
    first_ends_s, _ = last_epoch[-1]
    assert second_begins_s < first_ends_s
