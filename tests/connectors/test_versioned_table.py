"""Delta Lake and Iceberg: read back by the libraries' own readers."""

from __future__ import annotations

import sys
import time
from contextlib import closing
from decimal import Decimal
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.connectors.delta import DeltaSink
from anabranch.connectors.iceberg import IcebergSink
from anabranch.errors import EngineError, InputError, OutputError

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
def test_a_job_on_spark_writes_each_epoch_once(lake, spark):
    trades = [Trade("s", float(n), n) for n in range(100)]
    stream = ab.from_iterable(trades, Trade).map(lambda trade: trade)

    ab.run(lake.write(stream), on="spark", degree=2, epoch_items=25)

    out = lake.read().map(lambda trade: trade.volume).to_list()
    ab.run(out, on="spark", degree=2)
    assert sorted(trades, key=repr) == lake.rows
    assert list(range(100)) == sorted(out.items)


def test_an_epoch_that_comes_again_adds_nothing(lake):
    for _ in range(2):
        sink = lake.open_sink()
        sink.open("job-1", Trade)
        sink.write(TRADES)
        sink.prepare(1)
        sink.commit(1)
    other = lake.open_sink()

    assert 0 == other.open("job-2", Trade)
    assert 1 == other.open("job-1", Trade)
    assert sorted(TRADES, key=repr) == lake.rows


def test_of_two_drivers_that_commit_one_epoch_only_one_counts(lake):
    first, second = lake.open_sink(), lake.open_sink()
    for sink in (first, second):
        sink.open("job-1", Trade)
        sink.write(TRADES)
    first.commit(1)
    second.commit(1)

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

    lake_sink = lake.open_sink()
    lake_sink.open("job-1", Trade)
    refused = lake_sink.write([TRADES[0], big])
    lake_sink.commit(1)

    assert [big] == [row.raw for row in refused]
    assert TRADES[:1] == lake.rows


def test_by_must_name_an_attribute(lake):
    with pytest.raises(OutputError, match="there is no 'price2'"):
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
