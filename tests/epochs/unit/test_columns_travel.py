"""Columns on their way through the tasks of an epoch: the bytes of one thread.

On an imitation of Spark, so that kernels are there from the first row on.
"""

import random
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.runtime.compiled.program import WHEN_VARIABLE
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed


class Reading(NamedTuple):
    n: int
    name: str
    x: float


def double(r: Reading) -> Reading:
    return r._replace(x=r.x * 2)


def is_kept(r: Reading) -> bool:
    return r.n % 3 != 0


def total(before: float, r: Reading) -> tuple[float, Reading]:
    return before + r.x, Reading(r.n, r.name, before + r.x)


def last(rs: list[Reading]) -> Reading:
    return Reading(rs[-1].n, rs[-1].name, sum(r.x for r in rs))


def count_letters(r: Reading) -> Reading:
    return Reading(len(r.name), r.name, r.x)


PROGRAMS = {
    "map": lambda s: s.map(double),
    "filter": lambda s: s.map(double).filter(is_kept),
    "nothing": lambda s: s,
    "strings": lambda s: s.map(count_letters),
    "scan": lambda s: s.key_by("name").scan(total, 0.0),
    "filter and scan": lambda s: s.filter(is_kept).key_by("name").scan(total, 0.0),
    "window": lambda s: s.key_by("name").window(count=3).aggregate(last),
    "sliding": lambda s: s.key_by("name").window(count=5, every=2).aggregate(last),
}

PLAIN = ["A", "B", "C", "long name", ""]
ODD = ["A", 'quote"d', "com,ma", "new\nline", "é", "", "B"]
FLOATS = [0.0, -0.0, float("nan"), float("inf"), -1e300, 5e-324, 0.1, 1e22, 123.0]


def write_rows(path, rows, names, floats):
    rng = random.Random(2)
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in ODD[1:4]}
    text = "n,name,x\n"
    for n in range(rows):
        name = rng.choice(names)
        x = rng.choice(floats) if floats else round(rng.uniform(-50, 50), 2)
        number = n if n % 10 else n * 10**15
        text += f"{number},{quoted.get(name, name)},{x!r}\n"
    path.write_text(text)
    return path


def read_parts(path):
    """Return the rows of an output, whether it is one file or several parts."""
    parts = sorted(path.glob("part*")) if path.is_dir() else [path]
    head, rows = "n,name,x\n", ""
    for part in parts:
        text = part.read_text()
        assert text.startswith(head)
        rows += text.removeprefix(head)
    return rows


@pytest.fixture
def compare(monkeypatch, tmp_path):
    monkeypatch.setenv(WHEN_VARIABLE, "at once")

    def compare_engines(program, source, **options):
        stream = PROGRAMS[program]
        one, many = tmp_path / "one", tmp_path / "many"
        ab.run(stream(ab.read_csv(source, Reading)).write_csv(one), on="sequential")
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path / "states"):
            sink = stream(ab.read_csv(source, Reading)).write_csv(many)
            ab.run(sink, on="spark", **options)
        assert read_parts(Path(one)) == read_parts(Path(many))

    return compare_engines


@pytest.mark.parametrize("program", needs.share(2, PROGRAMS))
@pytest.mark.parametrize(
    ("degree", "epoch"),
    needs.quick_rows(1, [(4, 250), (1, 400), (2, 97)]),
)
def test_rows_are_those_of_one_thread(program, degree, epoch, compare, tmp_path):
    source = write_rows(tmp_path / "rows.csv", 500, PLAIN, [])

    compare(program, source, degree=degree, epoch_items=epoch)


@pytest.mark.parametrize("program", ["filter", "scan", "window"])
@pytest.mark.parametrize("epoch", needs.quick(1, [7, 1]))
def test_epochs_of_few_rows_give_the_same(program, epoch, compare, tmp_path):
    source = write_rows(tmp_path / "rows.csv", 25, PLAIN, [])

    compare(program, source, degree=2, epoch_items=epoch)


@pytest.mark.parametrize("program", needs.share(2, [*PROGRAMS][::-1]))
def test_odd_strings_and_floats_are_the_same(program, compare, tmp_path):
    source = write_rows(tmp_path / "rows.csv", 300, ODD, FLOATS)

    compare(program, source, degree=3, epoch_items=110)


@pytest.mark.parametrize("program", ["scan", "map"])
def test_rows_that_become_odd_in_the_middle_are_the_same(program, compare, tmp_path):
    source = write_rows(tmp_path / "rows.csv", 300, PLAIN, [])
    with source.open("a") as file:
        file.write('7,"a,b",1.5\n8,x,nan\n')

    compare(program, source, degree=2, epoch_items=200)


@pytest.mark.parametrize("program", ["strings", "scan", "window", "sliding"])
def test_strings_of_parquet_travel_as_codes(program, monkeypatch, tmp_path):
    """Row groups have words of their own, which epochs and replicas bring together."""
    monkeypatch.setenv(WHEN_VARIABLE, "at once")
    source, names = tmp_path / "rows.parquet", ["A", "B", "é", "", 'quote"d'] * 120
    columns = {"n": list(range(600)), "name": names, "x": [n / 8 for n in range(600)]}
    columns["name"][200:400] = ["B", "C", "D", "E"] * 50
    pq.write_table(pa.table(columns), source, row_group_size=200)
    stream = PROGRAMS[program]
    one = stream(ab.read_parquet(source, Reading)).to_list()
    ab.run(one, on="sequential")
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path / "states"):
        sink = stream(ab.read_parquet(source, Reading)).write_parquet(tmp_path / "out")
        ab.run(sink, on="spark", degree=2, epoch_items=250)

    parts = [pq.read_table(part) for part in sorted((tmp_path / "out").glob("part*"))]

    rows = pa.concat_tables(parts).to_pylist()
    assert [item._asdict() for item in one.items] == rows
