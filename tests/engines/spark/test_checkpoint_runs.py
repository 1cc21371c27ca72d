"""Jobs with a checkpoint: stopped, failed, started again, and never wrong."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.state.restore import local_directory, name_states
from anabranch.errors import CheckpointError, InputError, OperatorError, OutputError
from tests import needs

pytestmark = pytest.mark.spark

ROWS, EPOCH_ITEMS = 90, 30


class Item(NamedTuple):
    number: int
    key: str


class Count(NamedTuple):
    number: int
    key: str
    count: int


ITEMS = [Item(n, "abc"[n % 3]) for n in range(ROWS)]
COUNTS = [Count(n, "abc"[n % 3], n // 3 + 1) for n in range(ROWS)]


def count(n: int, item: Item) -> tuple[int, Count]:
    return n + 1, Count(item.number, item.key, n + 1)


def numbers(items: list[Count]) -> Item:
    return Item(len(items), items[0].key)


def counts(items=ITEMS, check=lambda item: item):
    checked = ab.from_iterable(items, type=Item).map(check)
    return checked.key_by("key").scan(count, 0)


def csv_of(rows):
    return "number,key,count\n" + "".join(f"{r[0]},{r[1]},{r[2]}\n" for r in rows)


def parts_of(folder):
    parts = sorted(Path(folder).glob("part-*.csv"))
    return "number,key,count\n" + "".join(
        p.read_text().partition("\n")[2] for p in parts
    )


def run(*sinks, folder, **options):
    given = {"epoch_items": EPOCH_ITEMS, "degree": 2, **options}
    return ab.run(*sinks, checkpoint=folder / "checkpoint", **given)


def fails_at(number, folder):
    """Return a function that fails at an item until the file `mended` is there."""
    mended = str(folder / "mended")

    @ab.declare(state="stateless")
    def check(item: Item) -> Item:
        if item.number == number and not Path(mended).exists():
            msg = "not yet"
            raise ValueError(msg)
        return item

    return check


@pytest.mark.parametrize("degree", needs.quick(1, [3, 1]))
@pytest.mark.parametrize("host", ["the same host", "another host"])
def test_a_job_that_failed_goes_on_where_it_was(tmp_path, degree, host):
    def sinks():
        stream = counts(check=fails_at(70, tmp_path))
        return stream.write_csv(tmp_path / "out"), stream.write_csv(
            tmp_path / "one.csv"
        )

    with pytest.raises(OperatorError, match="not yet"):
        run(*sinks(), folder=tmp_path)
    assert csv_of(COUNTS[:60]) == parts_of(tmp_path / "out")
    assert not (tmp_path / "one.csv").exists()

    (tmp_path / "mended").touch()
    if host == "another host":
        identity = Contents(tmp_path / "checkpoint").identity
        states = name_states(identity, tmp_path / "checkpoint")
        shutil.rmtree(local_directory(states))
    job = run(*sinks(), folder=tmp_path, degree=degree, epoch_items=13)

    assert "finished" == job.status
    assert csv_of(COUNTS) == parts_of(tmp_path / "out")
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert csv_of(COUNTS) == (tmp_path / "one.csv").read_text()
    assert {"from_iterable": ROWS} == job.metrics().read
    assert [] == [p.name for p in tmp_path.iterdir() if p.name.startswith(".")]


class Stepping(ab.Operator):
    """An operator whose attributes reach it."""

    count = 0

    def setup(self):
        self.steps = [self.step]

    def step(self, item):
        self.count += 1
        return Count(item.number, item.key, self.count)

    def process(self, item):
        return [step(item) for step in self.steps]


@pytest.mark.parametrize("key", ["key", None])
def test_operators_that_reach_themselves_go_on_where_they_were(tmp_path, key):
    def sink():
        checked = ab.from_iterable(ITEMS, type=Item).map(fails_at(70, tmp_path))
        keyed = checked if key is None else checked.key_by(key)
        return keyed.apply(Stepping, type=Count).write_csv(tmp_path / "out")

    with pytest.raises(OperatorError, match="not yet"):
        run(sink(), folder=tmp_path)
    (tmp_path / "mended").touch()
    run(sink(), folder=tmp_path, degree=3, epoch_items=13)

    of_one = [Count(n, "abc"[n % 3], n + 1) for n in range(ROWS)]
    assert csv_of(COUNTS if key else of_one) == parts_of(tmp_path / "out")


def test_a_job_that_has_ended_does_nothing_when_started_again(tmp_path):
    run(counts().write_csv(tmp_path / "out"), folder=tmp_path)
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}

    job = run(counts().write_csv(tmp_path / "out"), folder=tmp_path)

    assert 0 == job.metrics().epochs
    assert before == {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("change", ["rewritten", "longer", "gone"])
def test_a_job_that_has_ended_refuses_another_input(tmp_path, form, change):
    source = tmp_path / f"in.{form}"

    def write(items):
        stream = ab.from_iterable(items, Item)
        sink = getattr(stream, f"write_{form}")(source, mode="overwrite")
        ab.run(sink, on="sequential")

    def sinks():
        stream = getattr(ab, f"read_{form}")(source, Item).key_by("key").scan(count, 0)
        return stream.write_csv(tmp_path / "out"), stream.write_csv(
            tmp_path / "one.csv"
        )

    write(ITEMS)
    program = sinks()
    run(*program, folder=tmp_path)
    program = sinks()
    source.unlink()
    if change != "gone":
        others = [*ITEMS, Item(7, "a")] if change == "longer" else ITEMS[:-1]
        write([*others[:-1], Item(8, "b")] if change == "rewritten" else others)

    with pytest.raises((CheckpointError, InputError), match="a source must"):
        run(*program, folder=tmp_path)

    assert csv_of(COUNTS) == parts_of(tmp_path / "out")
    assert (tmp_path / "out" / "_SUCCESS").exists()
    assert csv_of(COUNTS) == (tmp_path / "one.csv").read_text()


@pytest.mark.long
def test_last_words_are_said_once(tmp_path):
    """
    The windows that the end of the stream closes come after all others, and a start
    after the end adds nothing to them.
    """

    def sink():
        windows = counts().window(count=25).aggregate(numbers)
        return windows.write_csv(tmp_path / "windows.csv")

    run(sink(), folder=tmp_path)
    run(sink(), folder=tmp_path)

    expected = "number,key\n" + "25,a\n25,b\n25,c\n" + "5,a\n5,b\n5,c\n"
    assert expected == (tmp_path / "windows.csv").read_text()


def test_an_epoch_is_run_again_when_its_worker_is_killed(tmp_path):
    claimed = str(tmp_path / "claimed")

    @ab.declare(state="stateless")
    def killed_once(item: Count) -> Count:
        if item.number == 45:
            try:
                Path(claimed).touch(exist_ok=False)
            except FileExistsError:
                return item
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    out = counts().map(killed_once).to_list()

    ab.run(out, epoch_items=EPOCH_ITEMS, degree=2)

    assert COUNTS == out.items
    assert Path(claimed).exists()


def test_sinks_in_the_driver_get_the_epochs_after_the_last_commit(tmp_path):
    seen = []
    stream = counts(check=fails_at(70, tmp_path))
    with pytest.raises(OperatorError):
        run(stream.for_each(seen.append), folder=tmp_path)
    (tmp_path / "mended").touch()

    run(counts(check=fails_at(70, tmp_path)).for_each(seen.append), folder=tmp_path)

    assert COUNTS == seen


@pytest.mark.long
def test_items_that_wait_for_a_sink_in_the_driver_are_delivered_by_the_next_run(
    tmp_path,
):
    seen = []

    def interrupted(item):
        if item.number == 40 and not (tmp_path / "mended").exists():
            raise KeyboardInterrupt
        seen.append(item.number)

    with pytest.raises(KeyboardInterrupt):
        run(counts().for_each(interrupted), folder=tmp_path)
    (tmp_path / "mended").touch()
    seen.clear()

    run(counts().for_each(interrupted), folder=tmp_path)

    assert list(range(30, ROWS)) == seen


def test_a_place_that_is_taken_is_refused_while_the_checkpoint_is_new(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious.csv").write_text("mine")

    with pytest.raises(OutputError, match="must not exist yet"):
        run(counts().write_csv(tmp_path / "out"), folder=tmp_path)


@pytest.mark.long
def test_an_output_with_missing_parts_is_not_gone_on_with(tmp_path):
    def sink():
        return counts(check=fails_at(70, tmp_path)).write_csv(tmp_path / "out")

    with pytest.raises(OperatorError):
        run(sink(), folder=tmp_path)
    next((tmp_path / "out").glob("part-*")).unlink()

    with pytest.raises(CheckpointError, match=r"parts of .* are missing"):
        run(sink(), folder=tmp_path)


def test_another_program_is_refused_before_anything_runs(tmp_path):
    run(counts().write_csv(tmp_path / "out"), folder=tmp_path)

    with pytest.raises(CheckpointError, match=r"operator 'aggregate' .* is new"):
        run(
            counts().window(count=5).aggregate(numbers).write_csv(tmp_path / "out"),
            folder=tmp_path,
        )


def test_states_can_be_looked_at(tmp_path):
    run(counts().write_csv(tmp_path / "out"), folder=tmp_path)

    contents = Contents(tmp_path / "checkpoint")

    assert {"a": [30], "b": [30], "c": [30]} == dict(contents.states("scan"))
    assert 3 == sum(held.keys for held in contents.buckets())
