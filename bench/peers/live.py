"""Latency: trades come at a steady rate from a socket, and results are noted.

The `ts` of a trade is when it was sent; the program notes it with the time at which its
sink has the result. The first half is not counted: it is there to warm up.
"""

from __future__ import annotations

import random
import socket
import statistics
import threading
import time
from contextlib import suppress
from pathlib import Path

from bench.harness.trades import SYMBOLS
from bench.peers.running import PeerFailedError, Runner

PER_S = 1000
PATIENCE_S = 120.0  # until the program has connected


def latency(runner: Runner, folder: Path, seconds: float) -> dict[str, float]:
    """Return the median and the 99th percentile in milliseconds."""
    assert runner.peer.live is not None
    target = folder / "live.csv"
    target.unlink(missing_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        port = server.getsockname()[1]
        command = runner.command(runner.peer.live, port=port, target=target)
        with runner.started(command) as process:
            try:
                link, _ = server.accept()
            except TimeoutError:
                msg = f"did not connect: {runner.last_words()}"
                raise PeerFailedError(msg) from None
            feeder = threading.Thread(target=feed, args=(link, seconds))
            feeder.start()
            feeder.join()
            with suppress(Exception):
                process.wait(3)
            if not target.exists():
                raise PeerFailedError(runner.last_words())
    return percentiles(target, seconds)


def feed(link: socket.socket, seconds: float) -> None:
    """Send trades; one that is late does not make the next ones late."""
    rng = random.Random(7)
    started_s = time.perf_counter()
    with link, suppress(OSError):
        for number in range(int(PER_S * seconds)):
            wait_s = started_s + number / PER_S - time.perf_counter()
            if wait_s > 0:
                time.sleep(wait_s)
            symbol, volume = rng.randrange(SYMBOLS), rng.randrange(1, 1000)
            line = f"{time.time_ns()},S{symbol:04},{100 + rng.random():.2f},{volume}\n"
            link.sendall(line.encode())
        time.sleep(min(seconds / 4, 5.0))  # for those who are behind


def percentiles(target: Path, seconds: float) -> dict[str, float]:
    """Return what the noted times come to, without the first half."""
    pairs = [
        (int(sent), int(seen))
        for sent, _, seen in (
            line.partition(",") for line in target.read_text().splitlines()
        )
    ]
    start_ns = min(sent for sent, _ in pairs) + int(seconds / 2 * 1e9)
    waits_ms = [(seen - sent) / 1e6 for sent, seen in pairs if sent >= start_ns]
    if len(waits_ms) < 100:
        msg = f"only {len(waits_ms)} results in the second half"
        raise PeerFailedError(msg)
    cuts = statistics.quantiles(waits_ms, n=100)
    return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2)}
