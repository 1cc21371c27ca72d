"""Files of stores: read and written, on every engine, as files of this machine are."""

from __future__ import annotations

import glob
import gzip
import io
import itertools
import os
import subprocess
import sys
import time
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import AzureFileSystem

import anabranch as ab
from anabranch.connectors import storage
from anabranch.connectors.storage import (
    StorePath,
    _find_place,
    find_matching,
    locate,
    why_no_store,
)
from anabranch.epochs import faults
from anabranch.errors import CheckpointError, InputError, OperatorError, OutputError
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed


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


KNOWN = [
    "in/x.csv",
    "s3://b/x",
    "S3A://b/x",
    "gs://b/x",
    "hdfs:///x",
    "memory://x/y",
    "abfs://trades@desk/x",
    "s3://b/y?ar=2026/*.csv",
]
UNKNOWN = {
    "s4://b/x": "scheme s4, which is not known",
    "s3:/b/x": "two slashes",
    "gs:b": "two slashes",
    "s3://": "names no file",
    " s3://b/x": "space",
    "s3://b//x": "empty step",
    "s3://b/x?regoin=eu-west-1": "the option 'regoin', which no store takes",
    "gs://b/x?scheme=http&token=9": "the option 'token'",
    "abfs://trades/x": "names no account",
    "abfss://trades@/x": "names no account",
}


@pytest.mark.parametrize("path", KNOWN)
def test_known_stores(path):
    assert why_no_store(path) is None


@pytest.mark.parametrize(("path", "why"), UNKNOWN.items(), ids=UNKNOWN)
def test_unknown_stores(path, why):
    assert why in (why_no_store(path) or "")


@pytest.mark.parametrize(
    ("options", "limit_s"), [("", 30), ("retry_limit_seconds=5", 5)]
)
def test_a_store_of_google_that_does_not_answer_is_given_up(options, limit_s):
    """
    Arrow alone tries for 15 minutes.
    """
    store, _ = _find_place("gs://bucket/x.csv", options)
    _, (told,) = store.__reduce__()

    assert limit_s == told["retry_time_limit"].total_seconds()


def test_a_url_is_not_taken_for_a_local_path(tmp_path):
    with pytest.raises(TypeError, match="not StorePath"):
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


def texts_in(url: str) -> dict[str, str]:
    """Return the content of each file of a directory, by name."""
    return {p.name: p.read_bytes().decode() for p in locate(url).iterdir()}


def test_every_format_is_written_to_a_store(store, engine):
    trades = ab.from_iterable([Trade("A", 1), Trade("B", 2)], Trade)
    sinks = [
        trades.write_csv(store("one/out.csv")),
        trades.write_jsonl(store("one/out.jsonl")),
        trades.write_parquet(store("one/out.parquet")),
        trades.write_csv(store("parts")),
        trades.filter(lambda t: t.volume > 9).write_parquet(store("empty")),
    ]

    ab.run(*sinks, on=engine)

    assert b"symbol,volume\nA,1\nB,2\n" == locate(store("one/out.csv")).read_bytes()
    read = [
        ab.read_jsonl(store("one/out.jsonl"), Trade).to_list(),
        ab.read_parquet(store("one/out.parquet"), Trade).to_list(),
        ab.read_csv(store("parts"), Trade).to_list(),
        ab.read_parquet(store("empty"), Trade).to_list(),
    ]
    ab.run(*read, on="sequential")
    both = [Trade("A", 1), Trade("B", 2)]
    assert [both, both, both, []] == [out.items for out in read]
    assert "_SUCCESS" in texts_in(store("parts"))
    names = {path.name for path in locate(store("")).iterdir()}
    assert {"one", "parts", "empty"} == names  # no stages are left


def test_an_output_in_a_store_is_not_written_over(store, engine):
    put(store("out.csv"), b"mine\n")
    put(store("parts/x"), b"mine\n")
    numbers = ab.from_iterable([1])

    with pytest.raises(OutputError, match=r"out.csv"):
        ab.run(numbers.write_csv(store("out.csv")), on=engine)
    with pytest.raises(OutputError, match="parts"):
        ab.run(numbers.write_csv(store("parts")), on=engine)

    assert b"mine\n" == locate(store("out.csv")).read_bytes()
    assert {"x": "mine\n"} == texts_in(store("parts"))


def test_a_job_that_fails_writes_nothing_to_a_store(store, engine):
    numbers = ab.from_iterable([1, 0], int).map(lambda n: 1 // n)

    with pytest.raises(OperatorError):
        ab.run(numbers.write_csv(store("out")), on=engine)

    assert not locate(store("out")).exists()


class CrashError(Exception):
    """The driver ends here."""


@pytest.fixture
def crash():
    """A function that has the driver end at a place of an epoch, once."""
    added = []

    def crash_at(place, epoch):
        def watch(*reached):
            if reached == (place, epoch):
                faults.watchers.remove(watch)
                raise CrashError

        added.append(watch)
        faults.watchers.append(watch)

    yield crash_at
    faults.watchers[:] = [one for one in faults.watchers if one not in added]


def add(total: int, n: int) -> tuple[int, int]:
    return total + n, total + n


@pytest.mark.spark
@pytest.mark.parametrize(
    "place", needs.quick(1, ["half-published", "published", "ran"])
)
def test_a_killed_job_writes_each_epoch_once_to_a_store(store, crash, place):

    def run():
        sums = ab.from_iterable(range(60), int).scan(add, 0)
        ab.run(
            sums.write_csv(store("out")),
            sums.write_csv(store("one.csv")),
            on="spark",
            checkpoint=store("checkpoint"),
            epoch_items=20,
        )

    crash(place, 2)
    with pytest.raises(CrashError):
        run()
    run()

    expected = list(itertools.accumulate(range(60)))
    assert expected == items_of(ab.read_csv(store("out"), int), "sequential")
    assert expected == items_of(ab.read_csv(store("one.csv"), int), "sequential")
    hidden = [p.name for p in locate(store("")).iterdir() if p.name.startswith(".")]
    assert [] == hidden


class Counted(NamedTuple):
    number: int
    name: str


def count_requests(s3, sink, monkeypatch, tmp_path):
    """Return the requests of a job on the Spark engine, ten epochs with two tasks."""
    before = s3.count()
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(sink, on="spark", degree=2, epoch_items=100)
    return s3.count() - before


def test_a_job_makes_few_requests(s3, tmp_path, monkeypatch):
    """Each of twenty parts is written once, and copied once; no file is asked for."""
    url = s3.url(f"{tmp_path.name}/").partition("?")
    here, options = url[0], "?" + url[2]
    rows = [Counted(n, f"n{n % 7}") for n in range(1000)]
    text = "number,name\n" + "".join(f"{n},{name}\n" for n, name in rows)
    put(f"{here}in.csv{options}", text.encode())
    numbers, names = zip(*rows, strict=True)
    put(f"{here}in.parquet{options}", parquet(number=numbers, name=names))

    rows_in = ab.read_csv(f"{here}in.csv{options}", Counted)
    sink = rows_in.map(doubled, type=Counted).write_csv(f"{here}a{options}")
    of_csv = count_requests(s3, sink, monkeypatch, tmp_path)
    columns_in = ab.read_parquet(f"{here}in.parquet{options}", Counted)
    sink = columns_in.map(doubled, type=Counted).write_parquet(f"{here}b{options}")
    of_parquet = count_requests(s3, sink, monkeypatch, tmp_path)

    assert {"PUT": 41, "POST": 1} == {m: of_csv[m] for m in ("PUT", "POST")}
    assert of_csv["GET"] <= 46, of_csv
    assert of_csv["HEAD"] <= 14, of_csv
    assert {"PUT": 41, "POST": 1} == {m: of_parquet[m] for m in ("PUT", "POST")}
    assert of_parquet["GET"] <= 14, of_parquet
    assert of_parquet["HEAD"] <= 4, of_parquet


def doubled(one: Counted) -> Counted:
    return Counted(one.number * 2, one.name)


def test_an_emulator_of_azure_is_named_by_the_url(monkeypatch):
    """The key is in the environment; the account is a step of an emulator's URL."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    url = "abfs://trades@desk.dfs.core.windows.net/day.csv"
    path = locate(f"{url}?endpoint_override=127.0.0.1:10000&scheme=http")

    store, key = _find_place(path.url, path.options)

    there = {
        "blob_storage_authority": "127.0.0.1:10000",
        "dfs_storage_authority": "127.0.0.1:10000",
        "blob_storage_scheme": "http",
        "dfs_storage_scheme": "http",
    }
    assert AzureFileSystem("desk", account_key="a2V5", **there) == store
    assert "trades/day.csv" == key


_OPEN = """
import sys
from anabranch.connectors.storage import locate
try:
    locate(sys.argv[1]).read_bytes()
except OSError as error:
    print(error)
"""


@pytest.mark.long
def test_azure_without_a_login_is_an_error_and_no_abort():
    """Arrow would end the process, so another one tries it."""
    url = "abfss://trades@desk.dfs.core.windows.net/day.csv"
    known = {k: v for k, v in os.environ.items() if not k.startswith("AZURE")}

    done = subprocess.run(
        [sys.executable, "-c", _OPEN, url],
        env={**known, "AZURE_TOKEN_CREDENTIALS": "EnvironmentCredential"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (0, True) == (done.returncode, "desk.blob" in done.stdout), done


def test_a_store_that_fails_as_it_is_opened_is_told_in_one_line(monkeypatch):
    def fail(host, options):
        msg = f"no way to {host}\ndetails\nand more"
        raise pa.ArrowInvalid(msg)

    monkeypatch.setitem(storage._ARROW, "hdfs", fail)

    with pytest.raises(InputError, match=r"no way to nowhere; HDFS needs") as told:
        items_of(ab.read_text("hdfs://nowhere/day.txt"), "sequential")

    assert "\n" not in str(told.value)
    assert "check the bucket, the credentials and the network" in str(told.value)


def test_a_store_that_does_not_answer_is_asked_once_for_a_checkpoint(monkeypatch):
    asked = []

    def fail(host, options):
        asked.append(host)
        msg = "no answer"
        raise OSError(msg)

    monkeypatch.setitem(storage._ARROW, "gs", fail)
    out = ab.from_iterable([1], int).to_list()

    with pytest.raises(CheckpointError, match="gs://jobs/vwap: no answer; check the"):
        ab.run(out, on="spark", checkpoint="gs://jobs/vwap")

    assert ["jobs"] == asked


def test_options_of_a_store_are_no_part_of_a_name():
    path = locate("gs://trades/day.csv?retry_limit_seconds=300&anonymous=true")

    assert ("day.csv", "gs://trades/day.csv") == (path.name, path.url)


class Rejecting:
    """A store that rejects its user, as that of Azure does without credentials."""

    def get_file_info(self, path):
        msg = f"Unknown error: no token for {path}"
        raise pa.ArrowException(msg)


REJECTING = "abfss://c@account.dfs.core.windows.net/x.csv"


@pytest.mark.parametrize(
    ("used", "error"),
    [
        (lambda: ab.read_csv(REJECTING, Sale).to_list(), InputError),
        (lambda: ab.from_iterable((), Sale).write_csv(REJECTING), OutputError),
    ],
    ids=["read", "write"],
)
def test_a_store_that_rejects_its_user_is_named(used, error, monkeypatch):
    monkeypatch.setattr(storage, "_find_place", lambda *_: (Rejecting(), "x.csv"))

    with pytest.raises(error, match=r"account.*x\.csv must be .*no token"):
        ab.run(used(), on="sequential")
