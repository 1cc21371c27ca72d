"""Files and checkpoints on an S3 server of this machine, over the same on its disk.

    anabranch bench connectors/s3 [--rows N] [--runs N] [--items N] [--epochs N]

Files: trades from CSV to CSV and from Parquet to Parquet on Spark, four functions, input
and output both in the store or both on disk; the rows written must be the same.
Checkpoint: keyed running totals from disk to disk; the median epoch with a checkpoint in
the store over that without one. The server runs on the same cores: versitygw, written in
Go, if `make packages` could build it (ANABRANCH_SERVERS names another folder), else moto,
which is written in Python and itself takes most of the time. Target: 1.3 for each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet as pq

import anabranch as ab
from anabranch.engines.spark.session import open_session
from bench.checkpoint.cost import epochs_s, write_trades
from bench.harness.timing import Claim, claim, interleaved, ratio, report
from bench.harness.trades import JOBS, Trade, make_trades
from bench.harness.trades_parquet import make_parquet
from tests.connectors.stores import S3, find_fast, find_moto

AT_MOST = 1.3
KEYS = 20_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--items", type=int, default=100_000, help="of an epoch")
    parser.add_argument("--epochs", type=int, default=8)
    given = parser.parse_args()
    program = find_fast() or find_moto()
    if program is None:
        msg = "this benchmark needs versitygw or moto; `make packages` installs them"
        raise SystemExit(msg)
    os.environ |= {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    folder = Path(tempfile.mkdtemp(prefix="anabranch-s3-"))
    store = S3(program)
    try:
        open_session("local[2]")
        claims = compare_files(store, folder, given.rows, given.runs)
        claims.append(
            compare_epochs(store, folder, given.items, given.epochs, given.runs)
        )
        report("s3", {}, claims=claims)
    finally:
        store.stop()
        shutil.rmtree(folder, ignore_errors=True)


def compare_files(store: S3, folder: Path, rows: int, runs: int) -> list[Claim]:
    """Return the claims about input and output in the store, by format."""
    text = make_trades(folder / "trades.csv", rows)
    claims = []
    for source in (text, make_parquet(text)):
        with store.files.open_output_stream(f"trades/{source.name}") as stream:
            stream.write(source.read_bytes())
        disk, there = folder / "disk", f"store-{source.suffix[1:]}"
        sides = {
            "store": partial(run_in_store, store, source.name, there),
            "disk": partial(run_on_disk, source, disk),
        }
        times = interleaved(sides, runs)
        selector = pyarrow.fs.FileSelector(f"trades/{there}", recursive=True)
        stored = [
            one.path for one in store.files.get_file_info(selector) if one.is_file
        ]
        expected = read_rows(pyarrow.fs.LocalFileSystem(), find_files(disk))
        if not expected.equals(read_rows(store.files, stored)):
            msg = f"the output in the store differs from that on disk ({source.name})"
            raise SystemExit(msg)
        what = f"{rows:,} trades, {source.suffix[1:]}: in the store over on disk"
        found = ratio(times["store"], times["disk"])
        claims.append(
            claim(
                what,
                found,
                at_most=AT_MOST,
                remark=f"{store.program}: {seconds_of(times)}",
            )
        )
    return claims


def run_on_disk(source: Path, target: Path) -> None:
    """Run the job from disk to disk."""
    shutil.rmtree(target, ignore_errors=True)
    run_job(str(source), str(target))


def run_in_store(store: S3, source: str, target: str) -> None:
    """Run the job from the store to the store."""
    if (
        store.files.get_file_info(f"trades/{target}").type
        != pyarrow.fs.FileType.NotFound
    ):
        store.files.delete_dir(f"trades/{target}")
    run_job(store.url(source), store.url(target))


def run_job(source: str, target: str) -> None:
    """Run four functions over the trades of a file, on Spark."""
    job: Callable[[Any], Any] = JOBS["chain"]
    if ".parquet" in source:
        sink = job(ab.read_parquet(source, Trade)).write_parquet(target)
    else:
        sink = job(ab.read_csv(source, Trade)).write_csv(target)
    ab.run(sink, on="spark", degree=2)


def find_files(folder: Path) -> list[str]:
    """Return the files below a folder."""
    return [str(path) for path in folder.rglob("*") if path.is_file()]


def read_rows(files: pyarrow.fs.FileSystem, paths: list[str]) -> pyarrow.Table:
    """Return the rows of an output, its parts in the order of their names."""
    parts = sorted(path for path in paths if "/part" in path)
    assert parts, f"no parts among {paths}"
    tables = []
    for path in parts:
        with files.open_input_file(path) as file:
            data = pyarrow.BufferReader(file.read())
        read = pyarrow.csv.read_csv if path.endswith(".csv") else pq.read_table
        tables.append(read(data))
    return pyarrow.concat_tables(tables).combine_chunks()


def compare_epochs(
    store: S3, folder: Path, items: int, epochs: int, runs: int
) -> Claim:
    """Return the claim about epochs with a checkpoint in the store."""
    trades = folder / "totals.csv"
    write_trades(trades, items * epochs, KEYS)
    number = iter(range(1000))
    outputs: dict[str, pyarrow.Table] = {}

    def run(side: str) -> float:
        at = next(number)
        out = folder / f"totals-{at}"
        checkpoint = store.url(f"checkpoint-{at}") if side == "with" else None
        found = epochs_s(trades, out, items, checkpoint)
        outputs[side] = read_rows(pyarrow.fs.LocalFileSystem(), find_files(out))
        shutil.rmtree(out)
        return statistics.median(found)

    times = interleaved(
        {side: partial(run, side) for side in ("with", "without")}, runs
    )
    if not outputs["with"].equals(outputs["without"]):
        msg = "the output with a checkpoint in the store differs from that without"
        raise SystemExit(msg)
    what = f"checkpoint in the store: an epoch of {items:,} items with it over without"
    found = ratio(times["with"], times["without"])
    return claim(
        what, found, at_most=AT_MOST, remark=f"{store.program}: {seconds_of(times)}"
    )


def seconds_of(times: dict[str, list[float]]) -> str:
    """Return the medians in words.

    >>> seconds_of({"store": [1.0, 2.0, 4.0], "disk": [1.0]})
    'store 2 s, disk 1 s'
    """
    return ", ".join(f"{k} {statistics.median(v):.3g} s" for k, v in times.items())


if __name__ == "__main__":
    main()
