"""A directory that keeps growing."""

import gzip
import os
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.connectors.files.follow import SETTLE_S
from anabranch.errors import InputError
from tests import needs
from tests.connectors.items import Reading, as_csv, as_json, readings, total, totals
from tests.waiting import until


def put(path, data):
    """Put a file there whole, and old enough to be taken at once."""
    hidden = path.with_name(f".{path.name}")
    hidden.write_bytes(data if isinstance(data, bytes) else data.encode())
    os.utime(hidden, (0, 0))
    hidden.rename(path)


def test_new_files_are_read_as_they_appear(engine, tmp_path):
    put(tmp_path / "a.csv", as_csv(readings(40)))
    source = ab.read_csv(tmp_path, Reading, follow=True)
    out = source.key_by("sensor").scan(total, 0).to_list()
    job = ab.start(out, on=engine, epoch_items=25)
    until(job, lambda: len(out.items) == 40)

    put(tmp_path / "c.csv", as_csv(readings(20, first=40)))
    until(job, lambda: len(out.items) == 60)
    put(tmp_path / "b.csv", as_csv(readings(20, first=60)))  # its name does not matter
    until(job, lambda: len(out.items) == 80)
    job.stop()

    assert ("stopped", totals(readings(80))) == (job.status, out.items)


def test_files_that_are_there_together_are_read_by_name(engine, tmp_path):
    for name in "cab":
        put(tmp_path / f"{name}.txt", f"{name}1\n{name}2\n")
    out = ab.read_text(tmp_path, follow=True).to_list()
    job = ab.start(out, on=engine)
    until(job, lambda: len(out.items) == 6)
    job.stop()

    assert ["a1", "a2", "b1", "b2", "c1", "c2"] == out.items


@pytest.mark.parametrize("ending", needs.quick(1, ["jsonl.gz", "jsonl", "parquet"]))
def test_other_formats_can_be_followed(engine, tmp_path, ending):
    items = readings(10)
    lines = b"\n".join(as_json(items))
    if ending == "parquet":
        ab.run(
            ab.from_iterable(items, Reading).write_parquet(tmp_path / "a.parquet"),
            on="sequential",
        )
        put(tmp_path / "a.parquet", (tmp_path / "a.parquet").read_bytes())
        source = ab.read_parquet(tmp_path, Reading, follow=True)
    else:
        data = gzip.compress(lines) if ending.endswith("gz") else lines
        put(tmp_path / f"a.{ending}", data)
        source = ab.read_jsonl(tmp_path, Reading, follow=True)
    out = source.to_list()
    job = ab.start(out, on=engine, epoch_items=4)
    until(job, lambda: len(out.items) == 10)
    job.stop()

    assert items == out.items


def test_a_file_is_not_read_while_it_is_written(tmp_path):
    """
    The second half comes before the file has been left alone for long enough.
    """
    out = ab.read_text(tmp_path, follow=True).to_list()
    job = ab.start(out, on="sequential")
    with (tmp_path / "slow.txt").open("w") as file:
        file.write("first ha")
        file.flush()
        assert not job.wait(timeout=SETTLE_S / 2)
        file.write("lf\nsecond\n")
    until(job, lambda: bool(out.items))
    job.stop()

    assert ["first half", "second"] == out.items


@pytest.mark.parametrize(
    "engine", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_file_that_grows_after_it_was_read_is_told(engine, tmp_path):
    put(tmp_path / "a.txt", "one\n")
    out = ab.read_text(tmp_path, follow=True).to_list()
    job = ab.start(out, on=engine)
    until(job, lambda: out.items == ["one"])
    with (tmp_path / "a.txt").open("a") as file:
        file.write("two\n")

    with pytest.raises(InputError, match="a file that was read must not change"):
        job.wait()


def test_a_bad_row_is_a_dead_letter_and_its_neighbours_stay(engine, tmp_path):
    put(tmp_path / "a.jsonl", "1\nx\n3\n")
    put(tmp_path / "b.jsonl", "4\n")
    lost = []
    out = ab.read_jsonl(tmp_path, int, follow=True).to_list()
    job = ab.start(out, on=engine, on_error=ab.dead_letter(lost.append))
    until(job, lambda: len(out.items) == 3)
    job.stop()

    assert [1, 3, 4] == out.items
    assert [f"{tmp_path}/a.jsonl, row 2 (line 2)"] == [f.where for f in lost]


def test_a_link_to_nowhere_is_a_dead_letter_and_the_next_file_follows(engine, tmp_path):
    (tmp_path / "a.txt").symlink_to("nowhere")
    put(tmp_path / "b.txt", "one\n")
    lost = []
    out = ab.read_text(tmp_path, follow=True).to_list()
    job = ab.start(out, on=engine, on_error=ab.dead_letter(lost.append))
    until(job, lambda: out.items == ["one"])
    time.sleep(SETTLE_S)  # the link might still be on the way
    put(tmp_path / "c.txt", "two\n")
    until(job, lambda: len(out.items) == 2)
    job.stop()

    assert ["one", "two"] == out.items
    assert [str(tmp_path / "a.txt")] == [failure.item for failure in lost]


def test_a_parquet_file_with_a_damaged_page_is_a_dead_letter(engine, tmp_path):
    good, bad = tmp_path / "b.parquet", tmp_path / "a.parquet"
    pq.write_table(pa.table({"value": [1, 2]}), tmp_path / ".made")
    data = (tmp_path / ".made").read_bytes()
    put(bad, data[:10] + b"\xff" * 20 + data[30:])
    put(good, data)
    lost = []
    out = ab.read_parquet(tmp_path, int, follow=True).to_list()
    job = ab.start(out, on=engine, degree=1, on_error=ab.dead_letter(lost.append))
    until(job, lambda: out.items == [1, 2])
    job.stop()

    assert [str(bad)] == [failure.item for failure in lost]


@pytest.mark.long
def test_a_truncated_gzip_file_is_a_dead_letter_and_what_is_whole_stays(
    engine, tmp_path
):
    lines = b"".join(b"%d\n" % n for n in range(100_000))
    whole = gzip.compress(lines)
    put(tmp_path / "a.jsonl.gz", whole[: len(whole) // 2])
    put(tmp_path / "b.jsonl", "-1\n")
    lost = []
    out = ab.read_jsonl(tmp_path, int, follow=True).to_list()
    job = ab.start(out, on=engine, on_error=ab.dead_letter(lost.append))
    until(job, lambda: out.items[-1:] == [-1])
    job.stop()

    *kept, last = out.items
    assert -1 == last
    assert kept == list(range(len(kept)))
    assert 30_000 < len(kept) < 70_000
    assert [f"{tmp_path}/a.jsonl.gz"] == [failure.item for failure in lost]
    assert ["must be a whole gzip file" in str(f.error) for f in lost] == [True]


def test_a_truncated_gzip_file_stops_the_job_unless_told_otherwise(engine, tmp_path):
    put(tmp_path / "a.jsonl.gz", gzip.compress(b"1\n" * 1000)[:20])

    with pytest.raises(InputError, match="must be a whole gzip file"):
        ab.run(ab.read_jsonl(tmp_path, int, follow=True).to_list(), on=engine)


def test_an_empty_file_does_not_end_a_job_that_goes_on(engine, tmp_path):
    put(tmp_path / "a.csv", "")
    put(tmp_path / "b.csv", as_csv(readings(2)))
    lost = []
    out = ab.read_csv(tmp_path, Reading, follow=True).to_list()
    job = ab.start(out, on=engine, on_error=ab.dead_letter(lost.append))
    until(job, lambda: len(out.items) == 2)
    job.stop()

    assert [f"{tmp_path}/a.csv"] == [failure.item for failure in lost]


@pytest.mark.parametrize("path", ["file.txt", "nothing"])
def test_what_cannot_be_watched_is_told(engine, tmp_path, path):
    (tmp_path / "file.txt").write_text("one\n")

    with pytest.raises(InputError, match="must watch a directory or a pattern"):
        ab.run(ab.read_text(tmp_path / path, follow=True).to_list(), on=engine)


def slow(line: str) -> str:
    time.sleep(0.2)
    return line


@pytest.mark.spark
def test_a_file_that_vanishes_while_it_is_read_is_told(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{n}\n" for n in range(100)))
    out = ab.read_text(path).map(slow).to_list()
    job = ab.start(out, on="spark", epoch_items=5)
    until(job, lambda: bool(out.items))
    path.unlink()

    with pytest.raises(InputError, match=r"a\.txt must be readable"):
        job.wait()
    assert [str(n) for n in range(len(out.items))] == out.items


@pytest.mark.long
@pytest.mark.spark
def test_a_followed_file_that_vanishes_is_a_dead_letter(tmp_path):
    put(tmp_path / "a.txt", "".join(f"{n}\n" for n in range(100)))
    lost = []
    out = ab.read_text(tmp_path, follow=True).map(slow).to_list()
    job = ab.start(out, on="spark", epoch_items=5, on_error=ab.dead_letter(lost.append))
    until(job, lambda: bool(out.items))
    (tmp_path / "a.txt").unlink()
    put(tmp_path / "b.txt", "last\n")
    until(job, lambda: out.items[-1:] == ["last"])
    job.stop()

    kept = out.items[:-1]
    assert [str(n) for n in range(len(kept))] == kept
    assert {f"{tmp_path}/a.txt"} == {failure.item for failure in lost}


@pytest.mark.spark
@pytest.mark.parametrize("ending", needs.quick(1, ["csv", "csv.gz"]))
def test_a_job_goes_on_where_its_checkpoint_ends(tmp_path, ending):
    """
    The first run is stopped within a file.
    """
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    data.mkdir()
    first = as_csv(readings(30)).encode()
    put(data / f"a.{ending}", gzip.compress(first) if ending == "csv.gz" else first)
    seen = []
    for count in (1, 50):
        source = ab.read_csv(data, Reading, follow=True)
        sink = source.key_by("sensor").scan(total, 0).for_each(seen.append)
        job = ab.start(sink, on="spark", checkpoint=checkpoint, epoch_items=4)
        until(job, lambda count=count: len(seen) >= count)
        job.stop()
        put(data / "b.csv", as_csv(readings(20, first=30)))

    assert totals(readings(50)) == seen


def test_latency_counts_from_the_time_of_a_file(tmp_path, engine):
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    long_ago_s = time.time() - 3600
    os.utime(path, (long_ago_s, long_ago_s))
    out = ab.read_text(tmp_path, follow=True).to_list()
    job = ab.start(out, on=engine)
    until(job, lambda: len(out.items) == 2)
    job.stop()

    if engine != "sequential":
        latency = job.metrics().latency
        assert 2 == latency.items
        assert 3_600_000 <= latency.max_ms


def start_meeting(tmp_path, on, **options):
    """Two directories whose clocks meet in front of windows of ten."""
    sides = []
    for side in ("left", "right"):
        (tmp_path / side).mkdir()
        times = ab.read_jsonl(tmp_path / side, int, follow=True)
        sides.append(times.event_time("real", name=f"clock_{side}", **options))
    windows = ab.union(*sides).window(time=10, on="real", late="drop")
    out = windows.aggregate(end=ab.window_end(), n=ab.count()).to_list()
    return ab.start(out, on=on), out


def test_a_silent_input_does_not_hold_back_the_clock_of_others(engine, tmp_path):
    job, out = start_meeting(tmp_path, engine, idle="100 ms")
    put(tmp_path / "left" / "0.jsonl", "1\n")
    put(tmp_path / "right" / "0.jsonl", "2\n")
    until(job, lambda: sum(job.metrics().read.values()) == 2)
    for number in range(1000):
        if out.items:
            break
        put(tmp_path / "right" / f"{number + 1}.jsonl", f"{30 + number}\n")
        time.sleep(0.1)
    put(tmp_path / "left" / "1.jsonl", "3\n")  # too late for its window
    put(tmp_path / "left" / "2.jsonl", "5000\n")
    put(tmp_path / "right" / "5000.jsonl", "5001\n")
    until(job, lambda: len(out.items) > 1)
    job.stop()

    assert [(10, 2), 40] == [tuple(out.items[0]), out.items[1].end]


def test_a_silent_input_holds_back_others_as_long_as_nobody_says_otherwise(tmp_path):
    job, out = start_meeting(tmp_path, "sequential")
    put(tmp_path / "left" / "0.jsonl", "1\n")
    for number in range(5):
        put(tmp_path / "right" / f"{number}.jsonl", f"{20 * number}\n")
        until(job, lambda n=number: job.metrics().read["read_jsonl_2"] == n + 1)
    job.stop()

    assert [] == out.items
