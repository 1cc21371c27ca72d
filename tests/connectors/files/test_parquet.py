import datetime as dt
import enum
from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.connectors.files.parquet import (
    count_parquet_rows,
    parse_parquet_rows,
    read_parquet_table,
)
from anabranch.errors import InputError, OutputError
from anabranch.runtime.failures import skip
from tests.engines.spark.imitation import Cluster, imitated
from tests.engines.spark.test_clocks import undisturbed


class Trade(NamedTuple):
    symbol: str
    price: float
    volume: int | None


class Word(NamedTuple):
    text: str


def write(path, **columns):
    pq.write_table(pa.table(columns), path, row_group_size=2)


def test_columns_are_matched_by_name_over_all_row_groups(tmp_path, reader_of):
    """
    Columns that the type does not have are left out; ints serve as floats.
    """
    write(
        tmp_path / "t.parquet",
        extra=[0, 0, 0],
        volume=[1, None, 3],
        price=[1, 2, 3],
        symbol=["A", "B", "C"],
    )

    items = list(reader_of(tmp_path / "t.parquet", "parquet", Trade))

    assert [Trade("A", 1.0, 1), Trade("B", 2.0, None), Trade("C", 3.0, 3)] == items
    assert {float} == {type(item.price) for item in items}


def test_a_null_where_a_value_must_be_is_a_bad_row(tmp_path, reader_of):
    path = tmp_path / "t.parquet"
    write(path, symbol=["A", None, "C"], price=[1.0, 2.0, 3.0], volume=[1, 2, 3])
    reader = reader_of(path, "parquet", Trade, skip)

    assert [(Trade("A", 1.0, 1), 1), (Trade("C", 3.0, 3), 3)] == list(
        reader.read_numbered()
    )
    with pytest.raises(
        InputError, match=r"row 2: column 'symbol' must be str; got null"
    ):
        list(reader_of(path, "parquet", Trade))


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"value": ["a"]}, "column 'value' must hold int; it holds string"),
        ({"values": [1]}, "there must be a column 'value'; .* did you mean 'values'"),
    ],
    ids=["a column of another type", "a missing column"],
)
def test_a_schema_that_does_not_fit_always_stops(tmp_path, reader_of, columns, text):
    write(tmp_path / "t.parquet", **columns)

    with pytest.raises(InputError, match=text):
        list(reader_of(tmp_path / "t.parquet", "parquet", int, skip))


def test_what_is_no_parquet_file_is_refused(tmp_path, reader_of):
    (tmp_path / "t.parquet").write_bytes(b"value\n1\n")

    with pytest.raises(InputError, match="must be a readable Parquet file"):
        list(reader_of(tmp_path / "t.parquet", "parquet", int))


def test_a_file_is_refused_before_its_rows_are_counted(tmp_path):
    """
    Also one without rows: no task would ever look at its columns.
    """
    cut_off, empty, other = (tmp_path / f"{name}.parquet" for name in "abc")
    write(cut_off, value=[1, 2])
    cut_off.write_bytes(cut_off.read_bytes()[:-9])
    empty.touch()
    pq.write_table(pa.table({"other": pa.array([], pa.int64())}), other)

    for path in (cut_off, empty):
        with pytest.raises(InputError, match=f"{path} must be a readable Parquet file"):
            count_parquet_rows(path, int)
    with pytest.raises(InputError, match=f"{other}: there must be a column 'value'"):
        count_parquet_rows(other, int)


def test_two_columns_of_one_name_are_refused(tmp_path, reader_of):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1])] * 2, ["value"] * 2), path)

    with pytest.raises(InputError, match="'value' is there twice"):
        list(reader_of(path, "parquet", int))


def test_text_that_is_not_utf_8_is_a_bad_row_and_its_neighbours_stay(
    tmp_path, reader_of
):
    path = tmp_path / "t.parquet"
    raw = pa.array([b"one", b"\xff", b"three"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    pq.write_table(pa.table({"value": text}), path)
    lost = []

    items = list(reader_of(path, "parquet", str, lost.append))

    assert ["one", "three"] == items
    assert [(b"\xff",)] == [failure.item for failure in lost]
    assert "row 2: column 'value' must be str in UTF-8" in str(lost[0].error)


def test_an_int_that_no_float_holds_exactly_is_rounded_as_in_text(tmp_path, reader_of):
    path = tmp_path / "t.parquet"
    write(path, value=[1, 2**60 + 1])

    assert [1.0, float(2**60)] == list(reader_of(path, "parquet", float))


@pytest.mark.parametrize("rows", [range(10), range(9, 10), range(2, 7), range(4, 4)])
def test_some_rows_are_those_of_the_whole_file(tmp_path, rows):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"value": list(range(10))}), path, row_group_size=3)

    found = parse_parquet_rows(path, rows, int, 1, print)

    assert list(rows) == [item for item, _ in found]


def test_a_file_that_may_not_be_read_is_not_to_be_written_again(tmp_path, reader_of):
    with pytest.raises(InputError, match="gone must be readable; No such file"):
        count_parquet_rows(tmp_path / "gone", int)


def test_any_rows_can_be_read_as_a_table(tmp_path):
    path = tmp_path / "t.parquet"
    volumes = list(range(9))
    write(path, volume=volumes, price=[1.5] * 9, symbol=["A"] * 9)

    for start in range(9):
        for stop in range(start + 1, 10):
            table = read_parquet_table(path, range(start, stop), Trade)
            assert volumes[start:stop] == table.column("volume").to_pylist()
            assert ["symbol", "price", "volume"] == table.column_names


def test_pieces_of_a_row_group_decode_it_once(tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    write(path, volume=[1, 2], price=[1.5, 2.5], symbol=["A", "B"])
    groups = []
    read = pq.ParquetFile.read_row_group

    def count(self, group, **options):
        groups.append(group)
        return read(self, group, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", count)
    pieces = [read_parquet_table(path, range(n, n + 1), Trade) for n in (0, 1)]

    assert [["A"], ["B"]] == [piece.column("symbol").to_pylist() for piece in pieces]
    assert [0] == groups


def test_a_file_that_was_written_again_is_read_again(tmp_path):
    path = tmp_path / "t.parquet"
    for volume in (1, 2):
        path.unlink(missing_ok=True)
        write(path, volume=[volume], price=[1.5], symbol=["A"])

        table = read_parquet_table(path, range(1), Trade)

        assert [volume] == table.column("volume").to_pylist()


def test_a_code_that_the_dictionary_does_not_have_is_damage(tmp_path, reader_of):
    """The third of 24 codes of two bits, 0, 1, 2, 0, 1, 2..., becomes 3."""
    path = tmp_path / "damaged.parquet"
    table = pa.table({"text": ["a", "b", "c"] * 200})
    pq.write_table(table, path, compression="none", write_statistics=False)
    codes = bytes([0b00100100, 0b01001001, 0b10010010]) * 4
    assert codes in path.read_bytes()
    damaged = bytes([0b00110100]) + codes[1:]
    path.write_bytes(path.read_bytes().replace(codes, damaged, 1))

    with pytest.raises(
        InputError, match=r"damaged\.parquet must be .* dictionary bounds"
    ):
        list(reader_of(path, "parquet", Word))
    with pytest.raises(
        InputError, match=r"damaged\.parquet must be .* dictionary bounds"
    ):
        read_parquet_table(path, range(600), Word)


def test_strings_that_a_file_has_as_codes_are_read_as_codes(tmp_path):
    path = tmp_path / "t.parquet"
    few = ["A", "B"] * 5000
    columns = {"volume": list(range(10_000)), "price": [1.5] * 10_000, "symbol": few}
    pq.write_table(pa.table(columns), path, row_group_size=6000)

    table = read_parquet_table(path, range(5000, 7000), Trade)

    assert pa.dictionary(pa.int32(), pa.string()) == table.column("symbol").type
    assert few[5000:7000] == table.column("symbol").to_pylist()


@pytest.mark.parametrize("dictionary", [False, True])
def test_strings_that_hardly_repeat_are_read_as_they_are(tmp_path, dictionary):
    path = tmp_path / "t.parquet"
    many = [f"a long name {n}" for n in range(5000)]
    columns = {"volume": list(range(5000)), "price": [1.5] * 5000, "symbol": many}
    pq.write_table(pa.table(columns), path, use_dictionary=dictionary)

    table = read_parquet_table(path, range(5000), Trade)

    assert pa.string() == table.column("symbol").type
    assert many == table.column("symbol").to_pylist()


class Payment(NamedTuple):
    number: int
    amount: Decimal
    parts: dict[str, Decimal] = {}  # noqa: RUF012 - never changed


@pytest.mark.parametrize(
    "on", ["sequential", "local", pytest.param("spark", marks=pytest.mark.spark)]
)
@pytest.mark.parametrize("typed", [True, False])
def test_a_decimal_may_have_more_digits_than_those_before(tmp_path, on, typed):
    """On Spark the first epoch has a few rows, and their digits are not those of all."""
    amounts = [Decimal(10) ** (n // 10) + Decimal("0.25") for n in range(60)]
    rows = [
        Payment(n, one, {"a": one} if n % 2 else {}) for n, one in enumerate(amounts)
    ]
    if typed:
        stream = ab.from_iterable(rows, Payment)
    else:
        stream = ab.from_iterable([(n, one) for n, one in enumerate(amounts)])

    ab.run(stream.write_parquet(tmp_path / "out.parquet"), on=on)

    found = pq.read_table(tmp_path / "out.parquet")
    assert pa.decimal128(38, 18) == found.schema.field(1).type
    assert amounts == found.column(1).to_pylist()
    if typed:
        out = ab.read_parquet(tmp_path / "out.parquet", Payment).to_list()
        ab.run(out, on="sequential")
        assert rows == out.items


NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
INDIA = NOON.astimezone(dt.timezone(dt.timedelta(hours=5, minutes=30)))


class Moment(NamedTuple):
    value: dt.datetime | None


class Thing(NamedTuple):
    value: object


def run_somewhere(sink, on, monkeypatch, folder):
    """Run on an engine; on Spark each part has ten items."""
    if on != "spark":
        ab.run(sink, on=on)
        return
    with imitated(monkeypatch, Cluster(undisturbed), folder):
        ab.run(sink, on="spark", degree=2, epoch_items=20)


TWO_TYPES = {
    "zone and none": ([Moment(NOON)], [Moment(NOON.replace(tzinfo=None))], Moment),
    "int and float": ([Thing(1)], [Thing(2.5)], Thing),
    "int and float, no type": ([(1, 1)], [(1, 2.5)], None),
    "other members": ([Thing({"a": 1})], [Thing({"b": 1})], Thing),
    "more columns": ([(1, 1)], [(1, 2, 3)], None),
}
ENGINES = ["sequential", "local", "spark"]


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("case", TWO_TYPES)
def test_no_engine_writes_a_column_of_two_types(tmp_path, monkeypatch, on, case):
    one, other, kind = TWO_TYPES[case]
    path = tmp_path / "out"
    sink = ab.from_iterable(one * 40 + other * 40, kind).write_parquet(path)

    with pytest.raises(OutputError, match=r"of one type|have a zone|same (col|attr)"):
        run_somewhere(sink, on, monkeypatch, tmp_path / "hosts")

    assert not path.exists()


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("name", ["out", "out.parquet"])
def test_all_engines_write_moments_in_utc(tmp_path, monkeypatch, on, name):
    """
    Nothing but None in the first parts does not matter.
    """
    items = [Moment(None)] * 20 + [Moment(INDIA)] * 20 + [Moment(NOON)] * 20
    sink = ab.from_iterable(items, Moment).write_parquet(tmp_path / name)

    run_somewhere(sink, on, monkeypatch, tmp_path / "hosts")

    out = ab.read_parquet(tmp_path / name, Moment).to_list()
    ab.run(out, on="sequential")
    assert [None] * 20 + [NOON] * 40 == [one.value for one in out.items]
    assert [12] * 40 == [one.value.hour for one in out.items[20:]]


@pytest.mark.parametrize("on", ENGINES)
def test_no_engine_writes_rows_under_two_headers(tmp_path, monkeypatch, on):
    rows = [(1, 2)] * 40 + [(1, 2, 3)] * 40
    sink = ab.from_iterable(rows).write_csv(tmp_path / "out")

    with pytest.raises(OutputError, match="must have the same"):
        run_somewhere(sink, on, monkeypatch, tmp_path / "hosts")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_parts_that_roll_have_the_same_columns(tmp_path, form):
    pairs, triples = [(1, 2)] * 10, [(1, 2, 3)] * 10
    stream = ab.from_iterable(pairs + triples)
    sink = getattr(stream, f"write_{form}")(tmp_path / "out", roll_items=10)

    with pytest.raises(OutputError, match="must have the same attributes"):
        ab.run(sink, on="sequential")


def test_parts_that_roll_have_columns_of_the_same_types(tmp_path):
    stream = ab.from_iterable([1] * 10 + [2.5] * 10)
    sink = stream.write_parquet(tmp_path / "out", roll_items=10)

    with pytest.raises(OutputError, match="those before are int64"):
        ab.run(sink, on="sequential")


def test_a_job_that_goes_on_holds_to_the_columns_of_its_parts(tmp_path, monkeypatch):
    things = [Thing(1)] * 20 + [Thing(2.5)] * 20
    sink = ab.from_iterable(things, Thing).write_parquet(tmp_path / "out")
    options = {"checkpoint": tmp_path / "checkpoint", "epoch_items": 20}

    for _ in range(2):
        with (
            imitated(monkeypatch, Cluster(undisturbed), tmp_path / "hosts"),
            pytest.raises(OutputError, match="those before are int64"),
        ):
            ab.run(sink, on="spark", **options)

    parts = sorted((tmp_path / "out").glob("part-*"))
    assert {pa.int64()} == {pq.read_schema(part).field(0).type for part in parts}


@pytest.mark.parametrize("number", ["1e20", "NaN", "0.1234567890123456789"])
def test_a_decimal_with_too_many_digits_is_refused_by_its_item(tmp_path, number):
    rows = [Payment(1, Decimal(1)), Payment(2, Decimal(number))]
    sink = ab.from_iterable(rows, Payment).write_parquet(tmp_path / "out.parquet")

    with pytest.raises(OutputError, match=r"item 2 .* column 'amount' must be decimal"):
        ab.run(sink, on="sequential")


class Side(enum.Enum):
    BUY = "b"
    SELL = "s"


class Order(NamedTuple):
    price: float
    side: Side
    origin: Side | None


def test_directories_give_members_of_an_enum(tmp_path):
    folder = tmp_path / "side=s" / "origin=__HIVE_DEFAULT_PARTITION__"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"price": [1.5]}), folder / "x.parquet")

    found = ab.testing.outputs(ab.read_parquet(tmp_path, Order))

    assert [Order(1.5, Side.SELL, None)] == found
