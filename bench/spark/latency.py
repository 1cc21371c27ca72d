"""Keyed VWAP from a socket at 1,000 trades a second, under a latency goal of 200 ms.

    anabranch bench spark/latency [--runs N] [--seconds N] [--beside PEER]

Counted from when a trade was sent to when the sink has its price; the first half of a run
warms up and is not counted. That all prices come, and in order, is checked. A peer, such as
pyflink, is measured in turn with the same feed; it has its environment in out/peers, which
is made by the first run (bench/peers). Its prices are not checked.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from bench.harness.timing import Claim, claim, ratio, report, sized
from bench.peers.contestants import PEERS
from bench.peers.environments import python_of, version_of
from bench.peers.live import PER_S, feed, latency, percentiles
from bench.peers.running import Runner

AT_MOST_MS = {"p50_ms": 50, "p99_ms": 150}
AT_MOST_OF_PYFLINK = {"p50_ms": 1 / 3, "p99_ms": 1 / 2}
PATIENCE_S = 120.0

JOB = """
import sys, time
import anabranch as ab
from bench.harness.trades import Trade, running_vwap
port, target = int(sys.argv[1]), sys.argv[2]
with open(target, "w") as file:
    trades = ab.socket("127.0.0.1", port, Trade, format="csv")
    prices = trades.key_by("symbol").scan(running_vwap, (0.0, 0))
    note = lambda price: file.write(f"{price.ts},{time.time_ns()}\\n")
    goal = ab.latency("200 ms")
    ab.run(prices.for_each(note), on="spark", master="local[2]", goal=goal, ui=False)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=sized(30.0, 4.0))
    live = [name for name, peer in PEERS.items() if peer.live is not None]
    parser.add_argument("--beside", choices=live, help="a peer, in the same run")
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    seconds = arguments.seconds
    with tempfile.TemporaryDirectory(prefix="anabranch-latency-") as folder:
        beside = None if arguments.beside is None else start(arguments.beside, folder)
        ours, theirs = [], []
        for _ in range(arguments.runs):
            ours.append(measure(seconds))
            if beside is not None:
                theirs.append(latency(beside, Path(folder), seconds))
    results: dict[str, Any] = {}
    claims: list[Claim] = []
    for name, at_most in AT_MOST_MS.items():
        of_runs = results[name] = sorted(one[name] for one in ours)
        claims.append(
            Claim(
                f"latency from a socket, {name}",
                statistics.median(of_runs),
                of_runs[0],
                of_runs[-1],
                at_most=at_most,
                unit="ms",
            )
        )
        if beside is not None:
            peer = (
                f"{beside.peer.name} {version_of(beside.peer, beside.python)}".strip()
            )
            results[f"{name}, {peer}"] = [one[name] for one in theirs]
            over = ratio([one[name] for one in ours], [one[name] for one in theirs])
            target = AT_MOST_OF_PYFLINK[name] if arguments.beside == "pyflink" else None
            what = f"latency from a socket, {name} over that of {peer}"
            claims.append(claim(what, over, at_most=target))
    report("latency", results, arguments.json, claims=claims)


def start(name: str, folder: str) -> Runner:
    """Return what runs a peer, whose environment is made if need be."""
    python = python_of(PEERS[name], name, Path("out/peers").resolve())
    return Runner(PEERS[name], python, Path(folder), PATIENCE_S)


def measure(seconds: float) -> dict[str, float]:
    """Return the percentiles of one run, whose prices are all there and in order."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        server.settimeout(PATIENCE_S)
        target = Path(folder) / "seen"
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", JOB, port, str(target)]
        job = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.getcwd()})  # noqa: PTH109
        link, _ = server.accept()
        feeder = threading.Thread(target=feed, args=(link, seconds))
        feeder.start()
        feeder.join()
        job.wait(PATIENCE_S)
        sent = [int(line.split(",")[0]) for line in target.read_text().splitlines()]
        if len(sent) != int(PER_S * seconds) or sent != sorted(sent):
            msg = f"{len(sent)} prices came, or not in order"
            raise ValueError(msg)
        return percentiles(target, seconds)


if __name__ == "__main__":
    main()
