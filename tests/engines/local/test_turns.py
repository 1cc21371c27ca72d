"""Several sources: in turn, or by arrival where one of them is live."""

from __future__ import annotations

import socket
import threading
import time

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.source_thread import Alone, ByArrival, InTurn, turns_of
from anabranch.language.drafts import build_graph
from tests.engines.local.shaking import ended, started


def graph(*sources):
    return build_graph([source.to_list() for source in sources])


def test_which_order_a_program_has():
    one, two = ab.from_iterable([1]), ab.from_iterable([2])
    live = ab.socket("localhost", 9, str)

    assert isinstance(turns_of(graph(one)), Alone)
    assert isinstance(turns_of(graph(live)), Alone)
    assert isinstance(turns_of(graph(one, two)), InTurn)
    assert isinstance(turns_of(graph(one, live)), ByArrival)


class Wire:
    """A server that sends what it is told to, to whoever connects."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.connected = threading.Event()
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        self.peer, _ = self.server.accept()
        self.connected.set()

    def send(self, text):
        assert self.connected.wait(30)
        self.peer.sendall(text.encode())

    def close(self):
        if self.connected.is_set():
            self.peer.close()
        self.server.close()


@pytest.fixture
def wire():
    made = Wire()
    yield made
    made.close()


def eventually(holds):
    deadline_s = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline_s, "it never came to that"
        time.sleep(0.001)


def test_nobody_waits_for_a_live_source(wire):
    numbers = ab.from_iterable([str(n) for n in range(100)])
    lines = ab.socket("127.0.0.1", wire.port, str)
    sink = ab.union(numbers, lines).to_list()
    run = started([sink], lambda *_: Configuration())

    eventually(lambda: len(sink.items) == 100)
    wire.send("a\n")
    eventually(lambda: len(sink.items) == 101)
    run.insert_port("union")
    wire.send("b\n")
    eventually(lambda: len(sink.items) == 102)
    wire.peer.close()
    ended(run)

    assert [*(str(n) for n in range(100)), "a", "b"] == sink.items
