"""A cluster of several workers: exact with a second attempt of every slow task."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from anabranch.epochs.checkpoint.contents import Contents
from anabranch.epochs.state.restore import local_directory
from bench.spark import cluster
from tests import needs

PROGRAM = """
import json, sys, time
import anabranch as ab

def count(total: int, number: int) -> tuple[int, list[int]]:
    if number % 97 == 0:
        time.sleep(0.5)  # whoever has this one is slow
    return total + 1, [number, total]

def fail_at_the_end(pair: list[int]) -> list[int]:
    if pair[0] == LAST:
        raise ValueError("the end")
    return pair

LAST = 699
master, checkpoint, fails = sys.argv[1:]
numbers = ab.from_iterable(range(700), int)
counted = numbers.key_by(lambda n: n % 31).scan(count, 0)
sink = (counted.map(fail_at_the_end) if fails == "fails" else counted).to_list()
try:
    ab.run(sink, master=master, degree=6, epoch_items=100, checkpoint=checkpoint)
finally:
    from pyspark import SparkContext
    given = SparkContext._active_spark_context.getConf().get
    print(json.dumps([given("spark.speculation"), sink.items]))
"""
SPECULATION = (
    "--conf spark.speculation=true --conf spark.speculation.interval=50ms "
    "--conf spark.speculation.multiplier=1.1 --conf spark.speculation.quantile=0.3 "
    "--conf spark.speculation.minTaskRuntime=50ms pyspark-shell"
)


def expected(items):
    seen: dict[int, int] = {}
    found = []
    for number in range(items):
        found.append([number, seen.get(number % 31, 0)])
        seen[number % 31] = found[-1][1] + 1
    return found


@pytest.mark.long
@pytest.mark.parametrize("ends", ["well", "fails"])
def test_speculation_changes_nothing_and_nothing_stays_on_hosts(
    tmp_path, pytestconfig, ends
):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checkpoint = tmp_path / "checkpoint"
    environment = {
        **os.environ,
        "PYSPARK_SUBMIT_ARGS": SPECULATION,
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": cluster.HOST,
    }

    try:
        with cluster.cluster(tmp_path / "cluster") as url:
            done = subprocess.run(
                [sys.executable, program, url, checkpoint, ends],
                capture_output=True,
                text=True,
                check=False,
                timeout=400,
                env=environment,
            )
    except cluster.NoCluster as error:
        needs.leave_out(pytestconfig, needs.CLUSTER, str(error))

    assert (ends == "fails") == ("the end" in done.stderr), done.stderr
    speculation, items = json.loads(done.stdout.splitlines()[-1])
    assert "true" == speculation
    assert expected(600 if ends == "fails" else 700) == items
    assert not local_directory(Contents(checkpoint).identity).exists()
