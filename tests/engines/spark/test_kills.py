"""Processes are killed for real, and nothing is lost or doubled.

A handful of the kills that `bench/checkpoint/kill.py` does by the hundred.
"""

from __future__ import annotations

import pytest

from bench.checkpoint.kill import Harness
from bench.spark import cluster
from tests import needs
from tests.connectors.conftest import s3  # noqa: F401 - a fixture

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture
def start(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANABRANCH_FAULTS", "set by the harness")
    made = []

    def start_harness(place=None):
        made.append(Harness(tmp_path, "local[2]", 3, place))
        return made[-1]

    yield start_harness
    for one in made:
        one.log.close()


@pytest.fixture
def harness(start):
    return start()


def test_driver_and_workers_are_killed_at_chosen_points(harness):
    """
    Here the JVM of a killed driver dies with it; the next one starts its own.
    """
    points = ["half-stored:2", "half-published:3"]

    harness.run(0, points, {"worker": 1})

    assert [] == harness.differences
    assert {"half-stored", "half-published"} <= set(harness.killed)


def test_driver_and_workers_are_killed_while_a_store_has_everything(start, s3):  # noqa: F811
    harness = start(lambda name: s3.url(f"kills/{name}"))
    points = ["logged:1", "half-recorded:2", "committed:3", "half-published:4"]

    harness.run(0, points, {"worker": 1})

    assert [] == harness.differences
    assert {point.partition(":")[0] for point in points} <= set(harness.killed)


def test_an_executor_of_a_cluster_is_killed(harness, tmp_path, pytestconfig):
    try:
        with cluster.cluster(tmp_path / "cluster") as url:
            harness.master = url
            harness.run(0, ["committed:3"], {"executor": 1})
    except cluster.NoCluster as error:
        needs.leave_out(pytestconfig, needs.CLUSTER, str(error))

    assert [] == harness.differences
    assert {"committed", "executor at random"} == set(harness.killed)
