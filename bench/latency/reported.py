"""Reported latency against a measurement of our own, on real sources, also beyond capacity.

    anabranch bench latency/reported [local] [spark] [--turns 5] [--seconds 4]

The sender writes into each row when it was sent, and the sink looks at the clock. Socket,
directory and Kafka (the broker of librdkafka, or `ANABRANCH_KAFKA`), at 0.5, 0.9 and 1.5 of
what one replica can do: reported p50 and p99 are to be within 10% of the true ones, or 2 ms,
which is what the times of messages and files tell. All items count, from birth. Each turn
runs every source at every load for 4 s (`--seconds`); the claim is the median over the turns
of how far the worst of a turn is off. Five turns (`--turns`) take five minutes on local; a
turn on Spark takes three.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import anabranch as ab
from bench.harness.timing import Claim, Table, report, sized

SERVICE_S = 0.005
LOADS = (0.5, 0.9, 1.5)  # of what one replica can do
SHARES = {"p50": 0.5, "p99": 0.99}
NEAR = 0.1
CLOCK_MS = 2.0  # times of files and messages are in whole ms
STEP_S = 0.25  # from file to file
PATIENCE_S = 120.0


class Row(NamedTuple):
    """A row that knows when it was sent."""

    number: int
    born: float


@ab.declare(state="stateless")
def wait(row: Row) -> Row:
    """Take as long as a call of a server."""
    time.sleep(SERVICE_S)
    return row


def send_on_time(
    count: int, rate: float, send: Callable[[list[bytes]], object]
) -> None:
    """Send rows when they are due; those that have become due meanwhile together."""
    began_s = time.time() + 0.05
    number = 0
    while number < count:
        pause_s = began_s + number / rate - time.time()
        if pause_s > 0:
            time.sleep(pause_s)
        born_s = time.time()
        due = min(count, 1 + int((born_s - began_s) * rate))
        rows = [
            json.dumps({"number": n, "born": born_s}).encode()
            for n in range(number, max(due, number + 1))
        ]
        send(rows)
        number += len(rows)


class BySocket:
    """Rows over a connection."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))

    def source(self) -> ab.Stream:
        """Return the stream of the rows."""
        return ab.socket("127.0.0.1", self._server.getsockname()[1], Row)

    def send(self, count: int, rate: float) -> None:
        """Send so many rows at a rate."""
        connection, _ = self._server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, self._server:
            send_on_time(
                count, rate, lambda rows: connection.sendall(b"\n".join(rows) + b"\n")
            )


class ByDirectory:
    """Rows in files that appear one after the other; a row is born with its file."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp())

    def source(self) -> ab.Stream:
        """Return the stream of the rows."""
        return ab.read_jsonl(self._folder, Row, follow=True)

    def send(self, count: int, rate: float) -> None:
        """Write so many rows at a rate."""
        number, due_s = 0, time.time() + 0.05
        while number < count:
            time.sleep(max(0.0, due_s - time.time()))
            rows = range(number, min(count, number + int(rate * STEP_S)))
            hidden = self._folder / f".{number:06}"
            born_s = time.time()
            lines = [json.dumps({"number": n, "born": born_s}) for n in rows]
            hidden.write_text("\n".join(lines) + "\n")
            os.utime(hidden, (born_s, born_s))
            hidden.rename(self._folder / f"{number:06}.jsonl")
            number, due_s = rows.stop, due_s + STEP_S


class ByKafka:
    """Rows as messages, which have the time at which they were sent."""

    def __init__(self) -> None:
        import confluent_kafka  # noqa: PLC0415 - who asks for it has it

        self._servers = os.environ.get("ANABRANCH_KAFKA", "")
        settings: dict[str, Any] = {"log_level": 2}
        if self._servers:
            settings["bootstrap.servers"] = self._servers
        else:
            settings["test.mock.num.brokers"] = 1
        self._producer = confluent_kafka.Producer(settings)
        if not self._servers:
            found = self._producer.list_topics(timeout=30).brokers.values()
            self._servers = ",".join(f"{one.host}:{one.port}" for one in found)
        self._topic = f"reported-{uuid.uuid4().hex[:8]}"
        self._producer.list_topics(self._topic, timeout=30)  # makes it

    def source(self) -> ab.Stream:
        """Return the stream of the rows."""
        return ab.kafka(self._servers, self._topic, Row, format="jsonl")

    def send(self, count: int, rate: float) -> None:
        """Send so many rows at a rate."""
        send_on_time(count, rate, self._produce)

    def _produce(self, rows: list[bytes]) -> None:
        for row in rows:
            self._producer.produce(self._topic, row, partition=0)
        self._producer.flush(30)


SENDERS: dict[str, Callable[[], Any]] = {
    "socket": BySocket,
    "directory": ByDirectory,
    "kafka": ByKafka,
}


class Compared(NamedTuple):
    """The latency of a run as the sink saw it, and as it was reported, in ms."""

    items: int
    reported_items: int
    true_ms: dict[str, float]
    reported_ms: dict[str, float]

    def find_off(self) -> dict[str, float]:
        """Return by which share of the true latency the reported one is off.

        What is within the precision of clocks and threads is not off.
        """
        return {
            name: 0.0
            if abs(self.reported_ms[name] - true) <= CLOCK_MS
            else abs(self.reported_ms[name] / true - 1)
            for name, true in self.true_ms.items()
        }


def compare(kind: str, load: float, seconds: float, **options: Any) -> Compared:
    """Run a source at a load; return what the sink saw, and what was reported."""
    sender = SENDERS[kind]()
    rate = load / SERVICE_S
    count = int(rate * seconds)
    ages_s: list[float] = []
    program = sender.source().map(wait)
    sink = program.for_each(lambda row: ages_s.append(time.time() - row.born))
    sending = threading.Thread(target=sender.send, args=(count, rate), daemon=True)
    if options["on"] == "local":
        sending.start()
        job = ab.start(sink, degree=1, **options)
    else:  # whose start is not what is measured
        job = ab.start(sink, **options)
        sending.start()
    until_s = time.monotonic() + PATIENCE_S
    while len(ages_s) < count or job.metrics().latency.items < count:
        if job.wait(timeout=0.01) or time.monotonic() > until_s:
            break
    found = job.metrics().latency
    job.stop()
    sending.join(PATIENCE_S)
    true_ms = {
        name: 1000 * float(np.quantile(ages_s, share)) for name, share in SHARES.items()
    }
    reported = {"p50": found.p50_ms, "p99": found.p99_ms}
    return Compared(len(ages_s), found.items, true_ms, reported)


def measure_turn(engine: str, seconds: float) -> dict[tuple[str, float], Compared]:
    """Compare all sources at all loads on an engine, once."""
    options = {"master": "local[2]"} if engine == "spark" else {}
    found = {}
    for kind in SENDERS:
        for load in LOADS:
            found[kind, load] = compare(kind, load, seconds, on=engine, **options)
            print(engine, kind, load, found[kind, load], flush=True)
    return found


def make_rows(
    engine: str, turns: Sequence[dict[tuple[str, float], Compared]]
) -> list[list[Any]]:
    """Return the medians over the turns, a line for each source, load and share."""
    rows: list[list[Any]] = []
    for kind, load in turns[0]:
        ones = [turn[kind, load] for turn in turns]
        for name in SHARES:
            middle = [
                statistics.median(values)
                for values in (
                    [one.true_ms[name] for one in ones],
                    [one.reported_ms[name] for one in ones],
                    [100 * one.find_off()[name] for one in ones],
                )
            ]
            rows.append([engine, kind, load, name, *middle])
    return rows


def claim_of(engine: str, turns: Sequence[dict[tuple[str, float], Compared]]) -> Claim:
    """Return the claim that what is reported is near what is true, in every cell."""
    worst = [
        max(off for one in turn.values() for off in one.find_off().values())
        for turn in turns
    ]
    return Claim(
        f"reported latency off by, {engine}",
        statistics.median(worst),
        min(worst),
        max(worst),
        unit="share",
        at_most=NEAR,
        remark=f"the worst of {len(turns[0])} sources and loads, p50 and p99; "
        f"{len(turns)} turns",
    )


def main() -> None:
    """Compare on the engines that were asked for."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("engines", nargs="*", choices=["local", "spark", []])
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=sized(4.0, 2.0))
    given = parser.parse_args()
    engines = given.engines or ["local"]
    rows, claims = [], []
    for engine in engines:
        turns = [measure_turn(engine, given.seconds) for _ in range(given.turns)]
        rows += make_rows(engine, turns)
        claims.append(claim_of(engine, turns))
    head = ["engine", "source", "load", "share", "true ms", "reported ms", "off by %"]
    report(
        " ".join(["reported", *engines]),
        {"rows": rows},
        claims=claims,
        tables=[Table("reported and true latency, medians", head, rows)],
    )


if __name__ == "__main__":
    main()
