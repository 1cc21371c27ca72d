"""Authenticated connections between the processes of a job.

Both ends prove that they know the job's secret before anything received is parsed. The
secret travels with the engine's job, under whatever protection the engine gives it.
After that a connection carries frames: some data of ours, and the bytes of any number of
blobs, without copies.
"""

from __future__ import annotations

import contextlib
import hmac
import pickle
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

Address: TypeAlias = tuple[str, int]

HANDSHAKE_S = 10.0  # time allowed for the other end to authenticate
CONNECT_S = 10.0
_NONCE_BYTES = 32
_CLIENT, _SERVER = b"client", b"server"
_LENGTHS = struct.Struct("<QQ")  # of the data, and of all blobs
_SMALL_BYTES = 1 << 16  # frames up to this are put together and sent at once


class StrangerError(ConnectionError):
    """The other end of a connection does not know the secret of the job."""


class LostError(ConnectionError):
    """A process of the job is gone, and with it its part of the running epochs."""


class Link:
    """A connection whose other end knows the secret; any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._sending = threading.Lock()

    @property
    def own_host(self) -> str:
        """The address of this host as seen from the other end."""
        host: str = self._socket.getsockname()[0]
        return host

    def send(self, data: Any, blobs: Sequence[Any] = ()) -> None:
        """Send a frame."""
        views = [memoryview(blob) for blob in blobs]
        sizes = [view.nbytes for view in views]
        told = pickle.dumps((data, sizes), pickle.HIGHEST_PROTOCOL)
        whole = sum(sizes)
        head = _LENGTHS.pack(len(told), whole) + told
        with self._sending:
            if whole <= _SMALL_BYTES:
                self._socket.sendall(b"".join([head, *views]))
                return
            self._socket.sendall(head)
            for view in views:
                self._socket.sendall(view)

    def frames(self) -> Iterator[tuple[Any, list[memoryview]]]:
        """Yield the frames of the other end, until it closes the connection."""
        with contextlib.suppress(OSError):
            while True:
                lengths = self._receive(_LENGTHS.size)
                if lengths is None:
                    return
                told, blobs = map(self._receive, _LENGTHS.unpack(lengths))
                if told is None or blobs is None:
                    return
                data, sizes = pickle.loads(told)
                views, start = [], 0
                for size in sizes:
                    views.append(blobs[start : start + size])
                    start += size
                yield data, views

    def _receive(self, size: int) -> memoryview | None:
        """Return `size` bytes; None if the connection ends first."""
        view = memoryview(bytearray(size))
        filled = 0
        while filled < size:
            count = self._socket.recv_into(view[filled:])
            if count == 0:
                return None
            filled += count
        return view

    def close(self) -> None:
        """Close the connection; its readers reach the end."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class Listener:
    """Accepts connections to this process, and passes on those that authenticate."""

    def __init__(self, host: str, secret: bytes, met: Callable[[Link], None]) -> None:
        self._secret = secret
        self._met = met
        self._socket = socket.create_server((host, 0))
        threading.Thread(target=self._accept, name="accept", daemon=True).start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        port: int = self._socket.getsockname()[1]
        return port

    def close(self) -> None:
        """Stop accepting."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                # A silent peer must not block others.
                threading.Thread(
                    target=self._meet, args=(connection,), name="meet", daemon=True
                ).start()

    def _meet(self, connection: socket.socket) -> None:
        try:
            link = _shake_hands(connection, self._secret, _SERVER, _CLIENT)
        except OSError:
            connection.close()
        else:
            self._met(link)


def connect(address: Address, secret: bytes) -> Link:
    """Return a connection to a listener that knows the secret too."""
    connection = socket.create_connection(address, CONNECT_S)
    try:
        return _shake_hands(connection, secret, _CLIENT, _SERVER)
    except OSError:
        connection.close()
        raise


def _shake_hands(
    connection: socket.socket, secret: bytes, mine: bytes, theirs: bytes
) -> Link:
    """Have both ends prove that they know the secret, without sending it.

    Each sends a nonce, and signs both nonces.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(HANDSHAKE_S)
    nonce = secrets.token_bytes(_NONCE_BYTES)
    connection.sendall(nonce)
    other = _read_exactly(connection, _NONCE_BYTES)
    both = {mine: (nonce, other), theirs: (other, nonce)}
    connection.sendall(_sign(secret, mine, *both[mine]))
    expected = _sign(secret, theirs, *both[theirs])
    if not hmac.compare_digest(expected, _read_exactly(connection, len(expected))):
        msg = "the other end of a connection must know the secret of the job"
        raise StrangerError(msg)
    connection.settimeout(None)
    return Link(connection)


def _sign(secret: bytes, who: bytes, *nonces: bytes) -> bytes:
    return hmac.digest(secret, who + b"".join(nonces), "sha256")


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        some = connection.recv(size - len(found))
        if not some:
            msg = "the other end of a connection has closed it before it was known"
            raise StrangerError(msg)
        found += some
    return found
