"""Read a connection ahead, so that it is known when each byte arrived.

Rows that wait in the kernel have no birth that anybody could ask for. A thread takes
them out as they come, up to a bound; beyond it the connection is left alone, and the
sender has to wait.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from time import perf_counter
from typing import NamedTuple

MOST_BYTES = 1 << 26  # that are kept
BLOCK_BYTES = 1 << 16


class Arrived(NamedTuple):
    """Bytes that arrived together; none of them: the other side has hung up."""

    data: bytes
    at_s: float  # by `time.perf_counter`


class ReadAhead:
    """A connection, and what has arrived on it."""

    def __init__(self, connection: socket.socket, most_bytes: int = MOST_BYTES) -> None:
        connection.settimeout(None)
        self._connection = connection
        self._most_bytes = most_bytes
        self._blocks: deque[Arrived] = deque()
        self._kept = 0
        self._rows = 0
        self._closed = False
        self._failure: OSError | None = None
        self._changed = threading.Condition()
        self._thread = threading.Thread(
            target=self._receive_all, name="anabranch-reading-ahead", daemon=True
        )
        self._thread.start()

    @property
    def rows(self) -> int:
        """How many lines end in what has not been taken."""
        return self._rows

    def take(self, wait_s: float) -> Arrived | None:
        """Return the next bytes, or wait for them; None if there are none.

        Raises what the connection broke off with, behind all that came before it.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._failure, wait_s)
            if not self._blocks:
                if self._failure is not None:
                    raise self._failure
                return None
            block = self._blocks.popleft()
            self._kept -= len(block.data)
            self._rows -= block.data.count(b"\n")
            self._changed.notify_all()
            return block

    def close(self) -> None:
        """Hang up; nothing is taken any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):  # the other side was faster
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes whoever receives
        self._connection.close()

    def _receive_all(self) -> None:
        data = b" "
        while data:
            try:
                data = self._connection.recv(BLOCK_BYTES)
            except OSError as error:
                with self._changed:
                    self._failure = error
                    self._changed.notify_all()
                return
            with self._changed:
                self._blocks.append(Arrived(data, perf_counter()))
                self._kept += len(data)
                self._rows += data.count(b"\n")
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: self._closed or self._kept < self._most_bytes
                )
                if self._closed:
                    return
