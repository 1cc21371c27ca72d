"""Stores on loopback: for S3 moto, for Azure Azurite, for Google fake-gcs-server.

Moto asks for other versions of packages than we do, so `make packages` installs it
beside ours. It is written in Python and takes milliseconds for a request, so what is
measured with it is moto. Where Go is installed, `make packages` also builds versitygw,
which keeps objects as files. Workers of a Spark that runs already do not see the test's
environment, so the URL names the server.

Where npm and Go are installed, `make packages` also installs the emulators of Azure and
Google Cloud Storage.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from pathlib import Path

import pyarrow.fs

from tests.connectors import gateway
from tests.needs import SERVERS

_START_S = 60.0
ACCOUNT = "devstoreaccount1"  # of all emulators of Azure
_REQUEST = re.compile(r"(GET|PUT|HEAD|POST|DELETE) \S+ HTTP")


def find_moto() -> str | None:
    """Return the program that serves S3, if it is installed."""
    return shutil.which("moto_server", path=str(SERVERS / "bin")) or (
        shutil.which("moto_server")
    )


def find_fast() -> str | None:
    """Return the program that serves S3 fast, if it is installed."""
    return shutil.which("versitygw", path=str(SERVERS / "bin")) or (
        shutil.which("versitygw")
    )


def find_azurite() -> str | None:
    """Return the program that serves Azure's blobs, if it is installed."""
    found = SERVERS / "node_modules" / ".bin"
    return shutil.which("azurite-blob", path=str(found))


def find_gcs() -> str | None:
    """Return the program that serves Google Cloud Storage, if it is installed."""
    return shutil.which("fake-gcs-server", path=str(SERVERS / "bin"))


class Store:
    """A server that runs, and keeps its files in a folder."""

    def __init__(self, program: str, host: str = "127.0.0.1") -> None:
        with socket.create_server((host, 0)) as free:
            port = free.getsockname()[1]
        self.program = Path(program).name
        self.address = f"{host}:{port}"
        self.endpoint = f"http://{self.address}"
        self._folder = Path(tempfile.mkdtemp(prefix="anabranch-store-"))
        self._log = self._folder / "requests.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._find_command(Path(program), host, port), stdout=log, stderr=log
            )
        self._wait((host, port))

    def _find_command(self, program: Path, host: str, port: int) -> list[str]:
        raise NotImplementedError

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

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


class Azure(Store):
    """Azurite, with one container, `trades`, in the account that all emulators have."""

    def __init__(self, program: str) -> None:
        super().__init__(program)
        files = pyarrow.fs.AzureFileSystem(
            ACCOUNT,
            account_key=os.environ["AZURE_STORAGE_ACCOUNT_KEY"],
            blob_storage_authority=self.address,
            blob_storage_scheme="http",
            dfs_storage_authority=self.address,
            dfs_storage_scheme="http",
        )
        files.create_dir("trades")

    def _find_command(self, program: Path, host: str, port: int) -> list[str]:
        place = ["--blobHost", host, "--blobPort", str(port)]
        options = ["--location", str(self._folder), "--skipApiVersionCheck"]
        return [str(program), *place, *options, "--disableTelemetry"]

    def url(self, key: str) -> str:
        """Return the URL of a key, with all that a worker has to know but the login."""
        container = f"abfs://trades@{ACCOUNT}.dfs.core.windows.net"
        return f"{container}/{key}?endpoint_override={self.address}&scheme=http"


class Google(Store):
    """fake-gcs-server behind a gateway, with one bucket, `trades`."""

    def __init__(self, program: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._public = f"127.0.0.1:{port}"
        super().__init__(program)
        # A process of its own: Arrow holds the lock of the interpreter while it waits.
        self._gateway = subprocess.Popen(
            [sys.executable, gateway.__file__, str(port), self.address]
        )
        self._wait(("127.0.0.1", port))
        self.address, self.endpoint = self._public, f"http://{self._public}"
        bucket = urllib.request.Request(
            f"{self.endpoint}/storage/v1/b?project=test",
            data=b'{"name": "trades"}',
            headers={"Content-Type": "application/json"},
        )
        urllib.request.urlopen(bucket).close()

    def _find_command(self, program: Path, host: str, port: int) -> list[str]:
        place = ["-scheme", "http", "-host", host, "-port", str(port)]
        return [
            str(program),
            "-backend",
            "memory",
            *place,
            "-public-host",
            self._public,
        ]

    def stop(self) -> None:
        self._gateway.terminate()
        self._gateway.wait()
        super().stop()

    def url(self, key: str) -> str:
        """Return the URL of a key, with all that a worker has to know."""
        options = f"endpoint_override={self.address}&scheme=http&anonymous=true"
        return f"gs://trades/{key}?{options}"


class S3(Store):
    """A server of S3, with one bucket, `trades`.

    Moto writes each request to a log, by which `count` counts them.
    """

    def __init__(self, program: str, host: str = "127.0.0.1") -> None:
        super().__init__(program, host)
        self.files = pyarrow.fs.S3FileSystem(
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
        )
        self.files.create_dir("trades")

    def _find_command(self, program: Path, host: str, port: int) -> list[str]:
        if program.name == "versitygw":
            stored = self._folder / "stored"
            stored.mkdir()
            login = {"access": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY"}
            given = [f"--{name}={os.environ[at]}" for name, at in login.items()]
            serve = ["--quiet", f"--port={host}:{port}"]
            return [str(program), *given, *serve, "posix", str(stored)]
        # Scripts name where they were installed.
        python = program.with_name("python")
        command = (
            [str(python), "-m", "moto.server"] if python.exists() else [str(program)]
        )
        return [*command, "-H", host, "-p", str(port)]

    def count(self) -> Counter[str]:
        """Return how many requests of each method moto has answered so far."""
        return Counter(_REQUEST.findall(self._log.read_text(errors="replace")))

    def url(self, key: str) -> str:
        """Return the URL of a key, with all that a worker has to know."""
        return f"s3://trades/{key}?region=us-east-1&endpoint_override={self.endpoint}"
