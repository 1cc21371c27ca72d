"""A piece of a file gives what the sequential engine reads there; without Spark."""

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.epochs.intake.intake import FilePiece, ParquetPiece
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.unit.inputs import read_piece
from anabranch.graph.graph import Op
from anabranch.operators.sources import ReadFiles


class Pair(NamedTuple):
    x: int
    y: float


class Named(Pair):
    """
    A tuple with a method, which changes nothing about how it is made.
    """

    def total(self):
        return self.x + self.y


class Positive(Pair):
    def __new__(cls, x, y):
        if x < 0:
            msg = "x is negative"
            raise ValueError(msg)
        return super().__new__(cls, x, y)


@dataclass(frozen=True)
class Checked:
    x: int
    y: float

    def __post_init__(self):
        if self.x < 0:
            msg = "x is negative"
            raise ValueError(msg)


def read(tmp_path, kind, data):
    path = tmp_path / "p.csv"
    path.write_bytes(data)
    op = Op("pairs", ReadFiles(str(path), "csv", kind, header=False), type=kind)
    rows, bad = data.count(b"\n"), []
    piece = FilePiece("pairs", 1, rows, str(path), 0, len(data), 1, 1, ("x", "y"))
    batch = read_piece(piece, op, Pickler(()), bad.append)
    return batch, [failure.where for failure in bad]


@pytest.mark.parametrize("kind", [Pair, Named])
def test_rows_that_no_code_of_the_users_makes_stay_columns(tmp_path, kind):
    batch, bad = read(tmp_path, kind, b"1,0.5\n-2,1.5\n")

    assert batch.listed is None
    assert [kind(1, 0.5), kind(-2, 1.5)] == batch.items
    assert [kind, kind] == list(map(type, batch.items))
    assert not bad


@pytest.mark.parametrize("kind", [Positive, Checked])
def test_a_row_that_a_constructor_refuses_is_told(tmp_path, kind):
    batch, bad = read(tmp_path, kind, b"1,0.5\n-2,1.5\n3,2.5\n")

    assert [kind(1, 0.5), kind(3, 2.5)] == batch.items
    assert [1, 3] == batch.positions[0].tolist()
    assert [f"{tmp_path / 'p.csv'}, row 2 (line 2)"] == bad


@pytest.mark.parametrize("field", [b"nan(1)", b" 1", b"0x1"])
def test_what_only_arrow_takes_for_a_number_is_refused(tmp_path, field):
    batch, bad = read(tmp_path, Pair, b"1,0.5\n2,%s\n" % field)

    assert [Pair(1, 0.5)] == batch.items
    assert [f"{tmp_path / 'p.csv'}, row 2 (line 2)"] == bad


def read_parquet(tmp_path, kind, columns, rows):
    path = tmp_path / "p.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=3)
    op = Op("pairs", ReadFiles(str(path), "parquet", kind), type=kind)
    bad = []
    piece = ParquetPiece("pairs", 11, len(rows), str(path), rows.start)
    batch = read_piece(piece, op, Pickler(()), bad.append)
    return batch, [failure.where for failure in bad]


def test_rows_of_parquet_stay_columns(tmp_path):
    x = pa.array(range(8), pa.int32())
    columns = {"y": [n / 3 for n in range(8)], "more": ["?"] * 8, "x": x}

    batch, bad = read_parquet(tmp_path, Pair, columns, range(2, 7))

    assert batch.table is not None
    assert [Pair(n, n / 3) for n in range(2, 7)] == batch.items
    assert list(range(11, 16)) == batch.positions[0].tolist()
    assert [] == bad


@pytest.mark.parametrize(("kind", "x"), [(Pair, None), (Positive, -2)])
def test_rows_of_parquet_that_may_be_refused_are_looked_at(tmp_path, kind, x):
    columns = {"x": [0, 1, x, 3], "y": [0.5, 1.5, 2.5, 3.5]}

    batch, bad = read_parquet(tmp_path, kind, columns, range(4))

    assert [kind(0, 0.5), kind(1, 1.5), kind(3, 3.5)] == batch.items
    assert 1 == len(bad)
    assert bad[0].endswith("row 3")
