"""Lines to and from a server, and the parser of rows that arrive as text.

`RowText` parses lines of a socket and messages of a topic with the parsers of files;
only their places are named differently.

Reading: the end of the connection is the end of the stream, and the text behind the last
line end is the last row, as in a file. A connection that breaks off is an error. With
`reconnect` neither ends the stream: the server is called again until it answers, and a
row that was cut off is refused. The connection is read ahead by a thread, so that the
arrival time of each row is known, up to a bound; beyond it the sender has to wait.

Writing: a socket gives no receipt. When the connection breaks, nobody can tell which
lines have arrived. So that is an error; a job that goes on from a checkpoint sends the
last epoch again.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from anabranch.connectors.base import Malformed, Sink
from anabranch.connectors.external import LineEncoder
from anabranch.connectors.files.opening import row_parser
from anabranch.connectors.files.rows import (
    BadRow,
    Position,
    Refuse,
    RowParser,
    Unreadable,
)
from anabranch.connectors.files.splits import (
    RowFormat,
    count_rows,
    first_rows,
    last_row_end,
    layout_of,
)
from anabranch.connectors.reader import LiveReader, refusal_at
from anabranch.errors import InputError, OutputError
from anabranch.graph.graph import Op
from anabranch.operators.sinks import ToSocket
from anabranch.operators.sources import Kafka, ReadFiles, Socket
from anabranch.runtime.births import births_of
from anabranch.runtime.failures import Failure, OnError

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


class RowText:
    r"""Parses the rows of a source that sends text.

    >>> kind = Socket("localhost", 9999, int, "jsonl")
    >>> list(RowText(kind, "here").parse(b"1\n2\n", 1, print))
    [(1, 1), (2, 2)]
    """

    def __init__(self, kind: Socket | Kafka, place: str) -> None:
        """Prepare for rows of a source; `place` names it in errors about its type."""
        same = ReadFiles(
            place, kind.format, kind.type, header=False, delimiter=kind.delimiter
        )
        self.layout: RowFormat = layout_of(same)
        self._blank_rows = kind.format == "text"
        self._joins = kind.format != "csv"
        self._parser: RowParser = row_parser(same, None, Path(place))

    def parse(
        self, data: bytes, first: int, refuse: Refuse
    ) -> Iterator[tuple[Any, int]]:
        """Give the items of whole rows, numbered from `first`."""
        yield from self._parser.parse(data, Position(first, first), refuse)

    def messages(
        self, values: Sequence[bytes | None], numbers: Sequence[int], refuse: Refuse
    ) -> list[tuple[Any, int]]:
        """Return the items of messages, each of which is one row."""
        plain = [value for value in values if value is not None and b"\n" not in value]
        if (
            self._joins
            and len(plain) == len(values)
            and (self._blank_rows or all(plain))
        ):
            places = []
            bad: list[BadRow] = []
            for item, index in self.parse(b"\n".join(plain) + b"\n", 0, bad.append):
                places.append((item, numbers[index]))
            for one in bad:
                at = Position(numbers[one.at.row], 1)
                refuse(BadRow(at, one.raw, one.error))
            return places
        found: list[tuple[Any, int]] = []
        for value, number in zip(values, numbers, strict=True):
            found += self._message(value, number, refuse)
        return found

    def _message(
        self, value: bytes | None, number: int, refuse: Refuse
    ) -> list[tuple[Any, int]]:
        if value is None or not (value or self._blank_rows):
            empty = Unreadable("must have a value; it is empty")
            refuse(BadRow(Position(number, 1), value, empty))
            return []
        if self._joins:  # within JSON a newline is white space
            value = value.replace(b"\n", b" ")
        bad: list[BadRow] = []
        found = list(self.parse(value, number, bad.append))
        if len(found) + len(bad) == 1:
            for one in bad:
                refuse(one)
            return found
        several = Unreadable(f"must be one row; it is {len(found) + len(bad)}")
        refuse(BadRow(Position(number, 1), value, several))
        return []


_CONNECT_S = 10.0
_RETRY_S = 0.2


class Lines:
    """Whole rows as they arrive on a socket, as bytes.

    `arrivals` tells of the rows last taken when how many of them had arrived.
    """

    def __init__(self, op: Op, on_error: OnError) -> None:
        assert isinstance(op.kind, Socket)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._on_error = on_error
        self._place = f"{op.kind.host}:{op.kind.port}"
        self.text = RowText(op.kind, self._place)
        self.row = 1  # the number of the next one
        self._over = False  # nothing more arrives
        self._connection: ReadAhead | None = None
        self._retry_s = 0.0
        self._held = b""
        self._ends: deque[tuple[int, float]] = deque()  # of the lines that are held
        self.arrivals: list[tuple[int, float]] = []

    @property
    def waiting(self) -> int:
        """How many rows have arrived and were not taken."""
        ahead = 0 if self._connection is None else self._connection.rows
        return ahead + sum(count for count, _ in tuple(self._ends))

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
        self.arrivals = self._pass_ends(data.count(b"\n"), rows)
        return data, first, rows

    def _pass_ends(self, lines: int, rows: int) -> list[tuple[int, float]]:
        """Return when how many of some rows arrived; a row is there when its end is."""
        found: list[tuple[int, float]] = []
        while lines > 0 and self._ends:
            count, at_s = self._ends.popleft()
            if count > lines:
                self._ends.appendleft((count - lines, at_s))
            found.append((min(count, lines), at_s))
            lines -= count
        if rows and not found:  # the last one, without an end
            found = [(rows, time.perf_counter())]
        return found

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
        if self._over or not self._connect(wait_s):
            return False
        assert self._connection is not None  # noqa: S101
        try:
            block = self._connection.take(wait_s)
        except OSError as error:
            self._broke_off(error)
            return False
        if block is None:
            return False
        self._held += block.data
        if lines := block.data.count(b"\n"):
            self._ends.append((lines, block.at_s))
        if not block.data:
            self._hung_up()
        return bool(block.data)

    def _connect(self, wait_s: float) -> bool:
        if self._connection is not None:
            return True
        now_s = time.monotonic()
        if now_s < self._retry_s:
            time.sleep(min(wait_s, self._retry_s - now_s))
            return False
        place = self._kind.host, self._kind.port
        try:
            connection = socket.create_connection(place, _CONNECT_S)
            self._connection = ReadAhead(connection)
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
        self.births = births_of([at_s for _, at_s in self._lines.arrivals])
        return list(self._lines.text.parse(data, first, self._refuse))

    def count_arrivals(self) -> int:
        return self._lines.row - 1 + self._lines.waiting

    def where(self, number: int) -> str:
        return f"line {number} of {self._name}"

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._lines.close()
        self.ended = True

    def _refuse(self, bad: BadRow) -> None:
        self._on_error(self._lines.refusal(bad))


_REACH_S = 10.0


class SocketSink(Sink):
    """A connection to a server."""

    def __init__(self, kind: ToSocket) -> None:
        self._kind = kind
        self._lines = LineEncoder(kind.format, None)
        self._connection: socket.socket | None = None
        self._data = b""

    def open(self, job: str, type: Any) -> None:
        self._lines = LineEncoder(self._kind.format, type)
        try:
            place = self._kind.host, self._kind.port
            self._connection = socket.create_connection(place, _REACH_S)
            self._connection.settimeout(None)
        except OSError as error:
            raise self._describe_failure(error, "must find a server") from error

    def write(self, items: Sequence[Any]) -> list[Malformed]:
        lines, refused = self._lines.all_encoded(items)
        self._data = b"".join(line + b"\n" for _, line in lines)
        return refused

    def commit(self, epoch: int) -> None:
        assert self._connection is not None  # noqa: S101
        try:
            self._connection.sendall(self._data)
        except OSError as error:
            raise self._describe_failure(error, "must be heard to the end") from error

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _describe_failure(self, error: OSError, must: str) -> OutputError:
        return OutputError(
            f"{must} at {self._kind.host}:{self._kind.port}; {error}; start the server "
            f"first, and keep it running"
        )
