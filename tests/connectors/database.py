"""A Postgres server for tests: on loopback, with a directory that goes away with it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

_USERS = ("postgres", "nobody")  # the server refuses to run as root


class NoServerError(Exception):
    """There is no Postgres here; the message says why."""


class Database:
    """A server that runs."""

    def __init__(self) -> None:
        self._bin = _programs()
        self._user = _user()
        self._directory = Path(tempfile.mkdtemp(prefix="anabranch-postgres-"))
        if self._user is not None:
            os.chown(self._directory, self._user.pw_uid, self._user.pw_gid)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.dsn = f"host=127.0.0.1 port={port} user=tester dbname=postgres"
        self._run("initdb", "-D", "data", "-U", "tester", "-A", "trust", "-E", "UTF8")
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off "
            f"-c unix_socket_directories={self._directory}"
        )
        self._start = ("-D", "data", "-w", "-l", "log", "-o", options, "start")
        self.start()

    def start(self) -> None:
        self._run("pg_ctl", *self._start)

    def stop(self) -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        as_user = {}
        if self._user is not None:
            as_user = {
                "user": self._user.pw_uid,
                "group": self._user.pw_gid,
                "extra_groups": [],
            }
        done = subprocess.run(
            [str(self._bin / program), *arguments],
            cwd=self._directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.defpath, "LC_ALL": "C"},
            check=False,
            **as_user,
        )
        if done.returncode:
            msg = f"{program} failed: {done.stderr.strip()}"
            raise NoServerError(msg)


def _programs() -> Path:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb")
    for place in [*versions, *([Path(found).parent] if found else [])]:
        if (place / "initdb").exists() and (place / "pg_ctl").exists():
            return place
    msg = "initdb and pg_ctl are not here; Debian: apt-get install postgresql"
    raise NoServerError(msg)


def _user() -> pwd.struct_passwd | None:
    """Return who runs the server: None for ourselves, unless we are root."""
    if os.getuid():
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    for name in _USERS:
        if name in known:
            return known[name]
    msg = f"the server does not run as root, and there is no user {' or '.join(_USERS)}"
    raise NoServerError(msg)
