"""A load as rows over a real connection: each row knows when it was due, which is its birth.

Latency is then the age of a row when the sink gets it, by the clock of the sink: all rows
count, from the first one on, with whatever the start of the program costs them.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import anabranch as ab


class Sent(NamedTuple):
    """A row: its number in the load, its key, and when it was due, since 1970."""

    n: int
    key: int
    born: float


class SentLoad:
    """Sends the rows of a load when they are due, once somebody has connected."""

    def __init__(self, load: Any, keys: Sequence[int] = (0,)) -> None:
        self.began_s = 0.0  # when the first row was due
        self._load = load
        self._keys = keys
        self._server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._send, daemon=True).start()

    def stream(self) -> ab.Stream:
        """Return the stream of the rows."""
        return ab.socket("127.0.0.1", self._server.getsockname()[1], Sent)

    def _send(self) -> None:
        connection, _ = self._server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, self._server:
            began_s = self.began_s = time.time() + 0.01
            n, due_s, keys = 0, self._load.due_s, self._keys
            while n < len(due_s):
                time.sleep(max(0.0, began_s + due_s[n] - time.time()))
                rows, now_s = [], time.time() - began_s
                while n < len(due_s) and due_s[n] <= now_s:
                    row = Sent(n, keys[n % len(keys)], began_s + due_s[n])
                    rows.append(json.dumps(row._asdict()).encode())
                    n += 1
                if rows:
                    connection.sendall(b"\n".join(rows) + b"\n")
