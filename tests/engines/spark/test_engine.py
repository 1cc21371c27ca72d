"""The Spark engine as a user meets it: files, errors, changes of degree, stopping."""

import itertools
import os
import shutil
import time
import types
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import InputError, OperatorError, OutputError
from tests import needs
from tests.engines.spark.items import (
    Note,
    Price,
    Trade,
    mean,
    note,
    traded,
    trades,
    vwap,
)

pytestmark = pytest.mark.spark


def write_trades(path: Path, n: int) -> list[Trade]:
    made = trades(n)
    rows = [f"{t.ts},{t.symbol},{t.price!r},{t.volume}\n" for t in made]
    path.write_text("ts,symbol,price,volume\n" + "".join(rows))
    return made


def parts(path: Path) -> list[str]:
    """Return the lines of all parts, in order, without their headers."""
    found = sorted(path.glob("part-*"))
    return [line for part in found for line in part.read_text().splitlines()[1:]]


def program(source: ab.Stream) -> ab.Stream:
    return source.filter(traded).key_by("symbol").scan(vwap, (0.0, 0))


@pytest.mark.parametrize("degree", needs.quick(1, [2, 1, 5]))
@pytest.mark.parametrize("epoch_items", [60, 10_000])
def test_a_keyed_program_from_file_to_file_keeps_the_order(
    tmp_path, degree, epoch_items
):
    write_trades(tmp_path / "trades.csv", 300)
    for engine in ("sequential", "spark"):
        source = ab.read_csv(tmp_path / "trades.csv", Trade)
        sink = program(source).write_csv(tmp_path / engine)
        ab.run(sink, on=engine, degree=degree, epoch_items=epoch_items)

    assert parts(tmp_path / "sequential") == parts(tmp_path / "spark")
    assert (tmp_path / "spark" / "_SUCCESS").exists()


@pytest.mark.long
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_a_single_file_is_the_sequential_one_to_the_byte(tmp_path, ending):
    made = {}
    for engine in ("sequential", "spark"):
        stream = ab.from_iterable(trades(200), Trade).map(note).key_by("symbol")
        path = tmp_path / f"{engine}.{ending}"
        sink = getattr(stream, f"write_{ending}")(path)
        ab.run(sink, on=engine, degree=3, epoch_items=70)
        made[engine] = (
            pq.read_table(path).to_pylist()
            if ending == "parquet"
            else path.read_bytes()
        )

    assert made["sequential"] == made["spark"]


@pytest.mark.long
def test_every_format_is_read_as_the_sequential_engine_reads_it(tmp_path):
    rows = [note(t) for t in trades(120)]
    for ending in ("csv", "jsonl", "parquet"):
        sink = getattr(ab.from_iterable(rows, Note), f"write_{ending}")
        ab.run(sink(tmp_path / f"notes.{ending}"), on="sequential")
        read = getattr(ab, f"read_{ending}")
        out = read(tmp_path / f"notes.{ending}", Note).to_list()
        ab.run(out, on="spark", degree=3, epoch_items=50)

        assert rows == out.items


def test_numbers_that_arrow_reads_otherwise_are_refused_like_elsewhere(tmp_path):
    path = tmp_path / "numbers.csv"
    path.write_text("value\n1\n0x10\n")
    for engine in ("sequential", "spark"):
        with pytest.raises(InputError, match=r"numbers\.csv, row 2 .*0x10"):
            ab.run(ab.read_csv(path, int).to_list(), on=engine)


def test_several_sources_take_turns_row_by_row(tmp_path):
    write_trades(tmp_path / "one.csv", 90)
    write_trades(tmp_path / "two.csv", 50)
    seen = {}
    for engine in ("sequential", "spark"):
        one = ab.read_csv(tmp_path / "one.csv", Trade)
        two = ab.read_csv(tmp_path / "two.csv", Trade)
        three = ab.generate(lambda: iter(trades(20)), Trade)
        both = ab.union(one.filter(traded), two, three)
        out = both.window(count=3).aggregate(mean).to_list()
        ab.run(out, on=engine, degree=2, epoch_items=17)
        seen[engine] = out.items

    assert seen["sequential"] == seen["spark"]


def test_an_error_names_operator_item_and_line_and_shows_the_users_traceback():
    def inverse(n):
        return 1 / n

    out = ab.from_iterable([4, 2, 0, 1]).map(inverse, name="inverse").to_list()

    with pytest.raises(OperatorError) as caught:
        ab.run(out, on="spark")

    text = str(caught.value)
    assert "'inverse'" in text
    assert "item 3 of from_iterable: 0: ZeroDivisionError" in text
    assert "test_engine.py" in text
    (note,) = caught.value.__notes__
    assert 1 == note.count('File "')  # that of the user's function: none is ours
    assert "in inverse" in note
    assert note.endswith("ZeroDivisionError: division by zero")
    assert "another exception" not in note


@pytest.mark.parametrize("engine", ["sequential", "spark"])
def test_an_error_that_depends_on_the_state_names_the_same_item(engine):
    """
    On Spark, an epoch that fails is run again to find the item.
    """

    def limited(state, t):
        if state == 3:
            message = "full"
            raise ValueError(message)
        return state + 1, t

    keyed = ab.from_iterable(trades(50), Trade).key_by("symbol")
    out = keyed.scan(limited, 0, name="limited").to_list()

    with pytest.raises(OperatorError, match=r"item 22 of from_iterable.*full"):
        ab.run(out, on=engine, degree=1)


def test_an_operator_in_this_process_sees_each_item_once_before_it_fails():
    box = types.SimpleNamespace(seen=[])  # what is in there is not lifted

    def noting(n):
        box.seen.append(n)
        return 6 // n

    out = ab.from_iterable([3, 2, 1, 0, 1]).map(noting).to_list()
    with pytest.raises(OperatorError):
        ab.run(out, on="spark")

    assert [3, 2, 1, 0] == box.seen


def test_dead_letters_reach_a_function_in_this_process():
    lost = []
    out = ab.from_iterable([4, 0, 2]).map(lambda n: 8 // n).to_list()

    ab.run(out, on="spark", degree=2, on_error=ab.dead_letter(lost.append))

    assert [2, 4] == out.items
    assert [0] == [failure.item for failure in lost]


def test_hidden_state_stays_in_one_process_and_gives_the_sequential_result():
    counter = itertools.count()
    numbers = ab.from_iterable(list("abcdef"))
    out = numbers.map(lambda letter: (next(counter), letter, os.getpid())).to_list()

    ab.run(out, on="spark", degree=3, epoch_items=2)

    assert [(i, c, os.getpid()) for i, c in enumerate("abcdef")] == out.items


def test_the_degree_may_change_from_epoch_to_epoch():
    expected = program(ab.from_iterable(trades(400), Trade)).to_list()
    ab.run(expected, on="sequential")
    out = program(ab.from_iterable(trades(400), Trade)).to_list()

    job = ab.start(out, on="spark", degree=1, epoch_items=25)
    for degree in itertools.cycle([2, 5, 1, 8]):
        job._running.set_degree(degree)
        if job.wait(timeout=0.3):
            break

    assert expected.items == out.items


def test_metrics_have_replicas_and_latencies():
    sink = ab.from_iterable(range(100)).map(abs).to_list()

    metrics = ab.run(sink, on="spark", degree=2).metrics()

    assert {"r0": 2} == metrics.degrees
    assert () == metrics.cuts
    counted = sum(items for _, items in metrics.latency_counts)
    assert metrics.latency.items == counted


def test_metrics_have_the_replicas_that_there_are(divisions, a_job_for_each_epoch):
    """Nobody has said how many; one is enough for so few items, unless disturbed."""
    sink = ab.from_iterable(range(100)).map(abs).to_list()

    metrics = ab.run(sink, on="spark", epoch_items=20).metrics()

    used = [one.channels for one in divisions]
    assert list(used[-1]) == list(metrics.degrees.values())
    assert (1,) in used


def test_stop_ends_an_endless_program_at_the_end_of_an_epoch():
    out = ab.generate(itertools.count).map(lambda n: n * 2).to_list()
    job = ab.start(out, on="spark", epoch_items=10)
    while job.metrics().epochs < 2:
        time.sleep(0.05)

    job.stop()

    assert "stopped" == job.status
    assert [2 * n for n in range(len(out.items))] == out.items
    assert 0 == len(out.items) % 10


def test_nothing_is_left_behind_when_a_job_fails(tmp_path):
    stream = ab.from_iterable([1, 0]).map(lambda n: 1 // n)

    with pytest.raises(OperatorError):
        ab.run(stream.write_csv(tmp_path / "out"), on="spark")

    assert [] == list(tmp_path.iterdir())


def test_an_empty_stream_gives_an_output_with_its_columns(tmp_path):
    ab.run(ab.from_iterable([], Price).write_csv(tmp_path / "out.csv"), on="spark")

    assert "ts,symbol,vwap\n" == (tmp_path / "out.csv").read_text()


def test_a_block_with_one_output_for_several_items_keeps_its_place():
    def paired() -> ab.Stream:
        source = ab.from_iterable(trades(60), Trade)
        return source.key_by("symbol").block(lambda w: [w[1]], pop=2, push=1)

    expected, out = paired().to_list(), paired().to_list()
    ab.run(expected, on="sequential")
    ab.run(out, on="spark", degree=2, epoch_items=25)

    assert expected.items == out.items


def test_a_parquet_file_that_is_cut_off_is_named(tmp_path):
    path = tmp_path / "prices.parquet"
    path.write_bytes(b"PAR1 and no more of it")

    with pytest.raises(InputError, match=f"{path} must be a readable Parquet file"):
        ab.run(ab.read_parquet(path, Price).to_list())


def test_a_link_to_nowhere_is_a_dead_letter_also_behind_the_last_row(tmp_path):
    """
    No epoch follows it that could carry the failure.
    """
    source, link = tmp_path / "in", tmp_path / "in" / "z.txt"
    source.mkdir()
    (source / "a.txt").write_text("1\n2\n")
    link.symlink_to("nowhere")
    lost = []
    lines = ab.read_text(source.as_uri()).to_list()

    ab.run(
        lines,
        on_error=ab.dead_letter(lost.append),
        checkpoint=(tmp_path / "kept").as_uri(),
    )

    assert ["1", "2"] == lines.items
    assert [str(link)] == [failure.item for failure in lost]
    assert (tmp_path / "kept" / "program.json").exists()


def test_an_output_that_the_tasks_do_not_see_is_one_clear_error(tmp_path):
    def remove(n):
        for made in tmp_path.glob(".out.*"):
            shutil.rmtree(made, ignore_errors=True)
        return n

    numbers = ab.from_iterable(range(10), int).map(remove, name="remove")

    with pytest.raises(OutputError, match="must lie where the driver and every worker"):
        ab.run(numbers.write_csv(tmp_path / "out"), degree=1)
