"""Anabranch beside its peers: four jobs, each peer in an environment of its own.

    anabranch bench peers [--trades N] [--runs N] [--peers A,B] [--jobs A,B] [--write]

All peers take turns within a job; `live` is the one that latency is measured with. A
peer that cannot be installed, or that fails, is reported in its row, and the others go
on. Results are kept in out/peers.json; `--add` keeps what other jobs found before, so
that a long comparison can be made in parts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.harness.timing import claim, ratio, report, sized
from bench.harness.trades import make_trades, plain
from bench.peers.checking import verdict
from bench.peers.contestants import PEERS
from bench.peers.counting import lines_of
from bench.peers.environments import (
    PROGRAMS,
    NotInstallableError,
    python_of,
    version_of,
)
from bench.peers.live import latency
from bench.peers.page import tables_of, write_page
from bench.peers.running import PeerFailedError, Resident, Runner

JOBS = ("chain", "vwap", "window", "heavy")  # those that all peers have
HEAVY_ROWS = 40_000
SMALL_ROWS = 1_000
LIVE = "live"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "peers.md"


def main() -> None:
    arguments = parsed()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # peers are ended, too
    folder = Path(tempfile.mkdtemp(prefix="anabranch-peers-"))
    try:
        bench = Bench(arguments, folder)
        results = bench.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    kept = Path(arguments.json)
    if arguments.add and kept.exists():
        results = merged(json.loads(kept.read_text(encoding="utf-8")), results)
    kept.parent.mkdir(parents=True, exist_ok=True)
    tables = tables_of(results)
    report("peers", results, arguments.json, claims=claims_of(results), tables=tables)
    if arguments.write:
        command = " ".join(["anabranch bench peers", *sys.argv[1:]])
        write_page(PAGE, results, command)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--trades", type=int, default=sized(500_000, 20_000))
    parser.add_argument("--runs", type=int, default=sized(5, 1))
    parser.add_argument("--peers", default=",".join(PEERS), help="separated by commas")
    jobs = [*JOBS, LIVE]
    parser.add_argument("--jobs", default=",".join(jobs), help="separated by commas")
    parser.add_argument("--seconds", type=float, default=sized(20.0, 8.0))
    parser.add_argument("--all-rows", action="store_true", help="for slow ones, too")
    parser.add_argument("--timeout", type=float, default=600.0, help="of one run, s")
    parser.add_argument("--environments", default="out/peers")
    parser.add_argument("--json", default="out/peers.json", help="for the results")
    parser.add_argument("--add", action="store_true", help="to results that are there")
    parser.add_argument("--write", action="store_true", help="write docs/peers.md")
    found = parser.parse_args()
    for given, known in ((found.peers, PEERS), (found.jobs, jobs)):
        for name in set(given.split(",")) - set(known):
            parser.error(f"{name!r} is none of {', '.join(known)}")
    return found


class Bench:
    """One comparison: its files, and what was found so far."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments = arguments
        self.folder = folder
        self.keys = arguments.peers.split(",")
        self.runners: dict[str, Runner] = {}
        self.missing: dict[str, str] = {}
        self.targets = itertools.count()
        self.residents: dict[str, Resident] = {}
        self.ending = ExitStack()
        self.small = make_trades(folder / "small.csv", SMALL_ROWS)

    def run(self) -> dict[str, Any]:
        environments = Path(self.arguments.environments).resolve()
        names = {}
        for key in self.keys:
            peer = PEERS[key]
            names[key] = peer.name
            try:
                python = python_of(peer, key, environments)
            except NotInstallableError as error:
                self.missing[key] = f"not installable here: {error}"
                continue
            names[key] = f"{peer.name} {version_of(peer, python)}".strip()
            self.runners[key] = Runner(
                peer, python, self.folder, self.arguments.timeout
            )
        with self.ending:
            chosen = self.arguments.jobs.split(",")
            jobs = {job: self.job(job) for job in JOBS if job in chosen}
        return {
            "jobs": jobs,
            "latency": self.latencies() if LIVE in chosen else {},
            "peers": names,
            "cores": os.cpu_count(),
        }

    def job(self, job: str) -> dict[str, Any]:
        """Return what each peer did with a job."""
        found: dict[str, Any] = {
            key: {"error": why, "lines": lines_of(PROGRAMS / PEERS[key].program, job)}
            for key, why in self.missing.items()
        }
        most = self.arguments.trades if job != "heavy" else HEAVY_ROWS
        most = min(most, self.arguments.trades)
        for key, runner in self.runners.items():
            limit = None if self.arguments.all_rows else runner.peer.most_rows
            rows = min(most, limit or most)
            found[key] = {
                "rows": rows,
                "fewer": rows < most,
                "rates": [],
                "start_up_s": [],
                "lines": lines_of(PROGRAMS / runner.peer.program, job),
            }
            if runner.peer.resident:
                self.warm(key, job, found[key])
        for number in range(self.arguments.runs):
            for key in self.runners:
                if "error" not in found[key]:
                    self.measure(key, job, number, found[key])
        return {key: found[key] for key in self.keys}

    def warm(self, key: str, job: str, found: dict[str, Any]) -> None:
        """Let a resident peer run the job once; start it if it is not there."""
        started_s = time.perf_counter()
        there = key in self.residents
        try:
            if not there:
                self.show(key, job, "starts")
                resident = self.ending.enter_context(self.runners[key].resident())
                self.residents[key] = resident
            self.residents[key].ask(job, self.small, self.target())
            if not there:
                found["start_up_s"].append(time.perf_counter() - started_s)
            self.residents[key].ask(job, self.source(found["rows"]), self.target())
        except PeerFailedError as error:
            self.fail(key, job, error, found)

    def fail(
        self, key: str, job: str, error: PeerFailedError, found: dict[str, Any]
    ) -> None:
        """Note a failure. A resident peer is not trusted any more: a new one starts."""
        found["error"] = f"failed: {error}"
        self.show(key, job, found["error"])
        self.residents.pop(key, None)

    def measure(self, key: str, job: str, number: int, found: dict[str, Any]) -> None:
        """Add one run of a peer to what was found."""
        source, target = self.source(found["rows"]), self.target()
        try:
            if key in self.residents:
                steady_s = self.residents[key].ask(job, source, target)
                if PEERS[key].begins_anew:
                    small_s = self.residents[key].ask(job, self.small, self.target())
                    steady_s = max(steady_s - small_s, 1e-3)
            else:
                runner = self.runners[key]
                seen = runner.without_start(job, source, target, self.small)
                found["start_up_s"].append(seen.start_up_s)
                steady_s = seen.steady_s
        except PeerFailedError as error:
            self.fail(key, job, error, found)
            return
        found["rates"].append(found["rows"] / steady_s)
        if number == 0:
            found["verdict"] = verdict(self.expected(job, found["rows"]), target)
        said = f"{found['rates'][-1]:,.0f}/s; {found['verdict']}"
        self.show(key, job, f"run {number + 1} of {self.arguments.runs}: {said}")
        self.clear(target)

    def latencies(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, runner in self.runners.items():
            if runner.peer.live is None:
                continue
            self.show(key, "live", "starts")
            try:
                found[key] = latency(runner, self.folder, self.arguments.seconds)
            except PeerFailedError as error:
                found[key] = {"error": f"failed: {error}"}
            self.show(key, "live", str(found[key]))
        return found

    def source(self, rows: int) -> Path:
        path = self.folder / f"trades-{rows}.csv"
        return path if path.exists() else make_trades(path, rows)

    def expected(self, job: str, rows: int) -> Path:
        path = self.folder / f"expected-{job}-{rows}.csv"
        if not path.exists():
            plain(job, self.source(rows), 0, rows, path)
        return path

    def target(self) -> Path:
        """Return where the next run writes: nothing is there."""
        return self.folder / f"target-{next(self.targets)}"

    def clear(self, target: Path) -> None:
        for path in self.folder.glob(f"{target.name}*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()

    def show(self, key: str, job: str, said: str) -> None:
        print(f"peers: {job}: {key}: {said}", file=sys.stderr, flush=True)


def merged(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return what was found before, with what is found now in its place."""
    jobs = {
        job: {**before["jobs"].get(job, {}), **now["jobs"].get(job, {})} for job in JOBS
    }
    peers = {**before["peers"], **now["peers"]}
    return {
        **now,
        "jobs": {job: found for job, found in jobs.items() if found},
        "latency": {**before["latency"], **now["latency"]},
        "peers": {key: peers[key] for key in PEERS if key in peers},
    }


def claims_of(results: dict[str, Any]) -> list[Any]:
    """Return how our engine stands to each peer that gives the same, in each job."""
    claims = []
    for job, found in results["jobs"].items():
        ours = found.get("anabranch", {}).get("rates", [])
        for key, theirs in found.items():
            if key.startswith("anabranch") or not ours:
                continue
            if not theirs.get("rates") or len(theirs["rates"]) != len(ours):
                continue
            ahead = job == "vwap" and key.startswith("bytewax")
            claims.append(
                claim(
                    f"{job}: anabranch on Spark over {results['peers'][key]}",
                    ratio(ours, theirs["rates"]),
                    at_least=1.0 if ahead else None,
                    remark=f"theirs: {theirs['verdict']}",
                )
            )
    return claims


if __name__ == "__main__":
    main()
