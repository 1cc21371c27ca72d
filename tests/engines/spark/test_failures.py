"""The failure that ends a job on Spark, and what the sinks in the driver had before."""

from __future__ import annotations

import gzip
import threading
import time
import types
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import AnabranchError

pytestmark = pytest.mark.spark


class Reading(NamedTuple):
    key: int
    n: int


def readings(count):
    return [Reading(n % 7, n) for n in range(count)]


def refuse_late(reading: Reading) -> Reading:
    if reading.n in (150, 180):
        raise ValueError(reading.n)
    return reading


def refuse_early(state: int, reading: Reading) -> tuple[int, Reading]:
    if reading.n in (121, 130):
        raise KeyError(reading.n)
    return state + 1, reading


def failed(sink, **options):
    with pytest.raises(AnabranchError) as caught:
        ab.run(sink, on="spark", degree=2, epoch_items=100, **options)
    return str(caught.value)


def test_of_several_failures_the_first_is_told_and_all_before_it_delivered():
    """
    The tasks that fail at 150 and 180 hand nothing on to the ones that fail at 121.
    """
    stream = ab.from_iterable(readings(300), Reading, name="src").map(refuse_late)
    seen = []
    sink = stream.key_by("key").scan(refuse_early, 0, type=Reading, name="scan")

    said = failed(sink.for_each(seen.append))

    assert "operator 'scan'" in said
    assert "failed on item 122 of src: Reading(key=2, n=121): KeyError" in said
    assert readings(121) == seen


def fail_between(n: int):
    yield n
    if n == 155:
        raise KeyError(n)
    yield n


def test_outputs_of_a_try_that_failed_half_way_are_not_delivered():
    numbers = ab.from_iterable(range(300), int, name="src")
    seen = []

    said = failed(numbers.flat_map(fail_between).for_each(seen.append))

    assert "failed on item 156 of src: 155: KeyError" in said
    assert [n for n in range(155) for _ in range(2)] == seen


def test_a_failing_sink_names_the_item_counted_from_one():
    def refuse(n):
        if n == 5:
            raise ValueError(n)

    said = failed(ab.from_iterable(range(10), int).for_each(refuse))

    assert "failed on item 6 of sink for_each: 5: ValueError" in said


def test_a_program_in_the_driver_may_write_files_and_lists(tmp_path):
    """
    The unit that writes has no operator of its own, and nothing to get ready.
    """

    def keep(n: int) -> int:
        time.sleep(0.0001)
        return n

    numbers = ab.generate(lambda: iter(range(30)), int).map(keep)
    listed = numbers.to_list()

    ab.run(numbers.write_csv(tmp_path / "n.csv"), listed, on="spark", epoch_items=20)

    assert [*range(30)] == listed.items
    assert [*map(str, range(30))] == (tmp_path / "n.csv").read_text().split()[1:]


def test_with_a_checkpoint_sinks_get_whole_epochs_only(tmp_path):
    stream = ab.from_iterable(readings(300), Reading, name="src").map(refuse_late)
    seen = []

    said = failed(stream.for_each(seen.append), checkpoint=tmp_path / "checkpoint")

    assert "item 151 of src" in said
    assert readings(100) == seen


def test_where_an_operator_runs_in_the_driver_nothing_runs_again():
    box = types.SimpleNamespace(calls=[])  # what is in there is not lifted

    def note(reading: Reading) -> Reading:
        box.calls.append(reading.n)
        return reading

    stream = ab.from_iterable(readings(300), Reading, name="src").map(refuse_late)
    seen = []

    said = failed(stream.map(note, name="note").for_each(seen.append))

    assert "item 151 of src" in said
    assert readings(100) == seen
    assert list(range(100)) == box.calls[:100]
    assert len(set(box.calls)) == len(box.calls)


def test_a_bad_row_comes_after_the_rows_before_it(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [f"{r.key},{r.n}" for r in readings(300)]
    path.write_text("\n".join(["key,n", *rows[:230], "x,y", *rows[230:]]) + "\n")
    out = ab.read_csv(path, Reading).to_list()

    said = failed(out)

    assert "row 231" in said
    assert readings(230) == out.items


class MalformedError(ValueError):
    """An error of the user's, which cannot go to another process."""

    def __init__(self, reading, *, why):
        super().__init__(f"{reading.n}: {why}")
        self.lock = threading.Lock()


def refuse_one(reading: Reading) -> Reading:
    if reading.n == 150:
        raise KeyError(reading.key, reading.n)
    if reading.n == 5:
        raise MalformedError(reading, why="five")
    return reading


def test_the_exception_of_the_user_is_the_cause_also_from_a_worker():
    stream = ab.from_iterable(readings(200), Reading, name="src")

    with pytest.raises(AnabranchError) as caught:
        ab.run(stream.filter(lambda r: r.n > 5).map(refuse_one).to_list(), on="spark")
    with pytest.raises(AnabranchError) as other:
        ab.run(stream.map(refuse_one).to_list(), on="spark")

    assert isinstance(caught.value.__cause__, KeyError)
    assert (3, 150) == caught.value.__cause__.args
    assert "MalformedError: 5: five" in str(other.value.__cause__)


def test_what_was_left_out_before_a_file_that_ends_the_job_is_told(tmp_path):
    (tmp_path / "a.csv").write_text("key,n\n1,2\n")
    (tmp_path / "b.csv").write_text("")
    (tmp_path / "c.csv").write_text("x,y\n1,2\n")
    lost, out = [], ab.read_csv(tmp_path, Reading).to_list()

    said = failed(out, on_error=ab.dead_letter(lost.append))

    assert "c.csv: there must be a column 'key'" in said
    assert [Reading(1, 2)] == out.items
    assert [str(tmp_path / "b.csv")] == [failure.item for failure in lost]


def test_rows_that_were_set_aside_before_a_damaged_file_are_told(tmp_path):
    (tmp_path / "a.csv").write_text("key,n\n1,2\nx,y\n")
    packed = gzip.compress(b"key,n\n" + b"3,4\n" * 5000 + b"z,z\n" + b"3,5\n" * 5000)
    (tmp_path / "b.csv.gz").write_bytes(packed[:-9])
    lost, out = [], ab.read_csv(tmp_path, Reading).to_list()

    with pytest.raises(AnabranchError, match="must be a whole gzip file"):
        ab.run(out, on="spark", on_error=ab.dead_letter(lost.append), epoch_items=4000)
    meant, expected = [], ab.read_csv(tmp_path, Reading).to_list()
    with pytest.raises(AnabranchError, match="must be a whole gzip file"):
        ab.run(expected, on="sequential", on_error=ab.dead_letter(meant.append))

    assert expected.items == out.items
    assert [f.where for f in meant] == [f.where for f in lost]


def spoil(reading: Reading) -> str:
    return "\ud800" if reading.n in (150, 160) else str(reading.n)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_item_that_does_not_fit_its_file_fails_as_elsewhere(tmp_path, form):
    texts = ab.from_iterable(readings(300), Reading, name="src").map(spoil)
    write = {"csv": texts.write_csv, "parquet": texts.write_parquet}[form]
    lost = []

    said = failed(write(tmp_path / "stopped", name="prices"))
    ab.run(
        write(tmp_path / "out"),
        on="spark",
        degree=2,
        on_error=ab.dead_letter(lost.append),
    )

    assert "operator 'prices'" in said
    assert "failed on item 151 of src: '\\ud800': OutputError: column 'value'" in said
    assert not (tmp_path / "stopped").exists()
    assert {"item 151 of src", "item 161 of src"} == {f.where for f in lost}
    read = {"csv": ab.read_csv, "parquet": ab.read_parquet}[form]
    kept = [n for n in range(300) if n not in (150, 160)]
    assert kept == [int(v.value) for v in ab.testing.outputs(read(tmp_path / "out", V))]


class V(NamedTuple):
    value: str
