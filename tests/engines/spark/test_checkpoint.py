"""The directory of a checkpoint: one run at a time, one record per epoch."""

from __future__ import annotations

import pytest

from anabranch.engines.spark.checkpoint import Checkpoint
from anabranch.engines.spark.checkpoint_record import Log, Record
from anabranch.errors import CheckpointError

PROGRAM = {"buckets": 16, "operators": {}, "states": {}, "types": []}


@pytest.fixture
def opened(tmp_path):
    made = []

    def open_again(program=PROGRAM):
        made.append(Checkpoint(str(tmp_path / "checkpoint"), program))
        return made[-1]

    yield open_again
    for one in made:
        one.close()


def test_a_new_checkpoint_has_nothing_to_go_on_from(opened):
    assert opened().last is None


def test_the_last_record_is_where_the_next_run_goes_on(opened):
    first = opened()
    first.commit(Record(epoch=1, turn=5), None)
    first.commit(Record(epoch=2, turn=6, finished=("scan",)), None)
    first.close()

    again = opened()

    assert Record(epoch=2, turn=6, finished=("scan",)) == again.last
    assert again.identity == first.identity
    assert again.run > first.run


def test_only_one_job_at_a_time(opened):
    opened()

    with pytest.raises(CheckpointError, match="only one job at a time"):
        opened()


def test_a_run_that_was_taken_over_cannot_commit(opened):
    first = opened()
    first.close()
    second = opened()
    second.commit(Record(epoch=1, turn=9), None)

    with pytest.raises(CheckpointError, match="another one has gone on"):
        first.commit(Record(epoch=1, turn=5), None)
    assert second.last == Record(epoch=1, turn=9)


def test_another_program_is_told_what_differs(opened):
    opened().close()

    with pytest.raises(CheckpointError, match="tuple types: were ; are Trade"):
        opened({**PROGRAM, "types": ["Trade"]})


def test_files_and_records_that_are_not_needed_any_more_go(opened):
    checkpoint = opened()
    folder = checkpoint.directory / "state" / "u0"
    folder.mkdir()
    for epoch in range(1, 6):
        (folder / f"l{epoch}").touch()
        log = Log("u0", f"l{epoch}", epoch, {0: 1})
        checkpoint.commit(Record(epoch=epoch, logs=(log,)), None)

    assert ["l5"] == [path.name for path in folder.iterdir()]
    assert 2 == len(list((checkpoint.directory / "commits").iterdir()))


def test_what_a_killed_run_has_left_is_swept_away(opened):
    first = opened()
    folder = first.directory / "state" / "u0"
    folder.mkdir()
    (folder / "needed").touch()
    (folder / "never-committed").touch()
    (first.directory / "commits" / ".000000002.json.ab.tmp").touch()
    log = Log("u0", "needed", 1, {0: 1})
    first.commit(Record(epoch=1, logs=(log,)), None)
    first.close()

    again = opened()

    assert ["needed"] == [path.name for path in folder.iterdir()]
    assert [] == list((again.directory / "commits").glob(".*"))
