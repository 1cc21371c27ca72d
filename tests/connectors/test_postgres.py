"""Postgres as a source and as a sink, against a real server."""

import itertools
import uuid
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.connectors.external import open_external
from anabranch.connectors.postgres import PostgresSink
from anabranch.errors import InputError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteSink
from tests.connectors.items import Reading, Total, readings, total, totals
from tests.needs import PSYCOPG, why_left_out

psycopg = pytest.importorskip("psycopg", reason=why_left_out(PSYCOPG))


class Numbered(NamedTuple):
    id: int
    sensor: str
    value: int


class Loose(NamedTuple):
    id: int
    price: float
    note: str | None


@pytest.fixture
def sql(database):
    """Run a statement on the server and return its rows."""

    def run(statement):
        with psycopg.connect(database.dsn) as connection:
            cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []

    return run


@pytest.fixture
def table(sql):
    """A table of its own for each test: id, sensor, value."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    sql(f"CREATE TABLE {name} (id serial, sensor text NOT NULL, value bigint)")
    yield name
    sql(f"DROP TABLE {name}")


def filled(sql, table, items):
    rows = ", ".join(f"({n}, '{s}', {v})" for n, (s, v) in enumerate(items))
    sql(f"INSERT INTO {table} (id, sensor, value) VALUES {rows}")


def test_a_table_goes_through_a_program_into_another(engine, database, sql, table):
    items = readings(1000)
    filled(sql, table, items)
    sql(f"CREATE TABLE {table}_out (n serial, sensor text, total bigint)")
    source = ab.read_postgres(database.dsn, table, Reading, order_by="id")
    sums = source.key_by("sensor").scan(total, 0)

    ab.run(
        sums.write_postgres(database.dsn, f"{table}_out"), on=engine, epoch_items=300
    )

    found = sql(f"SELECT sensor, total FROM {table}_out ORDER BY n")
    sql(f"DROP TABLE {table}_out")
    assert totals(items) == list(itertools.starmap(Total, found))


def test_rows_come_in_the_order_of_the_columns_that_were_named(database, sql, table):
    sql(f"INSERT INTO {table} VALUES (1, 'b', 1), (2, 'a', 2), (3, 'b', 0)")
    source = ab.read_postgres(
        database.dsn, table, Reading, order_by=("sensor", "value")
    )

    found = ab.testing.outputs(source)

    assert [Reading("a", 2), Reading("b", 0), Reading("b", 1)] == found


def test_a_query_can_be_read_too(database, sql, table):
    filled(sql, table, readings(5))
    query = f"SELECT id AS value FROM {table} WHERE id > 2"

    found = ab.testing.outputs(
        ab.read_postgres(database.dsn, query, int, order_by="value")
    )

    assert [3, 4] == found


def test_numbers_of_the_server_become_floats_and_nulls_none(database):
    query = "SELECT 1 AS id, 2.5::numeric AS price, NULL::text AS note"

    found = ab.testing.outputs(
        ab.read_postgres(database.dsn, query, Loose, order_by="id")
    )

    assert [Loose(1, 2.5, None)] == found


@pytest.mark.parametrize(
    "engine", ["sequential", pytest.param("spark", marks=pytest.mark.spark)]
)
def test_a_bad_row_is_a_dead_letter_and_its_neighbours_stay(
    engine, database, sql, table
):
    sql(f"INSERT INTO {table} VALUES (1, 'a', 1), (2, 'b', NULL), (3, 'c', 3)")
    lost = []
    out = ab.read_postgres(database.dsn, table, Reading, order_by="id").to_list()

    ab.run(out, on=engine, on_error=ab.dead_letter(lost.append))

    assert [Reading("a", 1), Reading("c", 3)] == out.items
    assert ["column 'value' must be int; got None" in str(f.error) for f in lost] == [
        True
    ]


def test_a_bad_row_stops_the_job_unless_told_otherwise(database, sql, table):
    sql(f"INSERT INTO {table} VALUES (1, 'a', NULL)")
    source = ab.read_postgres(database.dsn, table, Reading, order_by="id")

    with pytest.raises(InputError, match=r"row 1 of .* must be int; got None"):
        ab.run(source.to_list(), on="sequential")


WRONG_SOURCES = {
    "a table that is not there": ("no_such_table", Reading, "no_such_table"),
    "a column that is not there": ("(SELECT 1 AS id)", Reading, "a column 'sensor'"),
    "a query that is none": ("SELEKT 1", Reading, "SELEKT"),
}


@pytest.mark.parametrize(
    ("query", "kind", "text"), WRONG_SOURCES.values(), ids=WRONG_SOURCES
)
def test_what_cannot_be_read_is_told(database, query, kind, text):
    source = ab.read_postgres(database.dsn, query, kind, order_by="id")

    with pytest.raises(InputError, match=text):
        ab.run(source.to_list(), on="sequential")


def sink_of(database, table, job="job", patience_s=60.0):
    kind = WriteSink(PostgresSink(database.dsn, table, patience_s))
    return open_external(Op("sink", kind), Reading, job)


def refused(item, error):
    raise error


def test_an_epoch_that_comes_again_adds_nothing(database, sql, table):
    job = uuid.uuid4().hex
    sink = sink_of(database, table, job)
    sink.write(1, readings(2), refused)
    sink.write(2, readings(3, first=2), refused)
    again = sink_of(database, table, job)

    again.write(2, readings(3, first=2), refused)
    again.write(3, readings(1, first=5), refused)

    sink.close()
    again.close()
    assert [(s, v) for s, v in readings(6)] == sql(
        f"SELECT sensor, value FROM {table} ORDER BY id"
    )


def test_an_epoch_that_two_processes_write_is_there_once(database, sql, table):
    """
    The second one waits for the first, and loses patience if that does not end.
    """
    first, second = (PostgresSink(database.dsn, table, patience_s=1) for _ in range(2))
    for sink in (first, second):
        assert 0 == sink.open("job-twins", Reading)
        sink.write([Reading("a", 1)])
    first.prepare(1)

    with pytest.raises(OutputError, match="lock timeout"):
        second.prepare(1)
    first.commit(1)
    second.write([Reading("a", 1)])
    second.prepare(1)
    second.commit(1)

    first.close()
    second.close()
    assert [("a", 1)] == sql(f"SELECT sensor, value FROM {table}")


def test_another_job_has_epochs_of_its_own(database, sql, table):
    for _ in range(2):
        sink = sink_of(database, table, uuid.uuid4().hex)
        sink.write(1, readings(2), refused)
        sink.close()

    assert [(4,)] == sql(f"SELECT count(*) FROM {table}")


def test_an_epoch_that_fails_leaves_nothing(database, sql, table):
    sink = sink_of(database, table, uuid.uuid4().hex)

    with pytest.raises(OutputError, match="does not take"):
        sink.write(1, [Reading("a", 1), Reading(None, 2)], refused)

    sink.close()
    assert [] == sql(f"SELECT * FROM {table}")


def test_an_item_that_does_not_fit_does_no_harm_to_the_others(
    engine, database, sql, table
):
    lost = []
    items = [Reading("a", 1), Reading(None, 2), Reading("c", 3), Reading("d", "x")]
    sink = ab.from_iterable(items).write_postgres(database.dsn, table)

    ab.run(sink, on=engine, on_error=ab.dead_letter(lost.append))

    assert [("a", 1), ("c", 3)] == sql(f"SELECT sensor, value FROM {table} ORDER BY id")
    assert [items[1], items[3]] == [failure.item for failure in lost]


def test_a_table_that_is_not_there_is_told_with_its_definition(database):
    sink = ab.from_iterable(readings(1), Reading).write_postgres(
        database.dsn, "no_such_table"
    )

    text = r"CREATE TABLE no_such_table \(sensor text NOT NULL, value bigint NOT NULL\)"
    with pytest.raises(OutputError, match=text):
        ab.run(sink, on="sequential")


def test_a_column_that_is_not_there_is_told(database, sql, table):
    sql(f"ALTER TABLE {table} DROP COLUMN value")
    sink = ab.from_iterable(readings(1), Reading).write_postgres(database.dsn, table)

    with pytest.raises(OutputError, match="no column 'value'"):
        ab.run(sink, on="sequential")


def test_a_server_that_goes_away_and_comes_back_loses_nothing(database, sql, table):
    sink = sink_of(database, table, uuid.uuid4().hex)
    sink.write(1, readings(2), refused)

    database.stop()
    database.start()
    sink.write(2, readings(2, first=2), refused)

    sink.close()
    assert [(s, v) for s, v in readings(4)] == sql(
        f"SELECT sensor, value FROM {table} ORDER BY id"
    )


def test_a_server_that_stays_away_is_told(database, table):
    sink = sink_of(database, table, patience_s=0.1)
    database.stop()
    try:
        with pytest.raises(OutputError, match="must be able to write"):
            sink.write(1, readings(1), refused)
    finally:
        database.start()


@pytest.mark.spark
def test_a_job_that_has_ended_adds_nothing_when_it_is_run_again(
    database, sql, table, tmp_path
):
    for _ in range(2):
        source = ab.from_iterable(readings(10), Reading)
        sink = source.write_postgres(database.dsn, table)
        ab.run(sink, on="spark", checkpoint=tmp_path / "checkpoint")

    assert [(10,)] == sql(f"SELECT count(*) FROM {table}")
