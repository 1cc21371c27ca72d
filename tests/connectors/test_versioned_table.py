"""Delta Lake and Iceberg: read back by the libraries' own readers."""

from __future__ import annotations

import copy
import datetime as dt
import json
import sys
import time
import uuid
from contextlib import closing
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as ab
from anabranch.connectors.delta import DeltaSink
from anabranch.connectors.iceberg import IcebergSink
from anabranch.errors import EngineError, GraphError, InputError, OutputError
from tests.connectors.files.test_round_trip import KINDS, Point

deltalake = pytest.importorskip("deltalake")
iceberg = pytest.importorskip("pyiceberg.catalog")


class Trade(NamedTuple):
    symbol: str
    price: float
    volume: int | None = None


class Leg(NamedTuple):
    name: str
    size: int


class Order(NamedTuple):
    id: int
    total: Decimal
    legs: list[Leg]


TRADES = [Trade("a", 1.5, 3), Trade("b", -0.0, None), Trade("a", 2.0, 4)]


class Lake:
    """A table of either kind, seen through its own library."""

    def __init__(self, folder, kind: str) -> None:
        self.kind = kind
        self.folder = folder
        self.path = str(folder / "trades")
        self.catalog = {
            "name": "test",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }

    def write(self, stream: ab.Stream, **options):
        if self.kind == "delta":
            return stream.write_delta(self.path, **options)
        return stream.write_iceberg("shop.trades", catalog=self.catalog, **options)

    def read(self, type=Trade, version=None, **options):
        if self.kind == "delta":
            return ab.read_delta(self.path, type, version=version, **options)
        return ab.read_iceberg(
            "shop.trades", type, catalog=self.catalog, snapshot=version, **options
        )

    def open_sink(self, by=()):
        if self.kind == "delta":
            return DeltaSink(self.path, by)
        given = tuple(self.catalog.items())
        return IcebergSink("shop.trades", by, given)

    def run(self, items, **options) -> None:
        ab.run(self.write(ab.from_iterable(items, Trade), **options), on="sequential")

    @property
    def table(self):
        if self.kind == "delta":
            return deltalake.DeltaTable(self.path)
        with closing(iceberg.load_catalog(**self.catalog)) as catalog:
            return catalog.load_table("shop.trades")

    @property
    def rows(self) -> list[tuple]:
        found = (
            self.table.to_pyarrow_table()
            if self.kind == "delta"
            else self.table.scan().to_arrow()
        )
        return sorted(
            map(Trade._make, zip(*found.to_pydict().values(), strict=True)), key=repr
        )

    @property
    def version(self) -> int:
        if self.kind == "delta":
            return self.table.version()
        return self.table.current_snapshot().snapshot_id

    @property
    def files(self) -> list[str]:
        """The data files of the table."""
        if self.kind == "delta":
            return self.table.file_uris()
        return [task.file.file_path for task in self.table.scan().plan_files()]

    @property
    def left(self) -> list[str]:
        """The files that no version has had."""
        return [path.name for path in self.folder.rglob("*.arrow")]

    def compact(self) -> None:
        if self.kind == "delta":
            self.table.optimize.compact()

    def remove(self, symbol: str) -> None:
        predicate = f"symbol = '{symbol}'"
        table = self.table
        table.delete(predicate)
        if self.kind == "iceberg":
            table.catalog.close()


@pytest.fixture(params=["delta", "iceberg"])
def lake(request, tmp_path):
    (tmp_path / "warehouse").mkdir()
    return Lake(tmp_path, request.param)


def test_an_item_replaces_the_row_with_the_same_values_of_several_attributes(lake):
    lake.run([Trade("a", 1.0, 1), Trade("a", 2.0, 1), Trade("b", 1.0, 1)])

    by = ("symbol", "price")
    lake.run([Trade("a", 2.0, 7), Trade("b", 2.0, 8)], by=by)

    expected = [("a", 1.0, 1), ("a", 2.0, 7), ("b", 1.0, 1), ("b", 2.0, 8)]
    assert expected == [tuple(row) for row in lake.rows]


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_what_is_written_is_read_back_in_order(lake, engine):
    ab.run(lake.write(ab.from_iterable(TRADES, Trade)), on=engine)

    out = lake.read().to_list()
    ab.run(out, on=engine)

    assert sorted(TRADES, key=repr) == lake.rows
    assert TRADES == out.items
    assert ["1.5", "-0.0", "2.0"] == [repr(trade.price) for trade in out.items]


@pytest.mark.spark
def test_tasks_write_the_data_files_of_an_epoch_in_order(lake, spark):
    trades = [Trade("s", float(n), n) for n in range(100)]
    stream = ab.from_iterable(trades, Trade).map(lambda trade: trade)

    ab.run(lake.write(stream), on="spark", degree=2, epoch_items=25)

    assert trades == ab.testing.outputs(lake.read())
    assert 8 == len(lake.files)
    assert all("part-" in path and path.endswith(".parquet") for path in lake.files)


@pytest.mark.spark
def test_tasks_write_what_replaces_rows(lake, spark):
    trades = [Trade("abcd"[n % 4], 1.0, n) for n in range(100)]
    stream = ab.from_iterable(trades, Trade).map(lambda trade: trade)

    ab.run(lake.write(stream, by="symbol"), on="spark", degree=2, epoch_items=50)

    assert [("abcd"[n % 4], 1.0, n) for n in range(96, 100)] == lake.rows
    assert [] == lake.left


def write_part(sink, items, type=Trade, name="1-0"):
    """Write a part as a task does; return its description as the driver gets it."""
    part = ab.SinkPart(f"{name}-{uuid.uuid4()}", 1, "job", type)
    described = copy.copy(sink).write_part(part, items)
    return part, json.loads(json.dumps(described))


def test_an_epoch_that_comes_again_adds_nothing(lake):
    for _ in range(2):
        sink = lake.open_sink()
        sink.open("job-1", Trade)
        _, described = write_part(sink, TRADES)
        sink.commit_parts(1, [described])
    other = lake.open_sink()

    assert 0 == other.open("job-2", Trade)
    assert 1 == other.open("job-1", Trade)
    assert sorted(TRADES, key=repr) == lake.rows


def test_of_two_drivers_that_commit_one_epoch_only_one_counts(lake):
    first, second = lake.open_sink(), lake.open_sink()
    parts = []
    for sink in (first, second):
        sink.open("job-1", Trade)
        parts.append(write_part(sink, TRADES)[1])
    first.commit_parts(1, parts[:1])
    second.commit_parts(1, parts[1:])

    assert sorted(TRADES, key=repr) == lake.rows


def test_data_files_of_delta_lake_have_statistics(tmp_path):
    """
    Of whole numbers and texts; readers skip files by them.
    """
    row = NamedTuple("Row", [("n", int | None), ("text", str), ("x", float)])  # noqa: UP014
    items = [row(n if n % 10 else None, f"é{n:03}", float("nan")) for n in range(50)]
    path = str(tmp_path / "table")
    ab.run(ab.from_iterable(items, row).write_delta(path), on="sequential")

    table = deltalake.DeltaTable(path)
    (found,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()

    assert (50, 5, 0) == (
        found["num_records"],
        found["null_count.n"],
        found["null_count.text"],
    )
    assert (1, 49) == (found["min.n"], found["max.n"])
    assert ("é000", "é049") == (found["min.text"], found["max.text"])
    assert found.get("min.x") is found.get("max.x") is None
    assert 1 == table.to_pyarrow_table(filters=[("n", "=", 49)]).num_rows


def test_parts_of_several_types_are_joined(lake):
    """
    A number is whole in one part, a fraction in another, and missing in a third.
    """
    row = NamedTuple("Row", [("n", int), ("value", Any)])  # noqa: UP014
    sink = lake.open_sink()
    sink.open("job", row)
    parts = [
        write_part(sink, [row(n, value)], row, name=f"1-{n}")[1]
        for n, value in enumerate([7, None, 0.5])
    ]

    sink.commit_parts(1, parts)

    out = lake.read(NamedTuple("Row", [("n", int), ("value", float | None)])).to_list()
    ab.run(out, on="sequential")
    assert [(0, 7.0), (1, None), (2, 0.5)] == [tuple(item) for item in out.items]
    assert [] == lake.left


def test_a_table_with_partitions_or_rules_is_given_the_rows(lake):
    """
    Files alone would skip its partitions, and would break its rule.
    """
    if lake.kind == "delta":
        schema = pa.schema(
            [("symbol", pa.string()), ("price", pa.float64()), ("volume", pa.int64())]
        )
        table = deltalake.DeltaTable.create(lake.path, schema, partition_by=["symbol"])
        table.alter.add_constraint({"cheap": "price < 100"})
    else:
        lake.run(TRADES[:1])
        table = lake.table
        with closing(table.catalog), table.update_spec() as update:
            update.add_identity("symbol")

    lake.run(TRADES[1:])

    kept = TRADES if lake.kind == "iceberg" else TRADES[1:]
    assert sorted(kept, key=repr) == lake.rows
    assert lake.kind == "iceberg" or 2 == len(lake.files)
    if lake.kind == "delta":
        with pytest.raises(OutputError, match="failed validation"):
            lake.run([Trade("c", 500.0, 1)])


def test_a_table_with_other_columns_is_refused_the_rows(lake):
    lake.run(TRADES)
    other = NamedTuple("Other", [("symbol", str), ("size", int)])  # noqa: UP014

    with pytest.raises(OutputError, match=r"must be able to write to"):
        ab.run(lake.write(ab.from_iterable([other("a", 1)], other)), on="sequential")

    assert sorted(TRADES, key=repr) == lake.rows


def test_with_by_the_last_item_of_a_key_takes_the_place_of_its_row(lake):
    lake.run([Trade("a", 1.0, 1), Trade("b", 2.0, 2)])

    lake.run([Trade("b", 3.0, 3), Trade("c", 4.0, 4), Trade("b", 5.0, 5)], by="symbol")

    assert [Trade("a", 1.0, 1), Trade("b", 5.0, 5), Trade("c", 4.0, 4)] == lake.rows


def test_an_older_version_is_read_as_it_was(lake):
    lake.run(TRADES[:2])
    version = lake.version
    lake.run(TRADES[2:])

    assert TRADES[:2] == ab.testing.outputs(lake.read(version=version))


def test_what_was_added_since_a_version_comes_version_by_version(lake):
    lake.run(TRADES[:1])
    version = lake.version
    lake.run([Trade("z", 9.0, 9)])
    lake.run([Trade("y", 8.0, 8)])
    lake.compact()

    found = ab.testing.outputs(lake.read(since=version))

    assert [Trade("z", 9.0, 9), Trade("y", 8.0, 8)] == found


def test_a_version_that_removed_rows_is_no_addition(lake):
    lake.run(TRADES)
    version = lake.version
    lake.remove("b")

    with pytest.raises(
        InputError, match="changed or removed rows; read the table whole"
    ):
        ab.testing.outputs(lake.read(since=version))


def test_a_followed_table_gives_its_rows_and_those_of_later_versions(lake):
    lake.run(TRADES[:1])
    found = []
    job = ab.start(lake.read(follow=True).for_each(found.append), on="local")
    try:
        _wait_for(found, 1)
        lake.run(TRADES[1:])
        _wait_for(found, 3)
    finally:
        job.stop()

    assert TRADES == found


def _wait_for(found: list, count: int) -> None:
    until_s = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until_s:
        time.sleep(0.02)


def test_a_missing_table_is_named(lake):
    with pytest.raises(InputError, match=r"must find .* table"):
        ab.testing.outputs(lake.read())


def test_a_column_of_another_type_is_named(lake):
    class Other(NamedTuple):
        symbol: int

    lake.run(TRADES)

    with pytest.raises(InputError, match="column 'symbol' must hold int"):
        ab.testing.outputs(lake.read(Other))


def test_a_null_that_the_type_does_not_allow_is_a_bad_row(lake):
    class Strict(NamedTuple):
        symbol: str
        volume: int

    lake.run(TRADES)
    out = lake.read(Strict).to_list()
    ab.run(out, on="sequential", on_error="skip")

    assert [Strict("a", 3), Strict("a", 4)] == out.items
    with pytest.raises(InputError, match=r"row 2 of version .* must be int; got null"):
        ab.testing.outputs(lake.read(Strict))


def test_an_item_that_does_not_fit_is_refused_alone(lake):
    big = Trade("x", 1.0, 1 << 70)

    sink = lake.open_sink()
    sink.open("job-1", Trade)
    part, described = write_part(sink, [TRADES[0], big])
    sink.commit_parts(1, [described])

    assert [1] == [*part.refused]
    assert TRADES[:1] == lake.rows


def test_by_must_name_an_attribute(lake):
    with pytest.raises(GraphError, match="there is no 'price2'; choose among symbol"):
        lake.run(TRADES, by="price2")


def test_a_version_and_since_cannot_both_be_given(lake):
    with pytest.raises(ValueError, match="leave one out"):
        lake.read(version=1, since=2)


def test_decimals_and_nested_values_survive(lake):
    orders = [Order(1, Decimal("1.50"), [Leg("x", 1), Leg("y", 2)])]
    stream = ab.from_iterable(orders, Order)
    ab.run(lake.write(stream), on="sequential")

    assert orders == ab.testing.outputs(lake.read(Order))


def test_without_the_library_the_command_that_installs_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "deltalake", None)

    with pytest.raises(EngineError, match=r"pip install 'anabranch\[delta\]'"):
        ab.testing.outputs(ab.read_delta("x", int))


def test_rows_of_several_files_keep_the_order_of_their_paths(lake):
    for n in range(4):
        lake.run([Trade("f", float(n), n)])

    first, second = (ab.testing.outputs(lake.read()) for _ in range(2))

    assert first == second
    assert [0, 1, 2, 3] == sorted(trade.volume for trade in first)


NOON = dt.datetime.fromisoformat("2026-01-01T12:00:00")
SOME = uuid.UUID(int=5)
EPOCHS = {  # the type of an attribute, and its values in two epochs
    "datetime, none": (dt.datetime | None, NOON, None),
    "zoned, none": (dt.datetime | None, NOON.replace(tzinfo=dt.UTC), None),
    "none, date": (dt.date | None, None, NOON.date()),
    "date, none": (dt.date | None, NOON.date(), None),
    "none, uuid": (uuid.UUID | None, None, SOME),
    "uuid, none": (uuid.UUID | None, SOME, None),
    "empty, full": (Point, Point(1.0, [], NOON), Point(1.0, ["a"], NOON)),
    "full, empty": (Point, Point(1.0, ["a"], NOON), Point(1.0, [], NOON)),
}


def commit_values(lake, kind, *values):
    """Commit an epoch for each value; return the type of the rows."""
    row = NamedTuple("Row", [("epoch", int), ("value", kind)])  # noqa: UP014
    sink = lake.open_sink()
    sink.open("job", row)
    for epoch, value in enumerate(values, 1):
        part, described = write_part(sink, [row(epoch, value)], row)
        assert {} == part.refused
        sink.commit_parts(epoch, [described])
    return row


@pytest.mark.parametrize(("kind", "first", "second"), EPOCHS.values(), ids=EPOCHS)
def test_an_epoch_without_values_fits_those_with(lake, kind, first, second):
    row = commit_values(lake, kind, first, second)

    out = lake.read(row).to_list()
    ab.run(out, on="sequential")

    assert [row(1, first), row(2, second)] == sorted(out.items)


@pytest.mark.parametrize("kind", [dt.datetime | None, list[dt.datetime]])
def test_a_new_table_is_refused_a_column_of_unknown_type(lake, kind):
    value = None if kind == dt.datetime | None else []

    with pytest.raises(OutputError, match="'value' has no values yet"):
        commit_values(lake, kind, value)


NOT_HELD = {"delta": (dt.time, dt.timedelta), "iceberg": (dt.timedelta,)}


def test_types_that_no_table_has_are_refused_before_the_job_runs(lake):
    for kind in NOT_HELD[lake.kind]:
        for inside in (kind, list[kind], kind | None):
            row = NamedTuple("Row", [("value", inside)])  # noqa: UP014
            out = lake.write(ab.from_iterable([], row))
            with pytest.raises(GraphError, match="'value' must be of a type that"):
                ab.explain(out)


def test_values_of_unknown_type_that_no_table_has_are_refused(lake):
    for kind in NOT_HELD[lake.kind]:
        value = dt.timedelta(1) if kind is dt.timedelta else dt.time(1)
        with pytest.raises(OutputError, match="'value' must be of a type that"):
            commit_values(lake, Any, value)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_many_values_come_back(lake, kind):
    row = NamedTuple("Row", [("number", int), ("value", kind)])  # noqa: UP014
    numbers = iter(range(100))

    @settings(max_examples=4, deadline=None)
    @given(st.lists(KINDS[kind], min_size=40, max_size=60))
    def test(values):
        items = [row(number, value) for number, value in enumerate(values)]
        there = Lake(lake.folder / str(next(numbers)), lake.kind)
        there.folder.mkdir()
        out = there.read(row).to_list()
        try:
            ab.run(there.write(ab.from_iterable(items, row)), on="sequential")
        except (GraphError, OutputError):
            return  # said in time: nothing was written
        ab.run(out, on="sequential")

        assert items == sorted(out.items, key=lambda item: item.number)
        assert [type(one.value) for one in items] == [
            type(one.value) for one in sorted(out.items, key=lambda item: item.number)
        ]

    test()
