from typing import NamedTuple

from anabranch.graph.sources import ReadFiles
from anabranch.runtime.reading.opening import Opening, opening_of, row_parser
from anabranch.runtime.reading.rows import Position
from anabranch.runtime.reading.splits import layout_of, split_points


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
    splits = list(
        split_points(str(path), layout_of(kind), opening.offset, 64, counted=True)
    )

    numbered = []
    for split in splits:
        data = path.read_bytes()[split.start : split.end]
        parser = row_parser(kind, opening.columns, path)
        numbered += parser.parse(data, Position(split.row, 0), print)

    assert len(splits) > 5
    assert [(Trade(f"{n}\n{n}", n), n + 1) for n in range(50)] == numbered
