"""An S3 server for tests: moto, on loopback, in an environment of its own.

Moto asks for other versions of packages than we do, so `make packages` installs it
beside ours. Workers of a Spark that runs already do not see the test's environment, so
the URL names the server.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pyarrow.fs

from tests.needs import SERVERS

_START_S = 60.0


def find_moto() -> str | None:
    """Return the program that serves S3, if it is installed."""
    return shutil.which("moto_server", path=str(SERVERS / "bin")) or (
        shutil.which("moto_server")
    )


class S3:
    """A server that runs, with one bucket, `trades`."""

    def __init__(self, program: str, host: str = "127.0.0.1") -> None:
        with socket.create_server((host, 0)) as free:
            port = free.getsockname()[1]
        self.endpoint = f"http://{host}:{port}"
        python = Path(program).with_name(
            "python"
        )  # scripts name where it was installed
        command = [str(python), "-m", "moto.server"] if python.exists() else [program]
        self._process = subprocess.Popen(
            [*command, "-H", host, "-p", str(port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._wait((host, port))
        self.files = pyarrow.fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
        )
        self.files.create_dir("trades")

    def url(self, key: str) -> str:
        """Return the URL of a key, with all that a worker has to know."""
        return f"s3://trades/{key}?region=us-east-1&endpoint_override={self.endpoint}"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()

    def _wait(self, address: tuple[str, int]) -> None:
        end_s = time.monotonic() + _START_S
        while time.monotonic() < end_s:
            try:
                socket.create_connection(address, timeout=1).close()
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise TimeoutError(self.endpoint)
