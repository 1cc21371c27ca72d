"""Bad input is the same on every engine: rows, failures and the error that ends it.

Without Spark: the pieces that its driver hands out are read here, one after another.
Mutated files, more of them than the tests read:

    python -m tests.engines.spark.test_bad_input --seeds 0:50000 [--footers]
"""

from __future__ import annotations

import argparse
import gzip
import io
import math
import os
import random
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.connectors.reader import FileReader
from anabranch.epochs.intake.open_intake import open_intake
from anabranch.epochs.transport.pickle import Pickler
from anabranch.epochs.unit.inputs import read_piece
from anabranch.errors import InputError
from anabranch.graph.graph import Graph, Op
from anabranch.graph.site import Site
from anabranch.operators.sources import ReadFiles
from tests import needs


class Row(NamedTuple):
    n: int
    text: str
    x: float


class Loose(NamedTuple):
    n: int
    text: str
    x: float | None


class Seen(NamedTuple):
    """What a reader gave: items with numbers, failures, and what ended it."""

    items: list[tuple[int, str]]
    lost: list[tuple[str, str, str]]
    error: str | None


def seen(give, op):
    """Return what `give(op, on_error)` gives, as text that can be compared."""
    items, lost, error = [], [], None

    def on_error(failure):
        lost.append((failure.where, repr(failure.item), str(failure.error)))

    try:
        for number, item in give(op, on_error):
            items.append((number, repr(item)))
    except InputError as ended:
        error = str(ended)
    return Seen(items, lost, error)


def one_by_one(op, on_error):
    for item, number in FileReader(op, on_error).read_numbered():
        yield number, item


def in_chunks(op, on_error):
    for items, numbers in FileReader(op, on_error).chunks(lambda: 4):
        yield from zip(numbers, items, strict=True)


def in_tables(op, on_error):
    reader = FileReader(op, on_error)
    for items, numbers in reader.chunks(lambda: 4, lambda: True):
        yield from zip(numbers, items, strict=True)


def in_pieces(op, on_error, rows=7, *, exactly=False):
    pickler = Pickler(Graph((op,)))
    intake = open_intake(op, pickler, on_error, None, scratch=Path())
    while not intake.ended:
        for piece in intake.take(rows, 2, exactly=exactly):
            batch = read_piece(piece, op, pickler, on_error)
            yield from zip(batch.positions[0].tolist(), batch.items, strict=True)


def assert_same(kind):
    """Assert that all engines see the same, and return it."""
    op = Op("read", kind, site=Site("job.py", 7), type=kind.type)
    meant = seen(one_by_one, op)

    for give in (in_chunks, in_tables, in_pieces):
        assert agree(meant, seen(give, op), kind), give.__name__
    return meant


def agree(one, other, kind):
    """Tell whether two readers saw the same.

    Where a Parquet file is damaged in the middle, they stop at the same file; how many
    of its rows they have given by then depends on how many they decode at a time.
    """
    if kind.format == "parquet" and one.error and other.error:
        named = [
            seen.error.partition(" must be a readable")[0] for seen in (one, other)
        ]
        few, many = sorted((one.items, other.items), key=len)
        return named[0] == named[1] and few == many[: len(few)]
    return one == other


HEADERS = [b"n,text,x\n"] * 8 + [
    *(b"x,text,n\r\n", b"\xef\xbb\xbfn,text,x\n", b"\n\nn,text,x\n", b"n,text,x,y,y\n"),
    *(b"n,text\n", b"n,text,x,n\n", b"", b'n,"text\n', b"n,text,x\r", b"\xff\n"),
]
ODD_ROWS = [
    *(b"bad,a,1\n", b"1,a\n", b"1,a,1,1\n", b"\n", b"\r\n", b"\r", b"  \n", b'""\n'),
    *(
        b'1,"a\nb",1\n',
        b'1,"a\r\nb",1\r\n',
        b'1,"open,1\n',
        b'1,a"b,1\n',
        b"1,a\rb,1\n",
    ),
    *(b"1,\xff,1\n", b"\x00,a,1\n", b"1,a,\n", b"1,a, 1\n", b"0x1,a,1\n", b"1_0,a,1\n"),
    *(b"1,a,nan\n", b"1,a,1e400\n", b"99999999999999999999,a,1\n", b"1;a;1\n"),
    *(b"\xef\xbb\xbf1,a,1\n", b"1,\xe2\x80\xa8\x0b\x85,1\n"),
]
ODD_LINES = [
    *(b'{"n":1,"text":"a"}\n', b'{"n":"1","text":"a","x":1}\n', b"[]\n", b"\n", b" \n"),
    *(b'{"n":1,\n', b"\xff\n", b"nul\n", b"\r\n", b"\x00\n", b"\xef\xbb\xbf{}\n"),
    *(b'{"n":1,"text":"\\ud800","x":1}\n', b'{"n":1e400,"text":"a","x":1}\n'),
]


def made(rng, form):
    """Return the content of a file with some odd rows in it."""
    good = b"%d,ok,2.5\n" if form != "jsonl" else b'{"n":%d,"text":"ok","x":2.5}\n'
    odd = ODD_LINES if form == "jsonl" else ODD_ROWS
    rows = [
        rng.choice(odd) if rng.random() < 0.3 else good % rng.randrange(100)
        for _ in range(rng.randrange(30))
    ]
    content = (rng.choice(HEADERS) if form == "csv" else b"") + b"".join(rows)
    return content[: -1 if rng.random() < 0.2 else None]


@pytest.mark.parametrize("seed", range(300))
def test_any_file_is_read_the_same_by_every_engine(tmp_path, seed):
    rng = random.Random(seed)
    form = rng.choice(["csv", "csv", "jsonl", "text"])
    for number in range(rng.choice([1, 1, 2, 3])):
        path, content = tmp_path / f"{number}.{form}", made(rng, form)
        if rng.random() < 0.2:
            path, content = path.with_suffix(".gz"), gzip.compress(content, mtime=0)
            content = content[: rng.choice([None, None, len(content) // 2])]
        path.write_bytes(content)
    if rng.random() < 0.1:
        (tmp_path / "0z").symlink_to("nowhere")
    kind = str if form == "text" else rng.choice([Row, Loose])
    header = rng.random() < 0.8

    assert_same(ReadFiles(str(tmp_path), form, kind, header=header))


TEXTS = [*(b"a", b"ok", b"a b", b"\xc3\xa9"), *(b"x" * 30, b"1", b"None", b"true")]
QUOTED = [b'"a,b"', b'"a""b"', b'"a\nb"', b'""', b'" a"', b'"\xc3\xa9"']
NUMBERS = [b"0", b"-1", b"17", b"9223372036854775807"]
ODD_NUMBERS = [*NUMBERS, b"9223372036854775808", b"007", b"+1"]
REALS = [b"0.5", b"-1e-7", b"1e308", b"2", b"0.1", b"1e-320"]
ODD_REALS = [*REALS, b"nan", b"inf", b".5", b"1e400"]
TOKENS = [
    *(b'"', b'""', b",", b"\n", b"\r", b"\r\n", b"\n\n", b"\x00", b"\xff", b"\xc3"),
    *(
        b"\xef\xbb\xbf",
        b" ",
        b"-",
        b"+",
        b".",
        b"e",
        b"_",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
    ),
    *(b"\\", b"\\u00", b"null", b"NaN", b"1e999", b"\x1a", b"\xe2\x80\xa8", b"\x85"),
]


def write_whole(rng, form):
    """Return the content of a file without faults, in several styles."""
    rows = rng.randrange(1, 30)
    if form == "parquet":
        table = pa.table(
            {
                "n": [rng.randrange(-9, 99) for _ in range(rows)],
                "text": [rng.choice(["a", "b", "\xe9" * 9]) for _ in range(rows)],
                "x": [rng.choice([0.5, 1e300, None]) for _ in range(rows)],
            }
        )
        file = io.BytesIO()
        kind = rng.choice(["none", "snappy", "zstd"])
        pq.write_table(
            table, file, compression=kind, row_group_size=rng.choice([4, 99])
        )
        return file.getvalue()
    end = rng.choice([b"\n", b"\n", b"\r\n"])
    lines = [b"n,text,x"] if form == "csv" else []
    odd = form == "csv" and rng.random() < 0.3
    numbers, reals = (ODD_NUMBERS, ODD_REALS) if odd else (NUMBERS, REALS)
    for _ in range(rows):
        n, text, x = (rng.choice(kind) for kind in (numbers, TEXTS, reals))
        if form == "csv" and rng.random() < 0.3:
            text = rng.choice(QUOTED)
        if form == "jsonl":
            lines.append(b'{"n":%s, "text":"%s","x":%s}' % (n, text, x))
        else:
            lines.append(b",".join((n, text, x)) if form == "csv" else text)
    return end.join(lines) + rng.choice([end, b""])


def mutate(data, rng):
    """Change a file in one to four places, as tools, disks and people do."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice([1, 1, 2, 5, 40]))
        match rng.randrange(7):
            case 0 | 1:
                data = data[:at] + rng.choice(TOKENS) + data[at:]
            case 2:
                data = data[:at] + rng.choice(TOKENS) + data[to:]
            case 3:
                data = data[:at] + data[to:]
            case 4:
                data = data[:to] + data[at:]
            case 5 if at < len(data):
                flipped = data[at] ^ (1 << rng.randrange(8))
                data = data[:at] + bytes([flipped]) + data[at + 1 :]
            case 6 if rng.random() < 0.3:
                data = data[:at]
    return data


def read_mutated(folder, seed):
    """Read files of which one was mutated with all readers; return what they see."""
    rng = random.Random(seed)
    form = rng.choice(["csv", "csv", "csv", "jsonl", "text", "parquet"])
    for number in range(rng.choice([1, 1, 2])):
        data = write_whole(rng, form)
        data = mutate(data, rng) if number == 0 else data
        if rng.random() < 0.1 and form != "parquet":
            data = gzip.compress(data, mtime=0)
            data = mutate(data, rng) if rng.random() < 0.5 else data
        (folder / f"{number}.{form}").write_bytes(data)
    kind = str if form == "text" else rng.choice([Row, Row, Loose])
    return form, assert_same(
        ReadFiles(str(folder), form, kind, header=rng.random() < 0.9)
    )


def mutate_footer(data, rng):
    """Change some bytes of what a Parquet file says of itself."""
    size = int.from_bytes(data[-8:-4], "little")
    body, footer = data[: -8 - size], data[-8 - size : -8]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(footer))
        match rng.randrange(4):
            case 0:
                new = bytes([footer[at] ^ (1 << rng.randrange(8))])
                footer = footer[:at] + new + footer[at + 1 :]
            case 1:
                new = rng.choice([0, 1, 2, 4, 255, 127, 128, rng.randrange(256)])
                footer = footer[:at] + bytes([new]) + footer[at + 1 :]
            case 2:
                footer = footer[:at] + footer[at + 1 :]
            case 3:
                footer = footer[:at] + bytes([rng.randrange(256)]) + footer[at:]
    return body + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def read_mutated_footer(folder, seed):
    """Read a Parquet file with a mutated footer with all readers."""
    rng = random.Random(seed)
    data = mutate_footer(write_whole(rng, "parquet"), rng)
    (folder / "0.parquet").write_bytes(data)
    kind = ReadFiles(str(folder), "parquet", rng.choice([Row, Loose]))
    return "footer", assert_same(kind)


@pytest.mark.parametrize("seed", needs.quick(60, range(2000)))
def test_any_mutated_file_is_read_the_same_by_every_engine(tmp_path, seed):
    read_mutated(tmp_path, seed)


@pytest.mark.parametrize("seed", needs.quick(40, range(2000)))
def test_any_mutated_footer_is_read_the_same_by_every_engine(tmp_path, seed):
    read_mutated_footer(tmp_path, seed)


@pytest.mark.parametrize(
    ("read", "seed", "whole", "why"),
    [
        (read_mutated, 4924, 4, "Repetition level histogram size mismatch"),
        (read_mutated, 5221, 0, "Definition level histogram size mismatch"),
        (read_mutated_footer, 359, 0, "'utf-8' codec can't decode"),
        (read_mutated_footer, 2787, 0, "type does not match"),
    ],
)
def test_a_damaged_footer_is_named_and_neither_ends_the_process_nor_gives_other_values(
    tmp_path, read, seed, whole, why
):
    _, found = read(tmp_path, seed)

    assert (whole, []) == (len(found.items), found.lost)  # of row groups before it
    assert "0.parquet must be a readable Parquet file" in found.error
    assert why in found.error


def test_a_stray_file_behind_good_ones_is_met_when_it_is_reached(tmp_path):
    (tmp_path / "a.csv").write_text("n,text,x\n1,a,1\nbad,b,2\n")
    (tmp_path / "README.md").write_text("hello\n")
    (tmp_path / "z.csv").write_text("n,text,x\n2,b,2\n")

    found = assert_same(ReadFiles(str(tmp_path / "[az]*"), "csv", Row))
    ended = assert_same(ReadFiles(str(tmp_path), "csv", Row))

    assert ([1, 3], 1) == ([n for n, _ in found.items], len(found.lost))
    assert ([], []) == ended[:2]
    assert "README.md: there must be a column 'n'" in ended.error


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_link_to_nowhere_is_lost_at_its_place_and_the_next_file_follows(
    tmp_path, form
):
    for name in ("a", "c"):
        table = pa.table({"n": [1, 2], "text": ["x", "y"], "x": [1.0, None]})
        if form == "parquet":
            pq.write_table(table, tmp_path / name)
        else:
            (tmp_path / name).write_text("n,text,x\n1,x,1\n2,y,\n")
    for name in ("b", "d"):
        (tmp_path / name).symlink_to("nowhere")

    found = assert_same(ReadFiles(str(tmp_path), form, Row))

    rows = [Path(where.partition(",")[0]).name for where, *_ in found.lost]
    assert ["a", "b", "c", "d"] == rows
    assert 2 == len(found.items)
    assert found.error is None


@pytest.mark.parametrize("form", ["csv", "parquet", "text"])
def test_a_pipe_among_the_files_is_lost_and_nobody_waits_for_it(tmp_path, form):
    os.mkfifo(tmp_path / "pipe")

    found = assert_same(ReadFiles(str(tmp_path), form, str if form == "text" else Row))

    assert ([], 1, None) == (found.items, len(found.lost), found.error)
    assert "it is a pipe" in found.lost[0][2]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_whose_name_is_not_utf_8_is_read(tmp_path, form):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    with path.open("wb") as file:
        if form == "parquet":
            pq.write_table(pa.table({"n": [1], "text": ["a"], "x": [2.5]}), file)
        else:
            file.write(b"n,text,x\n1,a,2.5\n")

    found = assert_same(ReadFiles(str(tmp_path), form, Row))

    assert ([(1, repr(Row(1, "a", 2.5)))], [], None) == found


def test_sources_that_take_turns_get_exactly_their_rows_past_a_link(tmp_path):
    for name in ("a", "c"):
        (tmp_path / name).write_text("1\n2\n3\n")
    (tmp_path / "b").symlink_to("nowhere")
    op = Op("read", ReadFiles(str(tmp_path), "text", str), type=str)
    intake = open_intake(
        op, Pickler(Graph((op,))), lambda _: None, None, scratch=Path()
    )

    taken = [sum(p.rows for p in intake.take(4, 1, exactly=True)) for _ in range(2)]

    assert [4, 2] == taken


def tell_of_more_rows(data):
    """Change the number of rows, which stands behind the schema: 2, in zigzag 4."""
    at = data.index(b"\x16\x04\x19\x1c")  # before the list of row groups
    return data[: at + 1] + b"\x06" + data[at + 2 :]


PARQUET = {
    "cut off": lambda data: data[:-30],
    "empty": lambda _: b"",
    "of another kind": lambda _: b"n,text,x\n1,a,1\n",
    "with a damaged page": lambda data: data[:20] + b"\xff" * 40 + data[60:],
    "with a row that only its end tells of": tell_of_more_rows,
}


@pytest.mark.parametrize("damage", PARQUET.values(), ids=PARQUET)
def test_a_damaged_parquet_file_is_named_by_every_engine(tmp_path, damage):
    table = pa.table({"n": [1, 2], "text": ["x", "y"], "x": [1.0, 2.0]})
    good, bad = tmp_path / "a.parquet", tmp_path / "b.parquet"
    pq.write_table(table, good)
    bad.write_bytes(damage(good.read_bytes()))

    found = assert_same(ReadFiles(str(tmp_path), "parquet", Row))

    assert [1, 2] == [number for number, _ in found.items]
    assert f"{bad} must be a readable Parquet file" in found.error


def test_a_place_in_the_middle_of_the_files_can_be_sought(tmp_path):
    """
    Also one before a file that has not been opened, and behind a link to nowhere.
    """
    for name in ("a.csv", "c.csv"):
        (tmp_path / name).write_text("n,text,x\n1,a,1\n2,b,2\n")
    (tmp_path / "b.csv").symlink_to("nowhere")
    op = Op("read", ReadFiles(str(tmp_path), "csv", Row), type=Row)
    pickler, lost = Pickler(Graph((op,))), []

    def opened():
        return open_intake(op, pickler, lost.append, None, scratch=Path())

    first = opened()
    numbers = []
    while not first.ended:
        again = opened()
        again.seek(first.position())
        lost.clear()
        ahead = again.take(1, 1, exactly=True)
        lost.clear()
        taken = first.take(1, 1, exactly=True)
        assert taken == ahead
        numbers += [piece.first for piece in taken]

    assert [1, 2, 3, 4] == numbers


def main() -> int:
    """Read mutated files with all readers; print each on which they differ."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--seeds", default="0:50000", metavar="FIRST:LAST")
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--footers", action="store_true", help="of Parquet, only")
    given = parser.parse_args()
    first, last = map(int, given.seeds.split(":"))
    until_s = time.monotonic() + 60 * given.minutes
    read = read_mutated_footer if given.footers else read_mutated
    os.environ["ANABRANCH_COMPILE"] = "at once"
    warnings.simplefilter("ignore")
    seen_of: Counter[str] = Counter()
    failed = []
    for seed in range(first, last):
        if time.monotonic() > until_s:
            last = seed
            break
        with tempfile.TemporaryDirectory() as made:
            try:
                form, found = read(Path(made), seed)
            except Exception:  # noqa: BLE001 - whatever it is, it is a difference
                failed.append(seed)
                print(f"seed {seed}\n{traceback.format_exc()}", flush=True)  # noqa: T201 - a tool
                continue
        ended = "stopped" if found.error else "bad rows" if found.lost else "whole"
        seen_of[f"{form}, {ended}"] += 1
    told = f"seeds {first} to {last - 1}: {len(failed)} differ {failed}"
    print(f"{told}; {dict(seen_of)}")  # noqa: T201 - a tool
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
