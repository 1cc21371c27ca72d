"""Jobs that get more and more replicas divide their buckets, and lose no state.

On an imitation of Spark (see `imitation`), where replicas cost little.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.checkpoint import directory
from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.loop import Epochs
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed

ROWS, EPOCH_ITEMS = 180, 30
DEGREES = [2, 3, 9, 1, 17, 6]  # by epoch


class Visit(NamedTuple):
    number: int
    page: str
    user: str


def visits() -> list[Visit]:
    return [Visit(n, f"p{n * n % 41}", f"u{n % 13}") for n in range(ROWS)]


def count(total: int, visit: Visit) -> tuple[int, Visit]:
    return total + 1, visit._replace(number=1000 * visit.number + total)


def program():
    """By page, by page and user in the same region, and all together."""
    return (
        ab.from_iterable(visits(), Visit)
        .key_by("page")
        .scan(count, 0, name="pages")
        .key_by("page", "user")
        .scan(count, 0, name="pairs")
        .key_by()
        .scan(count, 0, name="all")
        .to_list()
    )


def expected():
    sink = program()
    ab.run(sink, on="sequential")
    return sink.items


@pytest.fixture
def buckets(monkeypatch):
    """Change the degree from epoch to epoch; tell how many buckets each has."""
    found = []
    run = Epochs.run

    def noted(self, pieces):
        self.divider.degree = DEGREES[self.stamp.epoch]
        run(self, pieces)
        found.append(self._buckets)

    monkeypatch.setattr(Epochs, "run", noted)
    return found


def run(monkeypatch, tmp_path, hosts, **options):
    sink = program()
    with imitated(monkeypatch, Cluster(undisturbed, hosts), tmp_path):
        ab.run(
            sink, on="spark", epoch_items=EPOCH_ITEMS, degree=2, buckets=16, **options
        )
    return sink.items


FITTING = [16, 16, 64, 64, 128, 128]


def test_without_a_checkpoint_the_parts_come_from_the_host(
    monkeypatch, tmp_path, buckets
):
    assert expected() == run(monkeypatch, tmp_path, 1)
    assert FITTING == buckets


@pytest.mark.parametrize("hosts", needs.quick(1, [3, 1]))
def test_with_a_checkpoint_they_come_from_its_files(
    monkeypatch, tmp_path, buckets, hosts
):
    """Logs and snapshots of undivided buckets are read by each of their parts."""
    monkeypatch.setattr(directory, "_LEAST", 600)
    folder = tmp_path / "checkpoint"

    items = run(monkeypatch, tmp_path, hosts, checkpoint=str(folder))

    assert expected() == items
    assert FITTING == buckets
    held = Contents(folder)
    assert {16, 64, 128} & {one.buckets for one in held.record.snapshots}
    pages = {visit.page for visit in visits()}
    assert {
        page: [sum(visit.page == page for visit in visits())] for page in pages
    } == dict(held.states("pages"))
    assert [([], [ROWS])] == list(held.states("all"))
