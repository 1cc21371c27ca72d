from typing import NamedTuple

import pytest

from anabranch.connectors.files.opening import Opening, opening_of, row_parser
from anabranch.connectors.files.rows import Position
from anabranch.connectors.files.splits import count_rows, layout_of, pieces
from anabranch.errors import InputError
from anabranch.operators.sources import ReadFiles


class Trade(NamedTuple):
    symbol: str
    volume: int


def test_the_offset_counts_the_byte_order_mark(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfsymbol,volume\nA,1\n")

    opening = opening_of(ReadFiles(str(path), "csv", Trade), path)

    assert Opening(("symbol", "volume"), 17, 2) == opening


def test_files_without_a_header_begin_with_their_rows(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"A,1\n")

    assert Opening() == opening_of(
        ReadFiles(str(path), "csv", Trade, header=False), path
    )
    assert Opening() == opening_of(ReadFiles(str(path), "text", str), path)


def test_splits_that_are_parsed_apart_give_the_file_with_its_row_numbers(tmp_path):
    """
    What the workers of an engine do: each takes a range of bytes and the columns.
    """
    path = tmp_path / "t.csv"
    rows = "".join(f'"{n}\n{n}",{n}\n' for n in range(50))
    path.write_text("symbol,volume\n" + rows)
    kind = ReadFiles(str(path), "csv", Trade)
    opening = opening_of(kind, path)
    with path.open("rb") as file:
        file.seek(opening.offset)
        splits = list(pieces(file, layout_of(kind), 64))

    numbered, row = [], 1
    for data in splits:
        parser = row_parser(kind, opening.columns, path)
        numbered += parser.parse(data, Position(row, 0), print)
        row += count_rows(data, layout_of(kind))

    assert len(splits) > 5
    assert [(Trade(f"{n}\n{n}", n), n + 1) for n in range(50)] == numbered


def refused(tmp_path, content, **options):
    path = tmp_path / "trades.csv"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        opening_of(ReadFiles(str(path), "csv", Trade, **options), path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_a_header_that_lacks_or_repeats_a_column_is_refused_by_the_opening(tmp_path):
    assert refused(tmp_path, b"symbol,symbol,volume\nA,B,1\n").startswith(
        "a column must have one name; 'symbol' is there twice"
    )
    assert refused(tmp_path, b"symbol\nA\n").startswith(
        "there must be a column 'volume'; there is none"
    )


def test_a_file_whose_lines_end_with_returns_alone_is_refused_with_the_reason(tmp_path):
    said = refused(tmp_path, b"symbol,volume\rA,1\rB,2\r")

    assert r"the header must end with \n or \r\n" in said
    assert "old Macs" in said


def test_a_header_with_an_open_quote_is_refused_with_the_reason(tmp_path):
    said = refused(tmp_path, b'symbol,"volume\nA,1\nB,2\n')

    assert "the header must close its quotes" in said


def test_a_quoted_header_may_hold_a_return_and_a_long_name(tmp_path):
    path = tmp_path / "trades.csv"
    name = "n" * 200_000  # the csv module's default is 131,072
    path.write_text(f'symbol,volume,"a\rb","{name}"\n', newline="")

    opening = opening_of(ReadFiles(str(path), "csv", Trade), path)

    assert ("symbol", "volume", "a\rb", name) == opening.columns
