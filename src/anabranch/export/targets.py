"""The targets of `metrics=`, to which a job exports its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol
from urllib.parse import urlsplit

from anabranch.errors import ArgumentError
from anabranch.export.families import Family
from anabranch.export.otlp import OtlpSender
from anabranch.export.prometheus import Endpoint
from anabranch.metrics.job_metrics import EpochTrace

SCHEMES = ("prometheus", "otlp", "otlps")
EXAMPLES = '"prometheus://:9464" or "otlp://host:4317"'


class Exporter(Protocol):
    """Exports the metrics of a job."""

    address: str

    def begin(self, collect: Callable[[], Iterable[Family]]) -> None:
        """Export what `collect` returns, from now on."""

    def trace(self, epoch: EpochTrace) -> None:
        """Export a finished epoch."""

    def close(self) -> None:
        """Export the last values, and stop."""


def why_not_target(target: str) -> str | None:
    """Return why metrics cannot be exported to a target, or None.

    >>> why_not_target("prometheus://:9464")
    >>> why_not_target("statsd://host:8125")
    "it begins with 'statsd'"
    """
    try:
        parts = urlsplit(target)
        port = parts.port
    except ValueError as error:
        return str(error)
    if parts.scheme not in SCHEMES:
        return f"it begins with {parts.scheme!r}"
    if port is None:
        return "it has no port"
    if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        return "there is more than a host and a port"
    if not parts.hostname and parts.scheme != "prometheus":
        return "it has no host"
    return None


def refuse_target(target: object) -> None:
    """Raise if metrics cannot be exported to a target."""
    why = why_not_target(target) if isinstance(target, str) else "it is no text"
    if why is not None:
        msg = f"metrics must be None or like {EXAMPLES}; got {target!r}; {why}"
        raise ArgumentError(msg)


def open_exporter(target: str) -> Exporter:
    """Open the exporter to a target; a Prometheus port is bound by then.

    >>> exporter = open_exporter("prometheus://127.0.0.1:0")
    >>> exporter.address.endswith("/metrics")
    True
    >>> exporter.close()
    """
    refuse_target(target)
    parts = urlsplit(target)
    host, port = parts.hostname or "", parts.port or 0
    if parts.scheme == "prometheus":
        return Endpoint(host, port)
    return OtlpSender(host, port, secure=parts.scheme == "otlps")
