"""A standalone Spark cluster on hosts that share nothing: network namespaces.

Each host has an address, a `/tmp` and a `/dev/shm` of its own. The driver has such a file
system too, on the address of the bridge between them, and so has the master. Needs root
and `ip` (Debian package iproute2).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.spark.cluster import NoCluster, find_port, start_class, stop, wait_for

_PRIVATE = """
set -e
mount --bind {shared} /mnt
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /dev/shm
mkdir -p {shared}
mount --bind /mnt {shared}
unset TMPDIR
exec "$@"
"""


class Hosts:
    """Hosts on a bridge; all of them see `shared`, where kills are asked for."""

    def __init__(self, folder: Path, shared: Path, count: int = 2) -> None:
        self._folder = folder
        self._own = f"ab{os.getpid() % 10_000}"
        self._net = f"10.77.{os.getpid() % 250}"
        self._script = _PRIVATE.format(shared=shared)
        self.names = [f"{self._own}h{number}" for number in range(count)]
        self.address = f"{self._net}.1"
        self._running: list[subprocess.Popen[bytes]] = []
        self._workers: dict[str, subprocess.Popen[bytes]] = {}
        self.url = ""

    def open(self) -> None:
        """Make the bridge and the namespaces, and start master and workers."""
        _ip("link", "add", self._own, "type", "bridge")
        _ip("address", "add", f"{self.address}/24", "dev", self._own)
        _ip("link", "set", self._own, "up")
        for number, name in enumerate(self.names):
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "eth0", "netns", name)
            _ip("link", "set", name, "master", self._own, "up")
            address = f"{self._address_of(number)}/24"
            _ip("-n", name, "address", "add", address, "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        port = find_port()
        self.url = f"spark://{self.address}:{port}"
        master = start_class(
            self._folder,
            "master",
            f"org.apache.spark.deploy.master.Master --host {self.address} --port {port} "
            f"--webui-port {find_port()}",
            host=self.address,
            prefix=self.prefix,
        )
        self._running.append(master)
        wait_for(self._folder / "master.log", "I have been elected leader", master)
        for name in self.names:
            self.start(name)

    @property
    def prefix(self) -> list[str]:
        """What runs a command with a file system of its own."""
        return ["unshare", "--mount", "sh", "-c", self._script, "private"]

    def _address_of(self, number: int) -> str:
        return f"{self._net}.{number + 2}"

    def start(self, name: str) -> None:
        """Start the Spark worker of a host that has nothing on its disk."""
        address = self._address_of(self.names.index(name))
        log = self._folder / f"{name}.log"
        log.unlink(missing_ok=True)
        self._workers[name] = start_class(
            self._folder,
            name,
            f"org.apache.spark.deploy.worker.Worker --host {address} --cores 1 "
            f"--memory 1g --webui-port 8081 --work-dir /tmp/work {self.url}",
            host=address,
            prefix=["ip", "netns", "exec", name, *self.prefix],
        )
        wait_for(log, "Successfully registered", self._workers[name])

    def kill(self, name: str) -> None:
        """Kill all that runs on a host; its disk goes with it. Another one takes over."""
        found = subprocess.run(
            ["ip", "netns", "pids", name], capture_output=True, text=True, check=True
        )
        for pid in found.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        self._workers[name].wait()
        self.start(name)

    def close(self) -> None:
        """Stop all that runs, and remove the namespaces."""
        stop([*self._running, *self._workers.values()])
        for name in self.names:
            with contextlib.suppress(NoCluster):
                _ip("netns", "del", name)
        with contextlib.suppress(NoCluster):
            _ip("link", "del", self._own)


@contextmanager
def hosts(folder: Path, shared: Path, count: int = 2) -> Iterator[Hosts]:
    """Run a cluster on hosts that share nothing but what they reach by the network."""
    if os.geteuid() != 0 or not shutil.which("ip") or sys.platform != "linux":
        msg = "hosts of their own need root and ip (iproute2)"
        raise NoCluster(msg)
    for path in (folder, shared):
        path.mkdir(parents=True, exist_ok=True)
    made = Hosts(folder, shared, count)
    try:
        made.open()
        yield made
    finally:
        made.close()


def _ip(*arguments: str) -> None:
    done = subprocess.run(
        ["ip", *arguments], capture_output=True, text=True, check=False
    )
    if done.returncode:
        msg = f"ip {' '.join(arguments)}: {done.stderr.strip()}"
        raise NoCluster(msg)
