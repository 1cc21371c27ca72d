"""Programs run by a client of a real Spark Connect server give what one thread gives.

The client is a process of its own: a Connect session changes what PySpark does in its
process.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys

import pytest

from bench.spark import cluster
from tests import needs
from tests.engines.spark import connect_program

pytestmark = [pytest.mark.spark, pytest.mark.long]

WAIT_S = 900  # for the client, on a busy machine
ON_CLUSTER = ("run_with_checkpoint", "run_stateless", "refuse_state")
ON_SERVER = tuple(name for name in connect_program.CASES if name != "refuse_state")


@contextlib.contextmanager
def serve(folder, master):
    """Start a Connect server from the PySpark installation, and give its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    port = cluster.find_port()
    settings = {
        "spark.connect.grpc.binding.address": cluster.HOST,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": cluster.HOST,
        "spark.ui.enabled": "false",
    }
    said = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    server = cluster.start_class(
        folder,
        "connect",
        f"org.apache.spark.deploy.SparkSubmit --master {master} {said} "
        "--class org.apache.spark.sql.connect.service.SparkConnectServer spark-internal",
        environment={"SPARK_DAEMON_MEMORY": "1g"},
    )
    try:
        cluster.wait_for(folder / "connect.log", "Spark Connect server started", server)
        yield f"sc://{cluster.HOST}:{port}"
    finally:
        cluster.stop([server])


def run_client(url, folder, cases):
    """Return what a client has found, by case."""
    client = [sys.executable, "-m", connect_program.__name__, url, str(folder), *cases]
    environment = {**os.environ, "PYTHONPATH": str(needs.ROOT)}
    done = subprocess.run(
        client,
        cwd=needs.ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert 0 == done.returncode, done.stderr[-3_000:]
    found = map(json.loads, done.stdout.splitlines())
    return {name: (ran, expected) for name, ran, expected in found}


@pytest.fixture(scope="module")
def on_server(tmp_path_factory, pytestconfig):
    needs.leave_out_without_connect(pytestconfig)
    folder = tmp_path_factory.mktemp("connect")
    with serve(folder, "local[2]") as url:
        return run_client(url, folder, ON_SERVER)


@pytest.fixture(scope="module")
def on_cluster(tmp_path_factory, pytestconfig):
    needs.leave_out_without_connect(pytestconfig)
    folder = tmp_path_factory.mktemp("connect-cluster")
    try:
        with (
            cluster.cluster(folder / "cluster", apart=True) as master,
            serve(folder, master) as url,
        ):
            return run_client(url, folder, ON_CLUSTER)
    except cluster.NoCluster as error:
        needs.leave_out(pytestconfig, needs.CLUSTER, str(error))


@pytest.mark.parametrize("case", ON_SERVER)
def test_a_client_of_a_server_on_this_machine_gets_what_one_thread_gives(
    case, on_server
):
    ran, expected = on_server[case]

    assert expected == ran


@pytest.mark.parametrize("case", ON_CLUSTER)
def test_a_client_of_a_server_on_a_cluster_gets_what_one_thread_gives(case, on_cluster):
    ran, expected = on_cluster[case]

    assert expected == ran
