"""Rows that tasks have found ahead are the rows of the file, wherever blocks begin."""

import random
from pathlib import Path
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.connectors.files import input_files, survey
from anabranch.connectors.files.splits import LINES, RowFormat, count_rows, layout_of
from anabranch.connectors.files.survey import survey_block, survey_file
from anabranch.epochs.intake import files as file_intake
from anabranch.epochs.intake.files import FileIntake
from anabranch.epochs.intake.intake import FilePiece, Surveyed, SurveyPiece
from anabranch.operators.sources import ReadFiles
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed

CSV = RowFormat(quoted=True)
HEADER = b"name,text\n"


class Note(NamedTuple):
    name: str
    text: str


def set_sizes(monkeypatch, block, step):
    """Have blocks of some bytes instead of a megabyte."""
    for module in (input_files, survey, file_intake):
        monkeypatch.setattr(module, "BLOCK_BYTES", block)
    monkeypatch.setattr(survey, "STEP_BYTES", step)
    monkeypatch.setattr(survey, "_SLICE_BYTES", 3 * block)
    monkeypatch.setattr(file_intake, "LEAST_BYTES", 2 * block)
    monkeypatch.setattr(file_intake, "_SAMPLE_BYTES", 200)


ROWS = {
    "rows begin behind newlines": (b"a,1\nb,2\nc,3\n", b"\n", b"", 3, None),
    "a row that began before is not counted": (b"1\nb,2\n", b"a", b"c", 1, None),
    "what follows the last newline begins in the next block": (
        *(b"a,1\nb,2\n", b"\n", b"c", 2),
        None,
    ),
    "blank lines are no rows": (b"a,1\n\n\r\nb,2\n", b"\n", b"", 2, None),
    "a newline in quotes begins no row": (b'a,"\n1"\nb,2\n', b"\n", b"", 2, None),
    "inside quotes rows begin behind the closing one": (
        *(b'x\ny",1\nb,2\n', b"a", b""),
        *(None, 1),
    ),
    "a quote within a field tells nothing": (
        b'a,5" pipe\nb,2\n',
        b"\n",
        b"",
        None,
        None,
    ),
    "a stray carriage return may hide quotes": (
        *(b"a,\rx\nb,2\n", b"\n", b""),
        *(None, None),
    ),
    "returns up to the end of the block may be a blank line": (
        *(b"a,1\n\r", b"\n", b"\r"),
        *(None, None),
    ),
}


@pytest.mark.parametrize(
    ("data", "before", "behind", "outside", "inside"), ROWS.values(), ids=ROWS.keys()
)
def test_a_block_tells_its_rows_for_both_ways_to_begin(
    data, before, behind, outside, inside
):
    made = survey_block(data, 0, before, behind, CSV)

    assert outside == (made.outside and made.outside.total)
    if inside is not None or b'"' in data:
        assert inside == (made.inside and made.inside.total)


def test_every_line_of_text_is_a_row():
    made = survey_block(b'\n"a\n\rb', 100, b"\n", b"", LINES)

    assert made.outside is not None
    assert 3 == made.outside.total
    assert [100] == made.outside.offsets.tolist()


def make_file(rng, odd):
    """Return a file with quotes, newlines in them, blank lines and, if `odd`, bad rows."""
    rows = [HEADER]
    for number in range(rng.randrange(50, 500)):
        name = b"%d" % number
        text = b"w" * rng.randrange(60)
        rows.append(
            rng.choice(
                [
                    *[name + b",plain\n"] * 5,
                    *[name + b',"q\n\n,""z""\r\n' + text + b'"\r\n'] * 2,
                    *[b"\n", b"\r\n", name + b"," + text + b"\n", b'"n",""\n'],
                    *[name + b',"""in"""\n'],
                ]
            )
        )
        if odd and rng.random() < 0.01:
            rows.append(
                rng.choice([b'a"b,c\n', b'a,"open\n', b'x\ry,"z"\n', b'"a"b,c\n'])
            )
    data = b"".join(rows)
    return data[:-1] if rng.random() < 0.3 else data


def take_all(intake, rows, parts, lag, *, exactly):
    """Take until the end, with surveys that come `lag` epochs later."""
    taken, surveys = [], []
    while not intake.ended:
        pieces = intake.take(rows, parts, exactly=exactly)
        asked = [piece for piece in pieces if isinstance(piece, SurveyPiece)]
        surveys.append([survey_piece(one, intake._layout) for one in asked])
        if len(surveys) > lag:
            intake.learn(surveys.pop(0))
        files = [piece for piece in pieces if isinstance(piece, FilePiece)]
        taken.append((files, intake.position()))
    return taken


def survey_piece(piece, layout):
    blocks = survey_file(Path(piece.path), piece.start, piece.end, piece.size, layout)
    return Surveyed(piece.path, tuple(blocks))


def check_pieces(path, kind, pieces, number):
    """Compare pieces with the rows of a file; return the number behind the last."""
    data, layout = path.read_bytes(), layout_of(kind)
    begin = at = len(HEADER) if kind.format == "csv" else 0
    first = number
    for piece in pieces:
        assert b"" == data[at : piece.start].strip(b"\r\n")
        assert number == piece.first
        assert number - first + 1 == piece.row
        assert data[: piece.start].count(b"\n") + 1 == piece.line
        assert count_rows(data[piece.start : piece.end], layout) == piece.rows
        number, at = number + piece.rows, piece.end
    assert b"" == data[at:].strip(b"\r\n")
    assert count_rows(data[begin:], layout) == number - first
    return number


@pytest.mark.parametrize("seed", needs.share(10, range(100)))
def test_pieces_hold_the_rows_of_the_file_however_late_surveys_come(
    seed, monkeypatch, tmp_path
):
    """
    The position at the end, with the digest of the content, is that of an intake that
    reads every byte; and an intake that goes on from any position comes there too.
    """
    rng = random.Random(seed)
    set_sizes(monkeypatch, block := rng.choice([64, 128, 300]), block // 3)
    paths = [tmp_path / f"{n}.csv" for n in range(rng.choice([1, 1, 3]))]
    for path in paths:
        path.write_bytes(make_file(rng, odd=rng.random() < 0.3))
    kind = rng.choice(
        [ReadFiles("in", "csv", Note)] * 3
        + [ReadFiles("in", "jsonl", None), ReadFiles("in", "text", None)]
    )
    exactly, rows = rng.random() < 0.4, rng.randrange(20, 80)

    taken = take_all(
        FileIntake("read", kind, paths, ahead=True),
        *(rows, rng.choice([1, 2, 5]), rng.randrange(4)),
        exactly=exactly,
    )
    again = FileIntake("read", kind, paths, ahead=True)
    again.seek(rng.choice(taken)[1])

    number = 1
    for path in paths:
        own = [one for some, _ in taken for one in some if one.path == str(path)]
        number = check_pieces(path, kind, own, number)
    if exactly:
        sizes = [sum(piece.rows for piece in some) for some, _ in taken]
        assert all(size == rows for size in sizes[:-2])
    plain = take_all(FileIntake("read", kind, paths), 1000, 1, 0, exactly=False)
    assert plain[-1][1] == taken[-1][1]
    if not again.ended:
        assert plain[-1][1] == take_all(again, 40, 2, 1, exactly=exactly)[-1][1]


def test_tasks_find_the_rows_once_surveys_have_come(monkeypatch, tmp_path):
    """
    The driver reads but the first epochs, and less than a block of each later one.
    """
    set_sizes(monkeypatch, 1 << 10, 1 << 8)
    path = tmp_path / "notes.csv"
    path.write_bytes(HEADER + b'name,"some\ntext"\n' * 10_000)
    kind = ReadFiles(str(path), "csv", Note)
    intake = FileIntake("read", kind, [path], ahead=True)
    sizes = []
    read = file_intake.read_range
    monkeypatch.setattr(
        file_intake,
        "read_range",
        lambda path, start, size: sizes.append(size) or read(path, start, size),
    )

    taken = take_all(intake, 500, 2, 1, exactly=False)

    assert 10_000 == sum(piece.rows for some, _ in taken for piece in some)
    assert sum(sizes) < path.stat().st_size / 2


def test_surveys_of_a_file_that_has_changed_are_dropped(monkeypatch, tmp_path):
    set_sizes(monkeypatch, 1 << 10, 1 << 8)
    path = tmp_path / "notes.txt"
    path.write_bytes(b"1234567\n" * 4_000)
    intake = FileIntake("read", ReadFiles(str(path), "text", None), [path], ahead=True)
    for _ in range(3):
        asked = intake.take(400, 2, exactly=False)
        found = [one for one in asked if isinstance(one, SurveyPiece)]
        intake.learn([survey_piece(one, LINES) for one in found])

    path.write_bytes(b"1234567\n" * 1_600 + b"123\n" * 4_800)
    taken = take_all(intake, 400, 2, 1, exactly=False)

    assert 1_600 + 4_800 - 1_200 == sum(one.rows for some, _ in taken for one in some)


def test_programs_read_large_files_by_surveys(monkeypatch, tmp_path):
    set_sizes(monkeypatch, 1 << 10, 1 << 8)
    path = tmp_path / "notes.csv"
    path.write_bytes(
        HEADER
        + b"".join(b'%d,"some\n""text"" %d"\n\n' % (n % 7, n) for n in range(6_000))
    )
    found = []
    learn = FileIntake.learn
    monkeypatch.setattr(
        FileIntake, "learn", lambda *args: (found.append(1), learn(*args))
    )

    def run(on, **options):
        notes = ab.read_csv(path, Note)
        sink = notes.key_by("name").scan(join, "").to_list()
        ab.run(sink, on=on, **options)
        return sink.items

    expected = run("sequential")
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        assert expected == run("spark", degree=2, epoch_items=300)
    assert found


def join(last: str, note: Note) -> tuple[str, str]:
    return note.text[-20:], f"{last} {note.text}"
