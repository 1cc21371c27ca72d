"""Processes are killed for real, and nothing is lost or doubled.

A handful of the kills that `bench/kill.py` does by the hundred.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"

pytestmark = pytest.mark.spark


@pytest.fixture
def bench(monkeypatch):
    """The harness of the benchmark; it is a script, not part of the package."""
    monkeypatch.syspath_prepend(str(BENCH))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        monkeypatch.delenv(name, raising=False)
    yield pytest.importorskip("kill")
    for name in ("kill", "kill_program", "spark_cluster"):
        sys.modules.pop(name, None)


@pytest.fixture
def harness(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_FAULTS", "set by the harness")
    made = bench.Harness(tmp_path, "local[2]", seed=3)
    yield made
    made.log.close()


def test_driver_and_workers_are_killed_at_chosen_points(harness):
    """
    Here the JVM of a killed driver dies with it; the next one starts its own.
    """
    points = ["half-stored:2", "half-published:3"]

    harness.run(0, points, {"worker": 1})

    assert [] == harness.differences
    assert {"half-stored", "half-published"} <= set(harness.killed)


def test_an_executor_of_a_cluster_is_killed(harness, tmp_path):
    import spark_cluster

    try:
        with spark_cluster.cluster(tmp_path / "cluster") as url:
            harness.master = url
            harness.run(0, ["committed:3"], {"executor": 1})
    except spark_cluster.NoCluster as error:
        pytest.skip(str(error))

    assert [] == harness.differences
    assert {"committed", "executor at random"} == set(harness.killed)
