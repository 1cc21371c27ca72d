"""Keyed VWAP from a socket at 1,000 trades a second, under a latency goal of 200 ms.

    anabranch bench spark/latency [--runs N] [--seconds N]

Counted from when a trade was sent to when the sink has its price; the first half of a run
warms up and is not counted. That all prices come, and in order, is checked.
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

from bench.harness.timing import Claim, report, sized
from bench.peers.live import PER_S, feed, percentiles

AT_MOST_MS = {"p50_ms": 50, "p99_ms": 150}
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
    parser.add_argument("--json", help="write the results to this file")
    arguments = parser.parse_args()
    found = [measure(arguments.seconds) for _ in range(arguments.runs)]
    results: dict[str, Any] = {}
    claims: list[Claim] = []
    for name, at_most in AT_MOST_MS.items():
        of_runs = sorted(one[name] for one in found)
        middle = statistics.median(of_runs)
        results[name] = of_runs
        claims.append(
            Claim(
                f"latency from a socket, {name}",
                middle,
                of_runs[0],
                of_runs[-1],
                at_most=at_most,
                unit="ms",
            )
        )
    report("latency", results, arguments.json, claims=claims)


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
