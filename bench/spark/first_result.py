"""The time to the first result, from the start of the process, over a bare PySpark script.

    anabranch bench spark/first_result [--runs N]

The other side is a script with one `mapInArrow`, on a session with Spark's own settings.
The first of our runs has the class archive made, and is not counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from bench.harness.timing import claim, interleaved, ratio, report

AT_MOST = 0.55
MADE_S = 60.0  # until the archive of the first run is there

BARE = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").getOrCreate()
print(spark.range(1000).mapInArrow(lambda batches: batches, "id long").toArrow().num_rows)
"""
OURS = """
import anabranch as ab
out = ab.from_iterable(range(1000)).map(lambda n: n + 1).to_list()
ab.run(out, master="local[2]", ui=False)
print(len(out.items))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    run(OURS)
    time.sleep(MADE_S)
    seconds = interleaved(
        {"bare": lambda: run(BARE), "ours": lambda: run(OURS)}, arguments.runs
    )
    over = ratio(seconds["ours"], seconds["bare"])
    found = {
        f"s, {name}": [round(s, 1) for s in took] for name, took in seconds.items()
    }
    claims = [
        claim("time to the first result over bare PySpark", over, at_most=AT_MOST)
    ]
    report("first_result", {**found, "over bare": over}, arguments.json, claims=claims)


def run(script: str) -> None:
    """Run a script in a process of its own; both give a thousand items."""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=True,
    )
    if done.stdout.strip() != "1000":
        msg = f"1000 items were expected; got {done.stdout!r}"
        raise ValueError(msg)


if __name__ == "__main__":
    main()
