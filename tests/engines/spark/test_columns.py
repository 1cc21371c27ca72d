"""Units that run in columns on Spark give the bytes and errors of one thread."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from tests import needs
from tests.engines.trades import (
    Trade,
    ever_larger,
    is_large,
    of_window,
    parts_of,
    per_share,
    vwap,
)

pytestmark = pytest.mark.spark


def in_cents(t: Trade) -> Trade:
    return t._replace(price=t.price * 100)


PROGRAMS = {
    "chain": lambda s: s.map(in_cents).filter(is_large).map(per_share),
    "scan": lambda s: s.key_by("symbol").scan(vwap, (0.0, 0)),
    "window": lambda s: s.key_by("symbol").window(count=7).aggregate(of_window),
    "sliding": lambda s: (
        s.key_by("symbol").window(count=7, every=2).aggregate(of_window)
    ),
    "sliding in time": lambda s: (
        s.key_by("symbol").window(time=90, every=30, on="ts").aggregate(of_window)
    ),
    "named columns": lambda s: (
        s.key_by("symbol")
        .window(time=9, on="ts")
        .aggregate(
            start=ab.window_start(), most=ab.max("price"), symbol=ab.last("symbol")
        )
    ),
    "flat_map": lambda s: s.flat_map(parts_of).filter(is_large),
    "beyond 64 bits": lambda s: s.key_by("symbol").scan(ever_larger, 1),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at once")


def write_trades(path, rows, volume=None):
    rng = random.Random(3)
    lines = ["ts,symbol,price,volume"]
    for ts in range(rows):
        count = rng.randrange(1, 99) if volume is None else volume(ts)
        lines.append(f"{ts},S{rng.randrange(40)},{rng.uniform(1, 200):.2f},{count}")
    path.write_text("\n".join(lines) + "\n")
    return path


def read_rows(folder):
    return [
        line
        for part in sorted(Path(folder).glob("part*"))
        for line in part.read_text().splitlines()[1:]
    ]


@pytest.mark.parametrize("name", needs.quick(3, PROGRAMS))
def test_the_rows_are_those_of_one_thread(name, tmp_path):
    source = write_trades(tmp_path / "trades.csv", 3000)
    stream = PROGRAMS[name]

    runs = ab.compile(stream(ab.read_csv(source, Trade)).write_csv(tmp_path / "x"))
    ab.run(
        stream(ab.read_csv(source, Trade)).write_csv(tmp_path / "one"), on="sequential"
    )
    job = ab.run(
        stream(ab.read_csv(source, Trade)).write_csv(tmp_path / "two"), epoch_items=800
    )

    assert {"columns"} == {o.runs for o in runs.plan.operators if o.why}
    assert read_rows(tmp_path / "one") == read_rows(tmp_path / "two")
    shares = job.metrics().in_columns
    assert {o.name for o in runs.plan.operators if o.why} == set(shares)
    assert (name == "beyond 64 bits") == (min(shares.values()) < 1)


def which_third(t: Trade) -> int:
    return t.volume % 3


def part_and_meet(s):
    one, two, three = s.map(in_cents).split(which_third, 3, name="thirds")
    both = ab.union(two.map(in_words, name="words"), three.filter(is_large))
    return [
        both.key_by("symbol", "volume").scan(vwap, (0.0, 0)),
        ab.union(one, three).flat_map(parts_of),
    ]


def test_streams_that_part_and_meet_stay_in_columns(tmp_path):
    source = write_trades(tmp_path / "trades.csv", 3000)
    one = [s.to_list() for s in part_and_meet(ab.read_csv(source, Trade))]
    two = [s.to_list() for s in part_and_meet(ab.read_csv(source, Trade))]

    ab.run(*one, on="sequential")
    job = ab.run(*two, epoch_items=800, degree=2)

    for expected, actual in zip(one, two, strict=True):
        assert list(map(repr, expected.items)) == list(map(repr, actual.items))
    computing = {op.name for op in job.plan.operators if op.why}
    assert dict.fromkeys(computing - {"words"}, 1.0) == job.metrics().in_columns


def test_the_users_own_error_names_its_item(tmp_path):
    source = write_trades(
        tmp_path / "trades.csv", 3000, lambda ts: 0 if ts == 1777 else 4
    )
    sink = ab.read_csv(source, Trade).map(per_share).write_csv(tmp_path / "out")

    with pytest.raises(OperatorError, match="ZeroDivisionError") as raised:
        ab.run(sink, epoch_items=800)

    assert "item 1778 of read_csv" in str(raised.value)


def in_words(t: Trade) -> Trade:
    words = [t.symbol]
    words.append(str(t.volume % 3))
    return t._replace(symbol="-".join(words))


def twice(t: Trade) -> list[Trade]:
    return sorted([t, t._replace(volume=t.volume - 1)])


MIXED = {
    "map": lambda s: (
        s.map(in_cents, name="one")
        .map(in_words, name="two")
        .filter(is_large, name="three")
        .map(per_share, name="four")
    ),
    "flat_map": lambda s: (
        s.filter(is_large, name="one")
        .flat_map(twice, name="two")
        .map(in_cents, name="three")
        .map(per_share, name="four")
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_one_operator_in_python_leaves_both_sides_in_columns(name, tmp_path):
    source = write_trades(tmp_path / "trades.csv", 3000)
    stream = MIXED[name]

    plan = ab.compile(stream(ab.read_csv(source, Trade)).write_csv(tmp_path / "x")).plan
    ab.run(
        stream(ab.read_csv(source, Trade)).write_csv(tmp_path / "one"), on="sequential"
    )
    job = ab.run(
        stream(ab.read_csv(source, Trade)).write_csv(tmp_path / "two"), epoch_items=800
    )

    assert ["one", "three", "four"] == [
        op.name for op in plan.operators if op.runs == "columns"
    ]
    assert read_rows(tmp_path / "one") == read_rows(tmp_path / "two")
    assert {"one": 1.0, "three": 1.0, "four": 1.0} == job.metrics().in_columns


def test_the_first_error_counts_whichever_segment_raises_it(tmp_path):
    source = write_trades(
        tmp_path / "trades.csv", 3000, lambda ts: 0 if ts in {1777, 1790} else 4
    )
    read = ab.read_csv(source, Trade)
    sink = read.map(in_words).map(per_share).write_csv(tmp_path / "out")

    with pytest.raises(OperatorError, match="ZeroDivisionError") as raised:
        ab.run(sink, epoch_items=800)

    assert "item 1778 of read_csv" in str(raised.value)


def test_parquet_goes_to_parquet_in_columns(tmp_path):
    rows = [Trade(n, f"S{n % 7}", n / 7, n % 90 + 1) for n in range(3000)]
    columns = dict(zip(Trade._fields, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "in.parquet", row_group_size=1000)
    stream = PROGRAMS["scan"](ab.read_parquet(tmp_path / "in.parquet", Trade))
    same = PROGRAMS["scan"](ab.from_iterable(rows, Trade)).to_list()
    ab.run(same, on="sequential")

    job = ab.run(stream.write_parquet(tmp_path / "out"), epoch_items=800)

    parts = sorted((tmp_path / "out").glob("part*"))
    made = [row for part in parts for row in pq.read_table(part).to_pylist()]
    assert [item._asdict() for item in same.items] == made
    assert {1.0} == set(job.metrics().in_columns.values())


@pytest.mark.parametrize("name", ["scan", "window"])
def test_what_was_held_of_an_epoch_that_is_taken_back_counts_no_more(name, tmp_path):
    """
    A process is killed while epochs overlap; others that live on hold what is not so.
    """
    source = write_trades(tmp_path / "trades.csv", 2000)

    @ab.declare(state="stateless")
    def kill_once(t: Trade) -> Trade:
        flag = tmp_path / str(t.ts)
        if t.ts % 700 == 690 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return t

    def sink(folder, map_):
        trades = map_(ab.read_csv(source, Trade))
        return PROGRAMS[name](trades).write_csv(tmp_path / folder)

    ab.run(sink("one", lambda s: s), on="sequential")
    ab.run(sink("two", lambda s: s.map(kill_once)), degree=2, epoch_items=25)

    assert read_rows(tmp_path / "one") == read_rows(tmp_path / "two")
