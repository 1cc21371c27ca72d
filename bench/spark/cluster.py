"""A standalone Spark cluster on this machine: one master and two workers on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pyspark

HOST = "127.0.0.1"
WAIT_S = 300  # a busy machine takes its time


class NoCluster(Exception):  # noqa: N818 - says what is missing
    """The cluster could not be started here."""


@contextmanager
def cluster(folder: Path, workers: int = 2, *, apart: bool = False) -> Iterator[str]:
    """Start a cluster from the PySpark installation, and give its URL.

    Workers that are `apart` are like hosts: each has an address of its own and a
    temporary directory, `folder/tmpN`, and so states and shuffled rows of its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port = find_port()
    url = f"spark://{HOST}:{port}"
    started = [
        start_class(
            folder,
            "master",
            f"org.apache.spark.deploy.master.Master --host {HOST} --port {port} "
            f"--webui-port {find_port()}",
        )
    ]
    try:
        wait_for(folder / "master.log", "I have been elected leader", started[0])
        for number in range(workers):
            own = folder / f"tmp{number}"
            own.mkdir(exist_ok=True)
            own_places = {"TMPDIR": str(own), "SPARK_LOCAL_DIRS": str(own)}
            host = f"127.0.0.{2 + number}" if apart else HOST
            made = start_class(
                folder,
                f"worker{number}",
                f"org.apache.spark.deploy.worker.Worker --host {host} --cores 1 "
                f"--memory 1g --webui-port {find_port()} "
                f"--work-dir {folder / f'work{number}'} {url}",
                host=host,
                environment=own_places if apart else {},
            )
            started.append(made)
        for number in range(workers):
            log = folder / f"worker{number}.log"
            wait_for(log, "Successfully registered", started[1 + number])
        yield url
    finally:
        stop(started)


def stop(started: Sequence[subprocess.Popen[bytes]]) -> None:
    """End processes, the last one first."""
    for process in reversed(started):
        process.terminate()
    for process in started:
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def start_class(
    folder: Path,
    name: str,
    command: str,
    host: str = HOST,
    prefix: Iterable[str] = (),
    *,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.Popen[bytes]:
    """Start a class of Spark, in the way that `prefix` says; its log is in `folder`."""
    home = Path(pyspark.__file__).parent
    settings = {
        **os.environ,
        "SPARK_LOCAL_IP": host,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **environment,
    }
    with (folder / f"{name}.log").open("wb") as log:
        return subprocess.Popen(
            [*prefix, str(home / "bin" / "spark-class"), *command.split()],
            env=settings,
            stdout=log,
            stderr=log,
        )


def wait_for(log: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has said something in its log."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        if words in log.read_text(errors="replace"):
            return
        time.sleep(0.2)
    msg = f"no Spark cluster: {log.read_text(errors='replace')[-500:]}"
    raise NoCluster(msg)


def find_port() -> int:
    """Return a port that nobody uses."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port: int = free.getsockname()[1]
        return port
