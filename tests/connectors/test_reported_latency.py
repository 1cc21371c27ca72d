"""Reported latency against a measurement of our own, on real sources and under overload.

What is measured here knows nothing of the metrics: the sender writes into each row when
it was sent, and the sink looks at the clock. A program that falls behind must not look as
if it kept up, and one that keeps up must not look late.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import anabranch as ab
from tests.connectors.waiting import until

SERVICE_S = 0.005
SECONDS = 4.0
LOADS = (0.5, 0.9, 1.5)  # of what one replica can do
NEAR = 0.1
CLOCK_MS = 12.0  # times of files and messages are in ms, and threads wake up late


class Row(NamedTuple):
    number: int
    born: float


def wait(row: Row) -> Row:
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

    def __init__(self, tmp_path, request) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))

    def source(self) -> ab.Stream:
        return ab.socket("127.0.0.1", self.server.getsockname()[1], Row)

    def send(self, count: int, rate: float) -> None:
        connection, _ = self.server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, self.server:
            send_on_time(
                count, rate, lambda rows: connection.sendall(b"\n".join(rows) + b"\n")
            )


class ByDirectory:
    """Rows in files that appear one after the other; a row is born with its file."""

    def __init__(self, tmp_path, request) -> None:
        self.folder = tmp_path / "in"
        self.folder.mkdir()

    def source(self) -> ab.Stream:
        return ab.read_jsonl(self.folder, Row, follow=True)

    def send(self, count: int, rate: float) -> None:
        step_s, number = 0.25, 0
        due_s = time.time() + 0.05
        while number < count:
            time.sleep(max(0.0, due_s - time.time()))
            rows = range(number, min(count, number + int(rate * step_s)))
            hidden = self.folder / f".{number:06}"
            born_s = time.time()
            lines = [json.dumps({"number": n, "born": born_s}) for n in rows]
            hidden.write_text("\n".join(lines) + "\n")
            os.utime(hidden, (born_s, born_s))
            hidden.rename(self.folder / f"{number:06}.jsonl")
            number, due_s = rows.stop, due_s + step_s


class ByKafka:
    """Rows as messages, which have the time at which they were sent."""

    def __init__(self, tmp_path, request) -> None:
        self.broker = request.getfixturevalue("broker")
        self.topic = self.broker.topic()
        self.broker._producer.list_topics(self.topic, timeout=30)  # makes it

    def source(self) -> ab.Stream:
        return ab.kafka(self.broker.servers, self.topic, Row, format="jsonl")

    def send(self, count: int, rate: float) -> None:
        send_on_time(count, rate, lambda rows: self.broker.send(self.topic, rows))


SENDERS = {"socket": BySocket, "directory": ByDirectory, "kafka": ByKafka}


@pytest.mark.long
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", SENDERS)
def test_percentiles_are_within_a_tenth_of_what_the_sink_sees(
    kind, load, tmp_path, request
):
    sender = SENDERS[kind](tmp_path, request)
    rate = load / SERVICE_S
    count = int(rate * SECONDS)
    ages_s: list[float] = []
    slow = ab.declare(state="stateless")(wait)
    program = sender.source().map(slow)
    sink = program.for_each(lambda row: ages_s.append(time.time() - row.born))
    sending = threading.Thread(target=sender.send, args=(count, rate), daemon=True)
    sending.start()

    job = ab.start(sink, on="local", degree=1)
    until(job, lambda: len(ages_s) == count)
    reported = job.metrics().latency
    job.stop()
    sending.join()

    assert count == reported.items
    for share, found_ms in ((0.5, reported.p50_ms), (0.99, reported.p99_ms)):
        own_ms = float(np.quantile(ages_s, share)) * 1000
        assert found_ms == pytest.approx(own_ms, rel=NEAR, abs=CLOCK_MS), share
