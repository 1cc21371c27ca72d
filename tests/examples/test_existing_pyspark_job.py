"""The example of an existing PySpark job, run as a job of the user's."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from anabranch.epochs.transport.modules import send_by_value

pytestmark = pytest.mark.spark

FILE = Path(__file__).parents[2] / "examples" / "existing_pyspark_job.py"


@pytest.fixture
def job():
    """The module of the example, which workers cannot import."""
    spec = importlib.util.spec_from_file_location("existing_pyspark_job", FILE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    send_by_value(module)
    yield module
    del sys.modules[spec.name]


def test_the_averages_are_those_of_one_pass_over_all_files(spark, job, tmp_path):
    trades, results = tmp_path / "trades", tmp_path / "results"
    trades.mkdir()
    rows = [(n, "AB"[n % 2], 10.0 + n % 7, n % 5) for n in range(60)]
    for number in range(3):
        lines = [
            ",".join(map(str, row)) for row in rows[20 * number : 20 * number + 20]
        ]
        text = "\n".join(["ts,symbol,price,volume", *lines])
        path = trades / f"{number}.csv"
        path.write_text(text + "\n")
        os.utime(path, (1_000_000 + number,) * 2)  # Spark takes files by age

    job.main(spark, trades, results)

    expected = []
    for ts, symbol, _, volume in rows:
        so_far = [r for r in rows if r[1] == symbol and r[0] <= ts and r[3]]
        if volume:
            value = sum(price * count for _, _, price, count in so_far)
            expected.append((ts, symbol, value / sum(r[3] for r in so_far)))
    found = spark.read.parquet(str(results)).orderBy("ts").collect()
    assert expected == [(r.ts, r.symbol, pytest.approx(r.vwap)) for r in found]
    assert 3 == len(list(results.glob("epoch=*")))
