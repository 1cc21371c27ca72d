"""Lines to and from a server.

Reading: the end of the connection is the end of the stream, and the text after the last
line end is the last row, as in a file. A broken connection is an error. With
`reconnect` neither ends the stream: the connection is retried until the server answers,
and a truncated row is refused. A thread reads the connection ahead, so that the arrival
time of each row is known, up to a bound; beyond it the sender has to wait.

Writing: a socket gives no receipt. When the connection breaks, it is unknown which
lines have arrived. So that is an error; a job that resumes from a checkpoint sends the
last epoch again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple
from weakref import WeakKeyDictionary

from anabranch.connectors.base import Malformed, Sink, Source
from anabranch.connectors.files.rows import Unreadable
from anabranch.connectors.files.splits import last_row_end, rows_in
from anabranch.connectors.files.values import find_row_faults
from anabranch.connectors.lines import LineEncoder, decoder_of
from anabranch.errors import InputError, OutputError
from anabranch.operators.sources import RowFormat

MOST_BYTES = 1 << 26  # that are kept
BLOCK_BYTES = 1 << 16


class Arrived(NamedTuple):
    """Bytes that arrived together; empty: the peer has closed the connection."""

    data: bytes
    at_s: float  # since 1970


class ReadAhead:
    """A connection, and the bytes that have arrived on it."""

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
        """The number of line ends in bytes not taken yet."""
        return self._rows

    def wait(self, at_most_s: float) -> None:
        """Wait until bytes have arrived, or the connection has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._blocks or self._failure, at_most_s)

    def take(self) -> Arrived | None:
        """Return the next bytes; None if there are none.

        Raises the error of a broken connection after everything received before it.
        """
        with self._changed:
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
        """Close the connection; nothing is taken any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        with contextlib.suppress(OSError):  # the peer was faster
            self._connection.shutdown(socket.SHUT_RDWR)  # wakes the receiving thread
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
                self._blocks.append(Arrived(data, time.time()))
                self._kept += len(data)
                self._rows += data.count(b"\n")
                self._changed.notify_all()
                self._changed.wait_for(
                    lambda: self._closed or self._kept < self._most_bytes
                )
                if self._closed:
                    return


class Line(NamedTuple):
    """A row of a server: its number, its bytes, and their arrival time since 1970."""

    number: int
    data: bytes
    at_s: float


@dataclass(eq=False)
class SocketSource(Source):
    """The lines that a server sends; a position is the number of rows read.

    The lines of a server are sent once: a job that resumes from a checkpoint reads
    those that arrive from then on.
    """

    host: str
    port: int
    type: Any
    format: RowFormat
    delimiter: str = ","
    reconnect: bool = False

    label: ClassVar[str] = "socket"
    live = True

    def read(self, partition: str, position: int | None) -> Iterator[tuple[Any, int]]:
        if self not in _connections:
            _connections[self] = Connection(self, position or 0)
        connection = _connections[self]
        while (row := connection.next_row()) is not None:
            yield row, connection.rows_read

    def decode(self, rows: Sequence[Line]) -> list[Any]:
        def where(index: int) -> str:
            return f"line {rows[index].number} from {self.place}"

        lines = [row.data for row in rows]
        return decoder_of(self, self.place).decode(lines, where, whole=True)

    def find_faults(self, type: Any) -> Iterator[tuple[str, str]]:
        return find_row_faults(self.format, type, self.delimiter)

    def has_ended(self) -> bool:
        return self in _connections and _connections[self].ended

    def born_s(self, row: Line) -> float:
        return row.at_s

    def wait(self, at_most_s: float) -> None:
        if self in _connections:
            _connections[self].wait(at_most_s)

    def count_waiting(self, positions: Mapping[str, Any]) -> int:
        return _connections[self].waiting if self in _connections else 0

    def addresses(self) -> list[tuple[str, int]]:
        return [(self.host, self.port)]

    def close(self) -> None:
        if self in _connections:
            _connections.pop(self).close()

    @property
    def place(self) -> str:
        """The address of the server."""
        return f"{self.host}:{self.port}"


_connections: WeakKeyDictionary[SocketSource, Connection] = WeakKeyDictionary()
_CONNECT_S = 10.0
_RETRY_S = 0.2


class Connection:
    """Whole rows as they arrive from a server."""

    def __init__(self, source: SocketSource, rows_read: int) -> None:
        self._source = source
        self._layout = decoder_of(source, source.place).layout
        self.rows_read = rows_read
        self._over = False  # nothing more arrives
        self._ahead: ReadAhead | None = None
        self._retry_s = 0.0
        self._held = b""  # the beginning of a row
        self._rows: deque[Line | Malformed] = deque()

    @property
    def waiting(self) -> int:
        """The number of rows that have arrived and were not read."""
        return len(self._rows) + (0 if self._ahead is None else self._ahead.rows)

    @property
    def ended(self) -> bool:
        """Whether all rows that will ever arrive have been read."""
        return self._over and not self._rows

    def next_row(self) -> Line | Malformed | None:
        """Return the next row that has arrived, if there is one."""
        while not self._rows and self._receive():
            pass
        if not self._rows:
            return None
        self.rows_read += 1
        return self._rows.popleft()

    def wait(self, at_most_s: float) -> None:
        """Wait for the next bytes, or for the time to reconnect."""
        if self._ahead is not None:
            self._ahead.wait(at_most_s)
        else:
            left_s = self._retry_s - time.monotonic()
            time.sleep(max(0.0, min(at_most_s, left_s)))

    def close(self) -> None:
        """Close the connection."""
        if self._ahead is not None:
            with contextlib.suppress(OSError):
                self._ahead.close()
            self._ahead = None
        self._over = True

    def _receive(self) -> bool:
        """Receive what has arrived; tell whether there was something."""
        if self._over or not self._connect():
            return False
        assert self._ahead is not None  # noqa: S101
        try:
            block = self._ahead.take()
        except OSError as error:
            self._break_off(error)
            return False
        if block is None:
            return False
        self._held += block.data
        if not block.data:
            self._hang_up()
        elif b"\n" in block.data:
            self._find_rows(last_row_end(self._held, self._layout), block.at_s)
        return True

    def _find_rows(self, end: int, at_s: float) -> None:
        """Make rows of the buffered bytes up to `end`."""
        first = self.rows_read + len(self._rows) + 1
        rows = rows_in(self._held[:end], self._layout)
        self._rows.extend(Line(n, row, at_s) for n, row in enumerate(rows, first))
        self._held = self._held[end:]

    def _connect(self) -> bool:
        if self._ahead is not None:
            return True
        now_s = time.monotonic()
        if now_s < self._retry_s:
            return False
        place = self._source.host, self._source.port
        try:
            self._ahead = ReadAhead(socket.create_connection(place, _CONNECT_S))
        except OSError as error:
            if not self._source.reconnect:
                msg = (
                    f"must find a server at {self._source.place}; {error}; start the "
                    f"server first, or say reconnect=True to wait for it"
                )
                raise InputError(msg) from error
            self._retry_s = now_s + _RETRY_S
        return self._ahead is not None

    def _hang_up(self) -> None:
        self.close()
        if self._source.reconnect:
            self._call_again()
        else:  # a last row may lack its line end
            self._find_rows(len(self._held), time.time())

    def _break_off(self, error: OSError) -> None:
        self.close()
        if not self._source.reconnect:
            msg = (
                f"must be sent the whole stream; the connection to {self._source.place} "
                f"broke off after row {self.rows_read}: {error}; use reconnect=True "
                "to continue when the server is back"
            )
            raise InputError(msg) from error
        self._call_again()

    def _call_again(self) -> None:
        """Reconnect; a truncated row is dropped."""
        self._over = False
        self._retry_s = time.monotonic() + _RETRY_S
        if self._held:
            error = Unreadable("must be a whole line; the connection ended within it")
            raw = self._held.decode("utf-8", "backslashreplace")
            number = self.rows_read + len(self._rows) + 1
            where = f"line {number} from {self._source.place}"
            self._rows.append(Malformed(raw, error, where, "correct what is sent"))
            self._held = b""


_REACH_S = 10.0


@dataclass(eq=False)
class SocketSink(Sink):
    """A connection to a listening server."""

    host: str
    port: int
    format: RowFormat

    label: ClassVar[str] = "to_socket"

    def __post_init__(self) -> None:
        self._lines = LineEncoder(self.format, None)
        self._connection: socket.socket | None = None
        self._data = b""

    def open(self, job: str, type: Any) -> None:
        self._lines = LineEncoder(self.format, type)
        try:
            self._connection = socket.create_connection(
                (self.host, self.port), _REACH_S
            )
            self._connection.settimeout(None)
        except OSError as error:
            raise self._describe_failure(error, "must find a server") from error

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        lines, refused = self._lines.encode_all(items)
        self._data = b"".join(line + b"\n" for _, line in lines)
        return refused

    def commit(self, epoch: int) -> None:
        assert self._connection is not None  # noqa: S101
        try:
            self._connection.sendall(self._data)
        except OSError as error:
            raise self._describe_failure(error, "must be heard to the end") from error

    def addresses(self) -> list[tuple[str, int]]:
        return [(self.host, self.port)]

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _describe_failure(self, error: OSError, must: str) -> OutputError:
        return OutputError(
            f"{must} at {self.host}:{self.port}; {error}; start the server "
            f"first, and keep it running"
        )
