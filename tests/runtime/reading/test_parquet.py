from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.errors import InputError
from anabranch.runtime.failures import skip


class Trade(NamedTuple):
    symbol: str
    price: float
    volume: int | None


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

    assert [(Trade("A", 1.0, 1), 1), (Trade("C", 3.0, 3), 3)] == list(reader.numbered())
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
