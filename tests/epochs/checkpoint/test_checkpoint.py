"""The directory of a checkpoint: one run at a time, one record per epoch."""

from __future__ import annotations

import pytest

from anabranch.connectors.storage import locate
from anabranch.epochs import faults
from anabranch.epochs.checkpoint.directory import TURNS, Checkpoint
from anabranch.epochs.checkpoint.record import Log, Record
from anabranch.errors import CheckpointError

PROGRAM = {"buckets": 16, "operators": {}, "states": {}, "types": []}


@pytest.fixture
def open_at():
    made = []

    def open_again(place, program=PROGRAM):
        made.append(Checkpoint(str(place), program))
        return made[-1]

    yield open_again
    for one in made:
        one.close()


@pytest.fixture
def opened(open_at, tmp_path):
    return lambda program=PROGRAM: open_at(tmp_path / "checkpoint", program)


@pytest.fixture
def stored(open_at, tmp_path):
    return lambda program=PROGRAM: open_at(f"local://{tmp_path}/checkpoint", program)


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
    opened({**PROGRAM, "types": ["Trade(n: int)"]}).close()

    told = r"tuple types: were Trade\(n: int\); are Trade\(n: str\)"
    with pytest.raises(CheckpointError, match=told):
        opened({**PROGRAM, "types": ["Trade(n: str)"]})


def test_types_keep_their_numbers(opened):
    """A type that is gone keeps its own, should it come back."""
    numbers = []
    for types in (["A", "B"], ["C", "B"], ["D", "C", "A"]):
        checkpoint = opened({**PROGRAM, "types": types})
        numbers.append(checkpoint.type_numbers)
        checkpoint.close()

    assert [(0, 1), (2, 1), (3, 2, 0)] == numbers


def test_files_and_records_that_are_not_needed_any_more_go(opened):
    checkpoint = opened()
    folder = checkpoint.directory / "state" / "u0"
    folder.mkdir()
    for epoch in range(1, 6):
        (folder / f"l{epoch}").touch()
        log = Log("u0", f"l{epoch}", epoch, ((0, 1),), 1)
        checkpoint.commit(Record(epoch=epoch, logs=(log,)), None)

    assert {"l4", "l5"} == {path.name for path in folder.iterdir()}
    assert 2 == len(list((checkpoint.directory / "commits").iterdir()))


def test_files_of_attempts_that_do_not_count_go_while_the_job_runs(opened):
    checkpoint = opened()
    folder = checkpoint.directory / "state" / "u0"
    folder.mkdir()
    named = "log-000000001-1-7-0000.arrow"
    later = "log-000000099-9-9-0000.arrow"
    for name in (named, "log-000000001-1-8-0000.arrow", later):
        (folder / name).touch()
    log = Log("u0", named, 1, ((0, 1),), 1, turn=1, attempt=7)
    for epoch in range(1, 66):
        checkpoint.commit(Record(epoch=epoch, logs=(log,)), None)

    assert {named, later} == {path.name for path in folder.iterdir()}


def test_turns_of_a_later_run_are_larger_however_long_the_one_before_it_ran(opened):
    """
    A job with ten epochs a second runs for a year.
    """
    first = opened()
    first.close()

    assert first.run * TURNS + 10 * 366 * 86_400 < opened().run * TURNS


def test_what_a_killed_run_has_left_is_swept_away(opened):
    first = opened()
    folder = first.directory / "state" / "u0"
    folder.mkdir()
    (folder / "needed.arrow").touch()
    (folder / "never-committed.arrow").touch()
    (first.directory / "commits" / ".000000002.json.ab.tmp").touch()
    log = Log("u0", "needed.arrow", 1, ((0, 1),), 1)
    first.commit(Record(epoch=1, logs=(log,)), None)
    first.close()

    again = opened()

    assert ["needed.arrow"] == [path.name for path in folder.iterdir()]
    assert [] == list((again.directory / "commits").glob(".*"))


FOREIGN = [
    *("runs/notes.txt", "runs/1.bak", "commits/copy of 000000001.json"),
    *("commits/00000000x.json", "deliveries/mine.pickle", "state/u0/README"),
]


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("new", [True, False])
def test_a_file_that_no_job_has_put_there_is_named_and_left_alone(
    opened, tmp_path, name, new
):
    if not new:
        opened().close()
    path = tmp_path / "checkpoint" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine")

    with pytest.raises(CheckpointError, match=f"{path} is none of them; move it"):
        opened()

    assert "mine" == path.read_text()


@pytest.mark.parametrize("name", ["runs/.DS_Store", "state/u0/.nfs01", "README"])
def test_a_hidden_file_and_one_beside_our_directories_do_no_harm(
    opened, tmp_path, name
):
    opened().close()
    path = tmp_path / "checkpoint" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")

    assert opened().last is None
    assert "mine" == path.read_text()


DAMAGED = [
    "",
    "[]",
    "{}",
    '{"format": 2}',
    '{"format": 2, "identity": "x", "program": 1}',
]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_description_of_the_program_is_named(opened, tmp_path, content):
    opened().close()
    (tmp_path / "checkpoint" / "program.json").write_text(content)

    with pytest.raises(CheckpointError, match=r"program\.json|format None"):
        opened()


def test_records_of_an_unknown_program_are_not_gone_on_from(opened, tmp_path):
    first = opened()
    first.commit(Record(epoch=1), None)
    first.close()
    (tmp_path / "checkpoint" / "program.json").unlink()

    with pytest.raises(CheckpointError, match=r"program\.json is missing"):
        opened()


def test_a_record_that_is_a_directory_is_named(opened, tmp_path):
    opened().close()
    (tmp_path / "checkpoint" / "commits" / "000000003.json").mkdir()

    with pytest.raises(CheckpointError, match=r"000000003\.json cannot be read"):
        opened()


def test_a_checkpoint_that_cannot_be_written_any_more_is_named(opened, monkeypatch):
    checkpoint = opened()

    def refuse(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)

    with pytest.raises(CheckpointError, match="No space left on device; free"):
        checkpoint.commit(Record(epoch=1), None)


def test_a_file_in_the_place_of_the_directory_is_named(opened, tmp_path):
    (tmp_path / "checkpoint").write_text("x")

    with pytest.raises(CheckpointError, match="checkpoint: File exists"):
        opened()


def test_in_a_store_the_last_job_to_come_goes_on(stored):
    first = stored()
    first.commit(Record(epoch=1, turn=5), None)

    second = stored()

    assert Record(epoch=1, turn=5) == second.last
    with pytest.raises(CheckpointError, match="another one has gone on"):
        first.commit(Record(epoch=2, turn=6), None)
    second.commit(Record(epoch=2, turn=9), None)


def test_of_two_jobs_that_record_an_epoch_in_a_store_at_once_one_goes_on(
    stored, monkeypatch
):
    first = stored()
    second = []

    def take_over(place, epoch):
        if place == "half-recorded" and not second:
            second.append(stored())

    monkeypatch.setattr(faults, "watchers", [take_over])

    first.commit(Record(epoch=1, turn=5), b"first")

    with pytest.raises(CheckpointError, match="another one has gone on"):
        second[0].commit(Record(epoch=1, turn=9), b"second")
    found = stored()
    assert 5 == found.last.turn
    assert b"first" == found.waiting.read_bytes()


def test_in_a_store_the_files_of_the_next_epoch_are_left_to_the_job_before(stored):
    """
    It may be about to record them, and has not seen yet that another one goes on.
    """
    first = stored()
    first.commit(Record(epoch=1, turn=5), None)
    folder = locate(f"{first.directory}/state/u0")
    kept, dropped = "log-000000002-5-1-0000.arrow", "log-000000001-5-1-0000.arrow"
    (folder / kept).write_bytes(b"")
    (folder / dropped).write_bytes(b"")

    stored()

    assert [kept] == [path.name for path in folder.iterdir()]


def test_a_record_whose_answer_was_lost_counts_once(stored):
    """
    Who does not hear from the store asks again, and it has the record already.
    """
    path = stored().directory / "commits" / "000000001.json"
    path.create_bytes(b"record of turn 5")
    path.create_bytes(b"record of turn 5")

    with pytest.raises(FileExistsError):
        path.create_bytes(b"record of turn 9")


def test_a_store_that_does_not_answer_is_not_taken_for_a_damaged_one(
    stored, monkeypatch
):
    first = stored()
    first.commit(Record(epoch=1, turn=5), None)
    first.commit(Record(epoch=2, turn=6), None)
    read_bytes = type(first.directory).read_bytes

    def refuse(path):
        if path.name == "000000002.json":
            raise OSError(5, "no answer")
        return read_bytes(path)

    monkeypatch.setattr(type(first.directory), "read_bytes", refuse)

    with pytest.raises(CheckpointError, match="no answer"):
        stored()
