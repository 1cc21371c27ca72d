"""DataFrames of the user's own, into a program and out of it again."""

import datetime as dt
import os
import uuid
from decimal import Decimal
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import EngineError, InputError, OperatorError
from tests.connectors.items import Reading, Total, as_csv, readings, total, totals

pytestmark = pytest.mark.spark

SCHEMA = "sensor string, value long"


def stream_of(spark, folder):
    """A streaming DataFrame of CSV files, one file for each micro-batch."""
    reader = spark.readStream.schema(SCHEMA).option("header", True)
    return reader.option("maxFilesPerTrigger", 1).csv(str(folder))


def put(folder, name, items):
    """Put a file there; Spark takes files by age, and these are older by name."""
    hidden = folder / f".{name}"
    hidden.write_text(as_csv(items))
    age_s = 1_000_000 + ord(name[0])
    os.utime(hidden, (age_s, age_s))
    hidden.rename(folder / name)


def test_a_streaming_frame_goes_through_a_program_into_a_writer(spark, tmp_path):
    (tmp_path / "in").mkdir()
    for n in range(3):
        put(tmp_path / "in", f"{n}.csv", readings(20, first=20 * n))
    written = []

    def write(frame, epoch):
        written.append((epoch, [Total(*row) for row in frame.collect()], frame.dtypes))

    source = ab.from_spark(
        stream_of(spark, tmp_path / "in"), Reading, trigger={"availableNow": True}
    )
    sums = source.key_by("sensor").scan(total, 0)
    job = ab.run(sums.to_spark(write))

    assert totals(readings(60)) == [row for _, rows, _ in written for row in rows]
    assert [20, 20, 20] == [len(rows) for _, rows, _ in written]
    assert sorted(epoch for epoch, _, _ in written) == [e for e, _, _ in written]
    assert [("sensor", "string"), ("total", "bigint")] == written[0][2]
    assert "finished" == job.status


@pytest.mark.long
def test_without_a_type_items_have_the_columns_as_attributes(spark):
    frame = spark.range(3).selectExpr("id", "cast(id as string) AS text", "id > 1 AS b")
    out = ab.from_spark(frame).map(lambda r: (r.id, r.text, r.b)).to_list()

    ab.run(out)

    assert [(0, "0", False), (1, "1", False), (2, "2", True)] == out.items


@pytest.mark.long
@pytest.mark.parametrize("epoch_items", [7, 1000])
def test_a_frame_that_has_an_end_keeps_the_order_of_its_partitions(spark, epoch_items):
    frame = spark.range(0, 100, 1, 4).selectExpr("id AS value")
    out = ab.from_spark(frame, int).to_list()

    ab.run(out, epoch_items=epoch_items)

    assert list(range(100)) == out.items


class Narrow(NamedTuple):
    a: int
    b: float


def test_narrow_numbers_are_widened(spark):
    frame = spark.sql("SELECT cast(1 AS int) AS a, cast(0.5 AS float) AS b")
    out = ab.from_spark(frame, Narrow).to_list()

    ab.run(out)

    assert [Narrow(1, 0.5)] == out.items


def test_a_bad_row_is_a_dead_letter_and_its_neighbours_stay(spark):
    frame = spark.createDataFrame([("a", 1), ("b", None), ("c", 3)], SCHEMA)
    lost = []
    out = ab.from_spark(frame.coalesce(1), Reading).to_list()

    ab.run(out, on_error=ab.dead_letter(lost.append))

    assert [Reading("a", 1), Reading("c", 3)] == out.items
    assert ["column 'value' must be int; got null" in str(f.error) for f in lost] == [
        True
    ]


def test_a_column_that_is_missing_is_told(spark):
    out = ab.from_spark(spark.range(3), Reading).to_list()

    with pytest.raises(InputError, match="there must be a column 'sensor'"):
        ab.run(out)


@pytest.mark.long
def test_a_query_that_fails_is_told(spark, tmp_path):
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "a.csv", readings(2))
    broken = stream_of(spark, tmp_path / "in").selectExpr(
        "sensor", "raise_error('no good') AS value"
    )
    source = ab.from_spark(broken, Reading, trigger={"availableNow": True})

    with pytest.raises(Exception, match="no good"):
        ab.run(source.to_list())


def test_a_writer_that_fails_is_told_with_the_epoch(spark):
    def fail(frame, epoch):
        msg = "no space"
        raise OSError(msg)

    with pytest.raises(OperatorError, match=r"epoch 1.*no space"):
        ab.run(ab.from_iterable([1, 2], int).to_spark(fail))


def test_a_stream_can_be_stopped(spark, tmp_path):
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "a.csv", readings(5))
    out = ab.from_spark(stream_of(spark, tmp_path / "in"), Reading).to_list()
    job = ab.start(out)
    while not out.items:
        assert not job.wait(timeout=0.05)
    job.stop()

    assert ("stopped", readings(5)) == (job.status, out.items)
    assert [] == spark.streams.active


@pytest.mark.long
def test_a_micro_batch_counts_once_whatever_its_checkpoint_knows(spark, tmp_path):
    """
    The second run finds nothing new; the third finds one more file.
    """
    (tmp_path / "in").mkdir()
    put(tmp_path / "in", "a.csv", readings(10))
    seen = []
    for run in range(3):
        if run == 2:
            put(tmp_path / "in", "b.csv", readings(10, first=10))
        source = ab.from_spark(stream_of(spark, tmp_path / "in"), Reading)
        sums = source.key_by("sensor").scan(total, 0)
        job = ab.start(sums.for_each(seen.append), checkpoint=tmp_path / "checkpoint")
        wanted = 20 if run == 2 else 10
        while len(seen) < wanted:
            assert not job.wait(timeout=0.05)
        assert not job.wait(timeout=1)
        job.stop()

    assert totals(readings(20)) == seen


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_other_engines_refuse_frames(spark, engine):
    with pytest.raises(EngineError, match="from_spark needs the Spark engine"):
        ab.run(ab.from_spark(spark.range(3)).to_list(), on=engine)
    with pytest.raises(EngineError, match="to_spark needs the Spark engine"):
        ab.run(ab.from_iterable([1]).to_spark(print), on=engine)


class Price(NamedTuple):
    amount: Decimal
    day: dt.date


class Basket(NamedTuple):
    prices: list[Price]
    counts: dict[str, int]
    first: Price | None


NESTED = """
    array(named_struct('amount', cast(1.50 as decimal(5, 2)), 'day', date'2026-01-31'))
    AS prices, map('a', 1, 'b', 2) AS counts,
    cast(null as struct<amount: decimal(5, 2), day: date>) AS first
"""


def test_structs_and_maps_become_values_of_their_types(spark):
    frame = spark.sql(f"SELECT {NESTED}")
    out = ab.from_spark(frame, Basket).to_list()

    ab.run(out)

    price = Price(Decimal("1.50"), dt.date(2026, 1, 31))
    assert [Basket([price], {"a": 1, "b": 2}, None)] == out.items
    assert Price is type(out.items[0].prices[0])


def test_a_frame_that_cannot_give_the_type_is_refused_before_a_row_is_read(spark):
    frame = spark.sql(f"SELECT {NESTED}").drop("counts")
    frame = frame.selectExpr("*", "array(1) AS counts")
    read = []
    out = ab.from_spark(frame, Basket).for_each(read.append)

    with pytest.raises(InputError, match="'counts' must hold dict"):
        ab.run(out)

    assert [] == read


@pytest.mark.spark
def test_a_map_without_a_type_is_a_dictionary_wherever_it_stands(spark):
    kind = (
        "n long, m map<string,long>, l array<map<string,long>>, "
        "s struct<inner:map<string,long>>"
    )
    rows = [(1, {"x": 0}, [{"y": 1}], ({"z": 2},)), (2, None, None, None)]
    out = ab.from_spark(spark.createDataFrame(rows, kind)).to_list()

    ab.run(out, on="spark")

    assert [
        (1, {"x": 0}, [{"y": 1}], {"inner": {"z": 2}}),
        (2, None, None, None),
    ] == [tuple(item) for item in out.items]


class Stamped(NamedTuple):
    number: int
    at: dt.datetime
    seen: dt.datetime | None
    day: dt.date | None
    id: uuid.UUID
    tags: list[str]


def test_frames_hold_datetimes_without_a_zone_uuids_and_columns_without_values(spark):
    noon = dt.datetime.fromisoformat("2026-07-01T12:00:00.000001")
    zoned = noon.replace(tzinfo=dt.UTC)
    items = [Stamped(n, noon, zoned, None, uuid.UUID(int=n), []) for n in range(3)]
    frames = []

    def keep(frame, _):
        frames.append((frame.dtypes, frame.localCheckpoint()))

    ab.run(ab.from_iterable(items, Stamped).to_spark(keep))
    ((columns, frame),) = frames
    out = ab.from_spark(frame, Stamped).to_list()
    ab.run(out)

    expected = {
        "number": "bigint",
        "at": "timestamp_ntz",
        "seen": "timestamp",
        "day": "date",
        "id": "binary",
        "tags": "array<string>",
    }
    assert expected == dict(columns)
    assert items == out.items
    assert [None] * 3 == [one.at.tzinfo for one in out.items]
