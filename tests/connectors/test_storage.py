"""Files of stores: read, on every engine, as files of this machine are."""

from __future__ import annotations

import glob
import gzip
import io
import time
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.connectors.storage import StorePath, find_matching, locate, why_no_store
from anabranch.errors import InputError


class Trade(NamedTuple):
    symbol: str
    volume: int


class Sale(NamedTuple):
    day: int
    amount: float
    side: str | None


def put(url: str, data: bytes) -> None:
    locate(url).write_bytes(data)


def parquet(**columns) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def items_of(stream, engine):
    out = stream.to_list()
    ab.run(out, on=engine)
    return out.items


def test_every_format_is_read_from_a_store(store, engine):
    put(store("in/b.csv"), b"symbol,volume\nB,2\n")
    put(store("in/a.csv.gz"), gzip.compress(b"symbol,volume\nA,1\n"))
    put(store("in/_later.csv"), b"no")
    put(store("day.jsonl"), b'{"symbol": "C", "volume": 3}\n')
    put(store("day.txt"), b"one\ntwo\n")
    put(store("day.parquet"), parquet(symbol=["D"], volume=[4]))
    nothing = "__HIVE_DEFAULT_PARTITION__"
    for key in (f"day=10/side={nothing}", "day=10/side=a%2Fb", "day=9/side=a%2Fb"):
        put(store(f"sales/{key}/x.parquet"), parquet(amount=[1.5]))

    outs = [
        ab.read_csv(store("in"), Trade).to_list(),
        ab.read_csv(store("in/?.csv"), Trade).to_list(),
        ab.read_jsonl(store("day.jsonl"), Trade).to_list(),
        ab.read_text(store("*.txt")).to_list(),
        ab.read_parquet(store("day.parquet"), Trade).to_list(),
        ab.read_parquet(store("sales"), Sale).to_list(),
    ]
    ab.run(*outs, on=engine)

    assert [
        [Trade("A", 1), Trade("B", 2)],
        [Trade("B", 2)],
        [Trade("C", 3)],
        ["one", "two"],
        [Trade("D", 4)],
        [Sale(10, 1.5, None), Sale(10, 1.5, "a/b"), Sale(9, 1.5, "a/b")],
    ] == [out.items for out in outs]


def test_partitions_on_this_machine(tmp_path):
    folder = tmp_path / "t" / "day=7"
    folder.mkdir(parents=True)
    (folder / "x.parquet").write_bytes(parquet(amount=[2.5], side=["s"]))

    read = ab.read_parquet(tmp_path / "t", Sale)

    assert [Sale(7, 2.5, "s")] == items_of(read, "sequential")


def test_a_partition_of_another_type_is_refused(tmp_path):
    folder = tmp_path / "day=monday"
    folder.mkdir()
    (folder / "x.parquet").write_bytes(parquet(amount=[2.5], side=["s"]))

    with pytest.raises(InputError, match=r"day=... must give int; it gives 'monday'"):
        items_of(ab.read_parquet(tmp_path, Sale), "sequential")


PATTERNS = {
    "*.csv": ["a.csv"],
    "*/*.csv": ["x/b.csv"],
    "**/*.csv": ["a.csv", "x/b.csv", "x/y/c.csv"],
    "x/**": ["x/", "x/b.csv", "x/y", "x/y/c.csv"],
    "x/[a-c].csv": ["x/b.csv"],
    "x/y/c.csv": ["x/y/c.csv"],
    "nothing/*": [],
}


@pytest.mark.parametrize(("pattern", "names"), PATTERNS.items(), ids=PATTERNS)
def test_patterns_find_what_glob_finds(store, tmp_path_factory, pattern, names):
    here = tmp_path_factory.mktemp("here")
    for key in ("a.csv", "x/b.csv", "x/y/c.csv", ".z/d.csv", "x/.e.csv"):
        put(store(key), b"")
        place = here / key
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    local = glob.glob(f"{here}/{pattern}", recursive=True)  # noqa: PTH207 - the rules of glob
    assert names == sorted(name.removeprefix(f"{here}/") for name in local)

    found = find_matching(store(pattern))

    base = len(str(locate(store("")).url)) + 1
    assert [name.rstrip("/") for name in names] == sorted(p.url[base:] for p in found)


def test_a_store_is_followed(store):
    put(store("inbox/a.txt"), b"one\n")
    out = ab.read_text(store("inbox"), follow=True).to_list()
    job = ab.start(out, on="sequential")
    while len(out.items) < 1:
        job.wait(0.05)
    put(store("inbox/b.txt"), b"two\n")
    while len(out.items) < 2:
        job.wait(0.05)
    job.stop()

    assert ["one", "two"] == out.items


def test_what_is_not_there_is_told(store):
    with pytest.raises(InputError, match=r"no.csv.*does not exist"):
        items_of(ab.read_csv(store("no.csv"), Trade), "sequential")


KNOWN = ["in/x.csv", "s3://b/x", "S3A://b/x", "gs://b/x", "hdfs:///x", "memory://x/y"]
UNKNOWN = {
    "s4://b/x": "scheme s4, which is not known",
    "s3:/b/x": "two slashes",
    "gs:b": "two slashes",
    "s3://": "names no file",
    " s3://b/x": "space",
    "s3://b//x": "empty step",
}


@pytest.mark.parametrize("path", KNOWN)
def test_known_stores(path):
    assert why_no_store(path) is None


@pytest.mark.parametrize(("path", "why"), UNKNOWN.items(), ids=UNKNOWN)
def test_unknown_stores(path, why):
    assert why in (why_no_store(path) or "")


def test_a_url_is_not_taken_for_a_local_path(tmp_path):
    with pytest.raises(TypeError, match="no path of this machine"):
        open(StorePath("s3://b/x"))  # noqa: PTH123, SIM115


def test_a_file_that_was_given_up_does_not_appear(store):
    place = locate(store("out.csv"))

    def write_half():
        with place.open("wb") as file:
            file.write(b"half")
            file.write(bytes(1 // 0))

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert not place.exists()


def test_a_time_of_an_object_is_known(store):
    put(store("x"), b"123")

    status = locate(store("x")).stat()

    assert 3 == status.st_size
    assert abs(status.st_mtime_ns / 1e9 - time.time()) < 3600
