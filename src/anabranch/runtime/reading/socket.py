"""Read the lines that a server sends.

The end of a connection is the end of the stream, and what stands behind the last line
end is the last row, as in a file. A connection that breaks off is an error. With
`reconnect` neither ends the stream: the server is called again until it answers, and
a row that was cut off is refused by itself.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from typing import Any

from anabranch.errors import InputError
from anabranch.graph.graph import Op
from anabranch.graph.sources import Socket
from anabranch.runtime.failures import Failure, OnError
from anabranch.runtime.reading.live import LiveReader
from anabranch.runtime.reading.reader import refusal_at
from anabranch.runtime.reading.rows import BadRow, Position, Unreadable
from anabranch.runtime.reading.rowtext import RowText
from anabranch.runtime.reading.splits import count_rows, first_rows, last_row_end

_CONNECT_S = 10.0
_RETRY_S = 0.2
_BLOCK_BYTES = 1 << 20


class Lines:
    """Whole rows as they arrive on a socket, as bytes."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, Socket)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._on_error = on_error
        self._place = f"{op.kind.host}:{op.kind.port}"
        self.text = RowText(op.kind, self._place)
        self.row = 1  # the number of the next one
        self._over = False  # nothing more arrives
        self._connection: socket.socket | None = None
        self._retry_s = 0.0
        self._held = b""

    @property
    def ended(self) -> bool:
        """Whether all has been taken that will ever arrive."""
        return self._over and not self._held

    def take(self, most: int, wait_s: float) -> tuple[bytes, int, int]:
        """Return rows that have arrived: the bytes, their first number, how many."""
        while self._held.count(b"\n") < most and self._receive(wait_s):
            wait_s = 0.0
        end = len(self._held)
        if not self._over:
            end = last_row_end(self._held, self.text.layout)
        data = first_rows(self._held[:end], most, self.text.layout)
        self._held = self._held[len(data) :]
        first, rows = self.row, count_rows(data, self.text.layout)
        self.row += rows
        return data, first, rows

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._over = True

    def refusal(self, bad: BadRow) -> Failure:
        """Return the failure of a line that cannot be read."""
        where = f"line {bad.at.row} from {self._place}"
        return refusal_at(self._op, where, bad, "correct what is sent")

    def _receive(self, wait_s: float) -> bool:
        """Take in what has arrived, or wait for it; tell whether there was something."""
        if self._over or not self._connected(wait_s):
            return False
        assert self._connection is not None  # noqa: S101
        if not select.select([self._connection], [], [], wait_s)[0]:
            return False
        try:
            block = self._connection.recv(_BLOCK_BYTES)
        except OSError as error:
            self._broke_off(error)
            return False
        self._held += block
        if not block:
            self._hung_up()
        return bool(block)

    def _connected(self, wait_s: float) -> bool:
        if self._connection is not None:
            return True
        now_s = time.monotonic()
        if now_s < self._retry_s:
            time.sleep(min(wait_s, self._retry_s - now_s))
            return False
        place = self._kind.host, self._kind.port
        try:
            self._connection = socket.create_connection(place, _CONNECT_S)
        except OSError as error:
            if not self._kind.reconnect:
                msg = (
                    f"source {self._op.name!r} ({self._op.site}) must find a server at "
                    f"{self._place}; {error}; start the server first, or say "
                    f"reconnect=True to wait for it"
                )
                raise InputError(msg) from error
            self._retry_s = now_s + _RETRY_S
        return self._connection is not None

    def _hung_up(self) -> None:
        self.close()
        if self._kind.reconnect:
            self._call_again()

    def _broke_off(self, error: OSError) -> None:
        self.close()
        if not self._kind.reconnect:
            msg = (
                f"the connection to {self._place} must end with the stream; it broke "
                f"off after row {self.row - 1}: {error}; say reconnect=True to go on "
                f"when the server is back ({self._op.name!r}, {self._op.site})"
            )
            raise InputError(msg) from error
        self._call_again()

    def _call_again(self) -> None:
        """Go on with a new connection; a row that was cut off is none."""
        self._over = False
        self._retry_s = time.monotonic() + _RETRY_S
        end = last_row_end(self._held, self.text.layout)
        whole, cut_off = self._held[:end], self._held[end:]
        self._held = whole
        if cut_off:
            number = self.row + count_rows(whole, self.text.layout)
            error = Unreadable("must be a whole line; the connection ended within it")
            raw = cut_off.decode("utf-8", "backslashreplace")
            self._on_error(self.refusal(BadRow(Position(number, number), raw, error)))


class SocketReader(LiveReader):
    """The items that a server sends, line by line."""

    def __init__(self, op: Op, on_error: OnError) -> None:
        self._lines = Lines(op, on_error)
        self._on_error = on_error
        self._name = op.name

    def poll(self, most: int, wait_s: float) -> list[tuple[Any, int]]:
        data, first, _ = self._lines.take(most, wait_s)
        self.ended = self._lines.ended
        return list(self._lines.text.parse(data, first, self._refuse))

    def where(self, number: int) -> str:
        return f"line {number} of {self._name}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
        self.ended = True

    def _refuse(self, bad: BadRow) -> None:
        self._on_error(self._lines.refusal(bad))
