"""Exactly once, whoever is killed: `anabranch bench checkpoint/kill --points 200 [--cluster]`.

Runs a program with a checkpoint again and again, kills drivers, Python workers and (on
a cluster) executors with SIGKILL, at every phase of an epoch and at random moments,
starts the driver again until the program has ended, and compares every sink with that
of the sequential engine. Prints the number of kills and of differences, as JSON. With
`--store URL` input, outputs and checkpoints are in a store.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import anabranch as ab
from anabranch.connectors.storage import Location, locate, remove_tree
from anabranch.epochs.faults import IN_DRIVER, IN_WORKERS
from anabranch.epochs.state.restore import local_directory, name_states
from bench.checkpoint import kill_program
from bench.harness.timing import Claim, record
from bench.spark.cluster import cluster

ROWS, EPOCH_ITEMS = 1000, 200
EPOCHS = 5  # with rows; one or two more finish
AT_POINTS = 10  # kills at chosen points, in one run of the program
AT_RANDOM = {"worker": 5, "driver": 1}  # kills at random moments
NEW_HOST = 0.3  # how often a driver starts where no states are
WAIT_S = 900  # for a run of the program, on a busy machine


class Harness:
    """A JVM (or a cluster) in which one driver after another runs the program.

    What they read and write is where `place` says, by default in `folder`.
    """

    def __init__(
        self,
        folder: Path,
        master: str,
        seed: int,
        place: Callable[[str], str] | None = None,
    ) -> None:
        self.folder = folder
        self.prefix: list[str] = []  # what drivers are started by
        self.kill_host: Callable[[], None] | None = None
        self._place = place or (lambda name: str(folder / name))
        self.master = master
        self.random = random.Random(seed)
        self.killed: Counter[str] = Counter()
        self.hosts_lost = 0
        self.differences: list[str] = []
        self.log = (folder / "log").open("wb")
        self.faults = folder / "faults"
        self.faults.mkdir(exist_ok=True)
        os.environ["ANABRANCH_FAULTS"] = str(self.faults)
        self.trades = locate(self._place("trades.csv"))
        kill_program.write_trades(self.trades, ROWS)
        ab.run(
            *kill_program.sinks(str(self.trades), str(folder / "sequential")),
            on="sequential",
        )
        self.expected = kill_program.contents(folder / "sequential")
        self._environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}

    def set(self, name: str, value: str) -> None:
        """Set a variable of the environment of drivers."""
        self._environment[name] = value

    def share_jvm(self) -> None:
        """Start the JVM that all drivers join; it outlives them."""
        from anabranch.engines.spark.session import open_session  # noqa: PLC0415

        gateway = open_session(self.master).sparkContext._gateway  # noqa: SLF001
        parameters = gateway.gateway_parameters
        self._environment["PYSPARK_GATEWAY_PORT"] = str(parameters.port)
        self._environment["PYSPARK_GATEWAY_SECRET"] = parameters.auth_token

    def run(self, number: int, points: list[str], at_random: dict[str, int]) -> None:
        """Run the program to its end; `at_random` are kills of drivers and others."""
        folder = locate(self._place(f"run{number}"))
        for point in points:
            (self.faults / point).touch()
        waiting = [who for who, count in at_random.items() for _ in range(count)]
        self.random.shuffle(waiting)
        deadline = time.monotonic() + WAIT_S
        while True:
            if self.random.random() < NEW_HOST:
                self._lose_host(folder)
            driver = self._start(folder)
            status = self._watched(driver, waiting, deadline)
            if status == 0:
                break
            if status != -signal.SIGKILL:
                self.differences.append(
                    f"run {number}: the driver ended with {status}: "
                    + (self.folder / "log").read_text(errors="replace")[-5000:]
                )
                break
        left = {path.name for path in self.faults.iterdir()}
        for point in points:
            if point not in left:
                self.killed[point.partition(":")[0]] += 1
        for name in left:
            (self.faults / name).unlink()
        self._compare(number, folder, points)

    def _lose_host(self, folder: Location) -> None:
        """Take the local states away: the next driver runs on a host without them."""
        program = _checkpoint_of(folder) / "program.json"
        if program.exists():
            identity = json.loads(program.read_bytes())["identity"]
            place = program.parent
            place = place.resolve() if isinstance(place, Path) else place
            states = local_directory(name_states(identity, place))
            shutil.rmtree(states, ignore_errors=True)
            self.hosts_lost += 1

    def _start(self, folder: Location) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *self.prefix,
                sys.executable,
                kill_program.__file__,
                str(self.trades),
                str(folder),
                str(_checkpoint_of(folder)),
                f"--epoch-items={self.random.choice([EPOCH_ITEMS, EPOCH_ITEMS // 2])}",
                f"--degree={self.random.choice([1, 2, 3])}",
                f"--master={self.master}",
            ],
            env=self._environment,
            stderr=self.log,
        )

    def _watched(
        self, driver: subprocess.Popen[bytes], waiting: list[str], deadline: float
    ) -> int:
        """Wait for a driver, and kill at random moments until it ends."""
        while driver.poll() is None:
            if time.monotonic() > deadline:
                driver.send_signal(signal.SIGABRT)  # the log tells where it stood
                return driver.wait()
            time.sleep(self.random.uniform(0.05, 1.0))
            if not waiting or driver.poll() is not None:
                continue
            who = waiting[-1]
            if who == "host" and self.kill_host is not None:
                if find_processes("executor"):
                    self.kill_host()
                    self.killed["host at random"] += 1
                    waiting.pop()
                continue
            victims = [driver.pid] if who == "driver" else find_processes(who)
            if victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(victims), signal.SIGKILL)
                    self.killed[f"{who} at random"] += 1
                    waiting.pop()
        return driver.wait()

    def _compare(self, number: int, folder: Location, points: list[str]) -> None:
        try:
            found = kill_program.contents(folder)
        except (OSError, IndexError) as error:
            self.differences.append(f"run {number} {points}: {error}")
            return
        for sink, expected in self.expected.items():
            if found[sink] != expected:
                self.differences.append(f"run {number} {points}: {sink} differs")
        if not self.differences:
            remove_tree(folder)
            remove_tree(_checkpoint_of(folder))


def _checkpoint_of(folder: Location) -> Location:
    return folder.with_name(f"{folder.name}.checkpoint")


def find_processes(who: str) -> list[int]:
    """Return our Python workers, or our executors."""
    command = {
        "worker": b"spark.daemon\0pyspark.worker",
        "executor": b"CoarseGrainedExecutorBackend",
    }
    processes = _processes()
    ours = {os.getpid()}
    while new := {p for p, (parent, _) in processes.items() if parent in ours} - ours:
        ours |= new
    found = [p for p in ours if p in processes and command[who] in processes[p][1]]
    if who == "worker":  # not the daemon that forks them
        found = [p for p in found if processes[p][0] in found]
    return found


def _processes() -> dict[int, tuple[int, bytes]]:
    """Return parent and command of every process."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            status = (path / "stat").read_text().rpartition(")")[2].split()
            found[int(path.name)] = int(status[1]), (path / "cmdline").read_bytes()
        except OSError:  # it has ended
            continue
    return found


def chosen_points(rng: random.Random, count: int) -> list[str]:
    """Return places and epochs to be killed at; `*` is any epoch."""
    places = rng.sample([*IN_WORKERS, *IN_DRIVER], count)
    once = ("finished", "half-completed", "completed", "snapshot")
    return [
        f"{place}:*" if place in once else f"{place}:{rng.randrange(1, EPOCHS + 2)}"
        for place in places
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--cluster", action="store_true", help="kill executors too")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", metavar="URL", help="a directory of a store")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="anabranch-kill-") as name:
        folder = Path(name)
        with contextlib.ExitStack() as stack:
            place = given.store and (lambda name: str(locate(given.store) / name))
            harness = Harness(folder, "local[2]", given.seed, place)
            if given.cluster:
                harness.master = stack.enter_context(cluster(folder / "cluster"))
            else:
                harness.share_jvm()
            number = 0
            while harness.killed.total() < given.points and not harness.differences:
                points = chosen_points(harness.random, AT_POINTS)
                others = dict(AT_RANDOM)
                if given.cluster:
                    others["executor"] = 2
                harness.run(number, points, others)
                number += 1
                print(
                    f"run {number}: {harness.killed.total()} kills, "
                    f"{len(harness.differences)} differences, "
                    f"{time.monotonic() - began_s:.0f} s",
                    flush=True,
                )
    results = {
        "kills": harness.killed.total(),
        "by place": dict(sorted(harness.killed.items())),
        "runs": number,
        "hosts without states": harness.hosts_lost,
        "differences": harness.differences,
        "seconds": round(time.monotonic() - began_s),
    }
    print(json.dumps(results, indent=2))
    wrong = Claim(
        f"{results['kills']} kills: runs with another result",
        len(harness.differences),
        unit="runs",
        at_most=0,
    )
    record("kill", [wrong])
    if given.output is not None:
        given.output.write_text(json.dumps(results, indent=2), encoding="utf-8")
    sys.exit(1 if harness.differences else 0)


if __name__ == "__main__":
    main()
