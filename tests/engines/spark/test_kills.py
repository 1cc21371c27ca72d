"""Processes are killed for real, and nothing is lost or doubled.

A handful of the kills that `bench/checkpoint/kill.py` does by the hundred.
"""

from __future__ import annotations

import pytest

from bench.checkpoint.kill import Harness
from bench.spark import cluster
from bench.spark.hosts import hosts
from tests import needs
from tests.connectors.conftest import s3  # noqa: F401 - a fixture
from tests.connectors.stores import S3, find_moto

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


def test_hosts_that_share_nothing_but_a_store_are_killed(start, tmp_path, pytestconfig):
    """
    Two hosts with networks and disks of their own, and a driver with its own: driver,
    worker, executor and a whole host are killed.
    """
    program = find_moto()
    if program is None:
        needs.leave_out(pytestconfig, needs.S3)
    try:
        with hosts(tmp_path / "cluster", tmp_path / "faults") as running:
            server = S3(program, running.address)
            try:
                harness = start(lambda name: server.url(f"kills/{name}"))
                harness.master, harness.prefix = running.url, running.prefix
                harness.set("SPARK_LOCAL_IP", running.address)
                harness.kill_host = lambda: running.kill(running.names[0])
                points = ["half-stored:2", "committed:3"]
                harness.run(0, points, {"executor": 1, "host": 1})
            finally:
                server.stop()
    except cluster.NoCluster as error:
        needs.leave_out(pytestconfig, needs.CLUSTER, str(error))

    assert [] == harness.differences
    expected = {"half-stored", "committed", "executor at random", "host at random"}
    assert expected == set(harness.killed)
