"""Items for external sinks that take them in any order: nothing is sorted for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.epochs import epoch_stages, item_files
from tests.engines.spark.imitation import Cluster, imitated, undisturbed
from tests.programs.functions import Event, events, running_total


def by_key() -> ab.Stream:
    stream = ab.from_iterable(events(1, 400), Event)
    return stream.key_by("key").scan(running_total, 0)


@dataclass
class Rows(ab.Sink):
    """Adds the rows of an epoch to a file, in any order."""

    path: str
    in_workers: bool = False
    ordered = False

    def write(self, items):
        self.pending = [repr(tuple(item)) for item in items]

    def commit(self, epoch):
        with Path(self.path).open("a") as file:
            file.write("".join(f"{row}\n" for row in self.pending))


@pytest.mark.parametrize("in_workers", [False, True])
def test_a_sink_of_the_users_gets_what_one_thread_gives(
    in_workers, monkeypatch, tmp_path
):
    expected = by_key().to_list()
    ab.run(expected, on="sequential")
    out = by_key().write(Rows(str(tmp_path / "rows"), in_workers))

    assert "none" == ab.compile(out).plan.regions[-1].ordering
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path / "hosts"):
        ab.run(out, on="spark", degree=2, epoch_items=90)

    rows = (tmp_path / "rows").read_text().splitlines()
    assert sorted(repr(tuple(one)) for one in expected.items) == sorted(rows)
    assert len(rows) == 400


def test_nothing_is_sorted_for_a_sink_of_the_users(monkeypatch, tmp_path):
    def refuse(batches):
        pytest.fail("the items of an unordered sink are sorted")

    monkeypatch.setattr(item_files, "in_order", refuse)
    monkeypatch.setattr(epoch_stages, "in_order", refuse)
    for in_workers in (False, True):
        path = tmp_path / f"rows{in_workers}"
        out = by_key().write(Rows(str(path), in_workers))
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path / f"{in_workers}"):
            ab.run(out, on="spark", degree=2, epoch_items=90)

        assert 400 == len(path.read_text().splitlines())


@pytest.mark.parametrize("degree", [1, 3])
def test_threads_pass_items_on_as_they_come(degree, tmp_path):
    expected = by_key().to_list()
    ab.run(expected, on="sequential")
    out = by_key().write(Rows(str(tmp_path / "rows")))

    assert ["none"] == [r.ordering for r in ab.compile(out, on="local").plan.regions]
    ab.run(out, on="local", degree=degree)

    rows = (tmp_path / "rows").read_text().splitlines()
    assert sorted(repr(tuple(one)) for one in expected.items) == sorted(rows)


def test_one_thread_keeps_the_order_anyway(tmp_path):
    expected, out = by_key().to_list(), by_key().write(Rows(str(tmp_path / "rows")))
    ab.run(expected, out, on="sequential")

    rows = (tmp_path / "rows").read_text().splitlines()
    assert [repr(tuple(one)) for one in expected.items] == rows
