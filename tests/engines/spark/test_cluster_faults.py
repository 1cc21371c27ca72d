"""What happens to other people's clusters: the outputs are those of a loop all the same.

Each test has a standalone cluster of workers that are apart: a master, two workers and a
driver, each a process. That the fault took place is read from Spark's own events.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from bench.spark import cluster
from tests import needs
from tests.engines.spark import cluster_program

pytestmark = [pytest.mark.spark, pytest.mark.long]

WAIT_S = 1800  # for the driver, on a busy machine
KILLED = -signal.SIGKILL


def is_fetched_in_vain(events):
    return any(
        event["Task End Reason"]["Reason"] == "FetchFailed"
        for event in events
        if event["Event"] == "SparkListenerTaskEnd"
    )


def is_speculated(events):
    return any(
        event["Task Info"]["Speculative"]
        for event in events
        if event["Event"] == "SparkListenerTaskStart"
    )


def is_removed(events):
    return any(event["Event"] == "SparkListenerExecutorRemoved" for event in events)


def is_anything(_):
    return True


HAPPENED = {
    ("fetch failure", "jobs"): is_fetched_in_vain,
    ("speculation", "jobs"): is_speculated,
    ("decommission", "jobs"): is_removed,
    ("decommission", "resident"): is_removed,
    ("loss", "jobs"): is_removed,
    ("loss", "resident"): is_removed,
    ("slow host", "jobs"): is_anything,
    ("slow host", "resident"): is_anything,
    ("driver restart", "jobs"): is_anything,
    ("driver restart", "resident"): is_anything,
}


@pytest.mark.parametrize(("fault", "way"), HAPPENED, ids=map("-".join, HAPPENED))
def test_the_outputs_are_those_of_a_loop(
    fault, way, tmp_path, pytestconfig, monkeypatch
):
    monkeypatch.setenv("SPARK_LOCAL_IP", cluster.HOST)
    try:
        with cluster.cluster(tmp_path / "cluster", apart=True) as url:
            statuses = [drive(url, tmp_path, fault, way)]
            if fault == "driver restart":
                statuses.append(drive(url, tmp_path, fault, way))
            left = wait_for_none(tmp_path / "cluster")
    except cluster.NoCluster as error:
        needs.leave_out(pytestconfig, needs.CLUSTER, str(error))

    told = (tmp_path / "driver.log").read_text(errors="replace")
    assert statuses in ([0], [KILLED, 0]), told[-3000:]
    rows = (tmp_path / "totals.csv").read_text().splitlines()
    assert cluster_program.expect() == rows
    assert (tmp_path / "caused").exists()
    assert HAPPENED[fault, way](read_events(tmp_path / "events"))
    assert [] == left


def wait_for_none(folder):
    """Return the states on hosts; the cluster removes those of a job that has ended."""
    deadline = time.monotonic() + cluster.WAIT_S
    while time.monotonic() < deadline:
        left = list(folder.glob("tmp*/**/anabranch-*/states/*"))
        if not left:
            break
        time.sleep(0.2)
    return left


def drive(url, folder, fault, way):
    """Run the program as a driver of its own; return its exit status."""
    for name in ("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"):
        os.environ.pop(name, None)
    command = [sys.executable, cluster_program.__file__, url, str(folder), fault, way]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    with (folder / "driver.log").open("ab") as log:
        done = subprocess.run(
            command,
            stderr=log,
            stdout=log,
            env=environment,
            timeout=WAIT_S,
            check=False,
        )
    return done.returncode


def read_events(folder):
    """Return the events of the last driver."""
    path = max(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    return [json.loads(line) for line in path.read_text().splitlines()]
