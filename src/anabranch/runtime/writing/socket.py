"""Send items as lines to a server that listens.

A socket gives no receipt: when the connection breaks, nobody can tell which lines have
arrived. So that is an error; a job that goes on from a checkpoint sends the last epoch
again.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import ToSocket
from anabranch.runtime.writing.external import External, LineEncoder, Refuse

_CONNECT_S = 10.0


class SocketSink(External):
    """A connection to a server."""

    def __init__(self, op: Op, item_type: Any) -> None:
        assert isinstance(op.kind, ToSocket)  # noqa: S101
        self._op = op
        self._kind = op.kind
        self._lines = LineEncoder(op.kind.format, item_type)
        try:
            place = op.kind.host, op.kind.port
            self._connection = socket.create_connection(place, _CONNECT_S)
            self._connection.settimeout(None)
        except OSError as error:
            raise self._failed(error, heard=False) from error

    def write(self, epoch: int, items: Sequence[Any], refuse: Refuse) -> int:
        lines = self._lines.all_encoded(items, refuse)
        try:
            self._connection.sendall(b"".join(line + b"\n" for _, line in lines))
        except OSError as error:
            raise self._failed(error, heard=True) from error
        return len(lines)

    def close(self) -> None:
        self._connection.close()

    def _failed(self, error: OSError, *, heard: bool) -> OutputError:
        must = "must be heard to the end" if heard else "must find a server"
        return OutputError(
            f"sink {self._op.name!r} ({self._op.site}) {must} at "
            f"{self._kind.host}:{self._kind.port}; {error}; start the server first, "
            f"and keep it running"
        )
