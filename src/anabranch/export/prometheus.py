"""Metrics for Prometheus: their text format, and the endpoint that serves it."""

from __future__ import annotations

import itertools
import socketserver
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from urllib.parse import urlsplit

from anabranch.errors import ArgumentError
from anabranch.export.families import BOUNDS_S, Distribution, Family, Labels
from anabranch.metrics.job_metrics import EpochTrace

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
POLL_S = 0.1


def write_text(families: Iterable[Family]) -> str:
    r"""Return families in the text format of Prometheus.

    >>> write_text([Family("anabranch.epochs", "counter", "Epochs completed", ())])
    '# HELP anabranch_epochs_total Epochs completed\n# TYPE anabranch_epochs_total counter\n'
    """
    return "".join(f"{line}\n" for family in families for line in _lines(family))


def _lines(family: Family) -> Iterator[str]:
    name = family.prometheus_name
    yield f"# HELP {name} {_escape(family.help, quotes=False)}"
    yield f"# TYPE {name} {family.kind}"
    for point in family.points:
        if isinstance(point.value, Distribution):
            yield from _buckets(name, point.labels, point.value)
        else:
            yield f"{name}{_labels(point.labels)} {_number(point.value)}"


def _buckets(name: str, labels: Labels, values: Distribution) -> Iterator[str]:
    edges = [*map(_number, BOUNDS_S), "+Inf"]
    below = itertools.accumulate(values.counts)
    for edge, count in zip(edges, below, strict=True):
        yield f"{name}_bucket{_labels({**labels, 'le': edge})} {count}"
    yield f"{name}_sum{_labels(labels)} {_number(values.total)}"
    yield f"{name}_count{_labels(labels)} {values.items}"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escape(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escape(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return format(value, ".12g") if isinstance(value, float) else str(value)


class Endpoint(socketserver.ThreadingTCPServer):
    """Serves the current metrics of a job at `address`."""

    allow_reuse_address = True  # a port just released is free
    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        try:
            super().__init__((host, port), _Scrape)
        except (OSError, OverflowError) as error:
            msg = (
                f"metrics= needs an address of this machine and a free port; "
                f"{host}:{port} is not available ({error}); name another one, or port 0 to "
                f"have one chosen"
            )
            raise ArgumentError(msg) from error
        self._collect: Callable[[], Iterable[Family]] = tuple
        self._serving = False
        shown = host or "localhost"
        self.address = f"http://{shown}:{self.server_address[1]}/metrics"

    def begin(self, collect: Callable[[], Iterable[Family]]) -> None:
        """Serve what `collect` returns, in a thread."""
        self._collect = collect
        self._serving = True
        threading.Thread(
            target=self.serve_forever, args=(POLL_S,), name="metrics", daemon=True
        ).start()

    def trace(self, epoch: EpochTrace) -> None:
        """Do nothing: Prometheus has no traces."""

    def close(self) -> None:
        """Stop serving."""
        if self._serving:
            self.shutdown()
            self._serving = False
        self.server_close()

    def text(self) -> str:
        """Return the current metrics."""
        return write_text(self._collect())

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that has disconnected."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Scrape(BaseHTTPRequestHandler):
    server: Endpoint
    timeout = 5.0  # for a client that connects and sends nothing

    def do_GET(self) -> None:
        if urlsplit(self.path).path != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")
            return
        body = self.server.text().encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Do nothing: the terminal belongs to the program."""
