"""Only who knows the secret of a job can talk to its processes."""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import threading

import pytest

from anabranch.epochs.resident import link
from anabranch.epochs.resident.link import Listener, StrangerError, connect

HOST = "127.0.0.1"
SECRET = b"s" * 32


@pytest.fixture
def met():
    return queue.SimpleQueue()


@pytest.fixture
def listener(met):
    made = Listener(HOST, SECRET, met.put)
    yield made
    made.close()


@pytest.fixture
def ends(listener, met):
    """Both ends of a connection."""
    here = connect((HOST, listener.port), SECRET)
    there = met.get(timeout=10)
    yield here, there
    here.close()
    there.close()


@pytest.mark.parametrize("size", [0, 1, 1 << 16, (1 << 22) + 1])
def test_frames_arrive_as_they_were_sent(ends, size):
    here, there = ends
    blobs = [os.urandom(size), b"", os.urandom(3)]

    def send():
        here.send(("first", 1), blobs)
        here.send("second")
        here.close()

    threading.Thread(target=send).start()

    frames = [(data, list(map(bytes, views))) for data, views in there.frames()]
    assert [(("first", 1), blobs), ("second", [])] == frames


def test_who_does_not_know_the_secret_is_refused(listener, met):
    with pytest.raises(StrangerError):
        connect((HOST, listener.port), b"another")

    assert met.empty()


def test_a_listener_that_does_not_know_the_secret_is_refused(met):
    other = Listener(HOST, b"another", met.put)

    with pytest.raises(StrangerError):
        connect((HOST, other.port), SECRET)
    other.close()


class Trap:
    """Tells that it was unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


def test_nothing_of_a_stranger_is_unpickled(listener, met, tmp_path):
    sprung = tmp_path / "sprung"
    with socket.create_connection((HOST, listener.port)) as stranger:
        stranger.sendall(pickle.dumps(Trap(str(sprung))) * 100)
        stranger.settimeout(10)
        with contextlib.suppress(ConnectionError):
            while stranger.recv(1 << 16):
                pass

    assert met.empty()
    assert not sprung.exists()


def test_the_answer_to_one_challenge_does_not_fit_another(listener, met, monkeypatch):
    """A stranger that records one handshake and repeats its words is refused."""
    said = []
    sign = link._sign
    with monkeypatch.context() as patch:
        patch.setattr(link, "_sign", lambda *of: said.append(sign(*of)) or said[-1])
        connect((HOST, listener.port), SECRET).close()
        met.get(timeout=10).close()
    with socket.create_connection((HOST, listener.port)) as stranger:
        stranger.sendall(bytes(32))
        stranger.recv(32)
        stranger.sendall(said[0])

        stranger.settimeout(10)
        assert b"" == stranger.recv(1 << 10)[32:]
    assert met.empty()


def test_who_says_nothing_keeps_nobody_waiting(listener, met):
    with socket.create_connection((HOST, listener.port)):
        connect((HOST, listener.port), SECRET).close()

        met.get(timeout=5).close()


def test_frames_end_where_a_connection_breaks_off(ends):
    here, there = ends
    here.send("whole")
    here._socket.sendall(b"\x05")
    here.close()

    assert [("whole", [])] == list(there.frames())
