"""Versions of states on one host: undone, overlapped by other tries, and loaded."""

from __future__ import annotations

import pytest

from anabranch.engines.spark.store import EMPTY, Bucket, Stamp, close_buckets
from anabranch.errors import EngineError

ONE, TWO = Stamp(1, 1), Stamp(2, 2)


@pytest.fixture
def bucket(tmp_path):
    yield Bucket(tmp_path / "bucket")
    close_buckets()


def states(bucket, base, turn=99):
    assert bucket.begin(base, turn)
    found = dict(bucket.states())
    bucket.end()
    return found


def test_a_version_holds_what_was_before_and_what_has_changed(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1", b"b": b"1"})
    bucket.write(ONE, TWO, {b"b": b"2", b"c": b"2"})

    assert {b"a": b"1", b"b": b"2", b"c": b"2"} == states(bucket, TWO)


def test_an_epoch_that_is_run_again_begins_where_it_first_began(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    bucket.write(ONE, TWO, {b"a": b"2", b"new": b"2"})

    assert {b"a": b"1"} == states(bucket, ONE)


def test_a_later_try_replaces_what_an_earlier_one_has_written(bucket):
    bucket.write(EMPTY, Stamp(1, 1), {b"a": b"old", b"old": b"1"})
    bucket.write(EMPTY, Stamp(1, 2), {b"a": b"new"})

    assert {b"a": b"new"} == states(bucket, Stamp(1, 2))


def test_an_earlier_try_cannot_replace_what_a_later_one_has_written(bucket):
    bucket.write(EMPTY, Stamp(1, 2), {b"a": b"later"})

    with pytest.raises(EngineError, match="a later try"):
        bucket.write(EMPTY, Stamp(1, 1), {b"a": b"earlier"})
    assert not bucket.begin(EMPTY, turn=1)
    assert {b"a": b"later"} == states(bucket, Stamp(1, 2))


def test_an_earlier_try_that_writes_while_a_later_one_begins_is_undone(
    bucket, monkeypatch
):
    """It was given up, but its task has not noticed yet."""
    stamp = Bucket.stamp.fget

    def then_written(self):
        found = stamp(self)
        monkeypatch.undo()
        self.write(EMPTY, Stamp(1, 1), {b"a": b"given up"})
        return found

    monkeypatch.setattr(Bucket, "stamp", property(then_written))

    assert {} == states(bucket, EMPTY, turn=2)


def test_what_another_try_writes_meanwhile_is_not_read(bucket):
    bucket.write(EMPTY, ONE, {b"a": b"1"})
    assert bucket.begin(ONE, turn=3)

    bucket.write(ONE, TWO, {b"a": b"2"})

    assert b"1" == bucket.get(b"a")
    bucket.end()


def test_another_version_than_the_one_asked_for_is_refused(bucket):
    bucket.write(EMPTY, Stamp(1, 1), {b"a": b"1"})

    assert not bucket.begin(Stamp(1, 7), turn=9)
    assert not bucket.begin(Stamp(5, 5), turn=9)


def test_tables_are_loaded_over_each_other(bucket):
    bucket.write(EMPTY, ONE, {b"gone": b"1"})

    bucket.load(
        Stamp(7, 7),
        [[(b"a", b"1"), (b"b", b"1")], [(b"a", b"2")]],
        anew=True,
    )

    assert {b"a": b"2", b"b": b"1"} == states(bucket, Stamp(7, 7))
    assert not bucket.begin(EMPTY, turn=99)
