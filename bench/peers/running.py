"""Start a peer's program, time it, and end it, whatever it does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench.peers.contestants import Peer
from bench.peers.environments import PROGRAMS, variables_of

ANSWER = "@peer "  # as programs/talk.py has it


class PeerFailedError(Exception):
    """A peer's program failed or took too long; the message has its last words."""


@dataclass
class Measured:
    """The seconds of one run."""

    start_up_s: float
    steady_s: float


@dataclass
class Runner:
    """Runs the jobs of one peer, each in a process group of its own."""

    peer: Peer
    python: str
    folder: Path
    timeout_s: float

    def command(self, parts: tuple[str, ...], **named: object) -> list[str]:
        known = {
            "python": self.python,
            "bin": str(Path(self.python).parent),
            "program": str(PROGRAMS / self.peer.program),
            "port": free_port(),
            **named,
        }
        return [part.format(**known) for part in parts]

    def once(self, job: str, source: Path, target: Path) -> Measured:
        """Run a job in processes of its own."""
        started_s = time.time()
        ended_s = self._end_of(job, source, target)
        noted = Path(f"{target}.began")
        began_s = started_s
        if noted.exists():
            began_s = max(map(float, noted.read_text().split()))  # all are there
        return Measured(began_s - started_s, ended_s - began_s)

    def without_start(
        self, job: str, source: Path, target: Path, small: Path
    ) -> Measured:
        """Run a job; where its beginning is not noted, take off what a small one takes."""
        if self.peer.resident:
            msg = "a resident peer is asked, not started"
            raise ValueError(msg)
        whole = self.once(job, source, target)
        if whole.start_up_s > 0:
            return whole
        least = self.once(job, small, target.with_name(target.name + "-small"))
        return Measured(least.steady_s, max(whole.steady_s - least.steady_s, 1e-9))

    def _end_of(self, job: str, source: Path, target: Path) -> float:
        named = {"job": job, "source": source, "target": target}
        with self.started(self.command(self.peer.command, **named)) as process:
            try:
                code = process.wait(self.timeout_s)
            except subprocess.TimeoutExpired:
                msg = f"not done after {self.timeout_s:.0f} s"
                raise PeerFailedError(msg) from None
            ended_s = time.time()  # before whatever is left of it is ended
            if code != 0:
                raise PeerFailedError(self.last_words())
        return ended_s

    @property
    def log(self) -> Path:
        return self.folder / f"{self.peer.name}.log"

    def last_words(self) -> str:
        """Return the last line that the program wrote."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:200] if lines else "it failed without a word"

    @contextmanager
    def started(
        self, command: list[str], asked: int | None = None
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a program, and end it with all that it started."""
        with self.log.open("w") as log:
            process = subprocess.Popen(
                command,
                stdin=asked if asked is not None else subprocess.DEVNULL,
                stdout=asked if asked is not None else log,
                stderr=log,
                text=True,
                cwd=PROGRAMS,
                env=variables_of(self.peer, self.python),
                start_new_session=True,
            )
            try:
                yield process
            finally:
                end(process)

    @contextmanager
    def resident(self) -> Iterator[Resident]:
        """Start the program that runs jobs on demand."""
        command = [self.python, str(PROGRAMS / self.peer.program), "serve"]
        with self.started(command, subprocess.PIPE) as process:
            yield Resident(process, self)


@dataclass
class Resident:
    """A program that is there and can be asked to run a job."""

    process: subprocess.Popen[str]
    runner: Runner

    def ask(self, job: str, source: Path, target: Path) -> float:
        """Return how many seconds the job took it."""
        said, heard = self.process.stdin, self.process.stdout
        assert said is not None
        assert heard is not None
        late = threading.Timer(self.runner.timeout_s, end, [self.process])
        late.start()
        try:
            with suppress(BrokenPipeError):
                said.write(json.dumps([job, str(source), str(target)]) + "\n")
                said.flush()
            return self._answer(heard)
        finally:
            late.cancel()

    def _answer(self, heard: IO[str]) -> float:
        for line in heard:
            if line.startswith(ANSWER):
                return float(line.removeprefix(ANSWER))
        raise PeerFailedError(self.runner.last_words())


def end(process: subprocess.Popen[str]) -> None:
    """End a program's whole process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        os.killpg(process.pid, signal.SIGKILL)  # what is left, children too
    process.wait()


def free_port() -> int:
    """Return the first of a few ports that are free now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return min(port, 60_000)
