"""Metrics and traces for OpenTelemetry, sent by its own exporters.

The metrics of a job are sums since its start, so they are passed to the exporter
directly: no instrument counts them a second time. A trace has one epoch: a span for the
whole and one per phase.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from anabranch.connectors.base import require
from anabranch.export.families import BOUNDS_S, Distribution, Family, Reading
from anabranch.logs import log, logger_of
from anabranch.metrics.job_metrics import EpochTrace

_LOGGER = logger_of("export")
PERIOD_S = 10.0
TIMEOUT_S = 5.0  # for one export, and for the last one when the job has ended
_NS = 1_000_000_000
_SCOPE = "anabranch"


class OtlpSender:
    """Sends the metrics of a job every 10 s and at its end, and a trace per epoch.

    The environment variables of OpenTelemetry's own exporters apply, such as
    OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and OTEL_METRIC_EXPORT_INTERVAL (in ms).
    """

    def __init__(self, host: str, port: int, *, secure: bool = False) -> None:
        self.address = f"{host}:{port}"
        grpc = "opentelemetry.exporter.otlp.proto.grpc"
        metrics = require(f"{grpc}.metric_exporter", "otlp")
        spans = require(f"{grpc}.trace_exporter", "otlp")
        traces = require("opentelemetry.sdk.trace", "otlp")
        processors = require("opentelemetry.sdk.trace.export", "otlp")
        resources = require("opentelemetry.sdk.resources", "otlp")
        self._trace = require("opentelemetry.trace", "otlp")
        self._data = require("opentelemetry.sdk.metrics.export", "otlp")
        self._scope = require("opentelemetry.sdk.util.instrumentation", "otlp")
        name = os.environ.get("OTEL_SERVICE_NAME", "anabranch")
        self._resource = resources.Resource.create({"service.name": name})
        where = {"endpoint": self.address, "insecure": not secure}
        self._exporter = metrics.OTLPMetricExporter(**where, timeout=TIMEOUT_S)
        self._tracers = traces.TracerProvider(resource=self._resource)
        exporter = spans.OTLPSpanExporter(**where, timeout=TIMEOUT_S)
        self._tracers.add_span_processor(processors.BatchSpanProcessor(exporter))
        self._tracer = self._tracers.get_tracer(_SCOPE)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._since_ns = time.time_ns()
        told_ms = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "")
        self._period_s = int(told_ms) / 1000 if told_ms.isdecimal() else PERIOD_S

    def begin(self, collect: Callable[[], Iterable[Family]]) -> None:
        """Send what `collect` returns from now on, from a thread."""
        self._thread = threading.Thread(
            target=self._send_all, args=(collect,), name="metrics", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Send the last metrics and wait for that, but not for long."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(TIMEOUT_S)

    def trace(self, epoch: EpochTrace) -> None:
        """Queue an epoch; it is sent later, with others."""
        began_ns = int(epoch.began_s * _NS)
        whole = self._tracer.start_span(
            "epoch",
            context=self._trace.set_span_in_context(self._trace.INVALID_SPAN),
            start_time=began_ns,
            attributes={
                "anabranch.epoch.number": epoch.number,
                "anabranch.epoch.items": epoch.items,
            },
        )
        inside = self._trace.set_span_in_context(whole)
        at_ns = began_ns
        for name, seconds in epoch.phases:
            phase = self._tracer.start_span(name, context=inside, start_time=at_ns)
            at_ns += int(seconds * _NS)
            phase.end(end_time=at_ns)
        whole.end(end_time=at_ns)

    def _send_all(self, collect: Callable[[], Iterable[Family]]) -> None:
        try:
            while not self._over.wait(self._period_s):
                self._send(collect())
            self._send(collect())
        except Exception as error:  # noqa: BLE001 - the job goes on
            log(_LOGGER, logging.ERROR, "the export ends early", error=repr(error))
        finally:
            self._tracers.shutdown()
            self._exporter.shutdown(TIMEOUT_S * 1000)

    def _send(self, families: Iterable[Family]) -> None:
        data, now_ns = self._data, time.time_ns()
        metrics = [
            make_metric(data, family, self._since_ns, now_ns) for family in families
        ]
        scope = self._scope.InstrumentationScope(_SCOPE)
        scoped = data.ScopeMetrics(scope=scope, metrics=metrics, schema_url="")
        whole = data.ResourceMetrics(
            resource=self._resource, scope_metrics=[scoped], schema_url=""
        )
        made = data.MetricsData(resource_metrics=[whole])
        result = self._exporter.export(made, timeout_millis=TIMEOUT_S * 1000)
        if result is not data.MetricExportResult.SUCCESS:
            log(_LOGGER, logging.WARNING, "metrics were not taken", by=self.address)


def make_metric(data: ModuleType, family: Family, since_ns: int, now_ns: int) -> Any:
    """Return a family in OpenTelemetry's form."""
    points = [_make_point(data, p, since_ns, now_ns) for p in family.points]
    cumulative = data.AggregationTemporality.CUMULATIVE
    match family.kind:
        case "counter":
            made = data.Sum(points, cumulative, is_monotonic=True)
        case "gauge":
            made = data.Gauge(points)
        case "histogram":
            made = data.Histogram(points, cumulative)
    return data.Metric(
        name=family.name, description=family.help, unit=family.unit, data=made
    )


def _make_point(data: ModuleType, point: Reading, since_ns: int, now_ns: int) -> Any:
    common: Mapping[str, Any] = {
        "attributes": dict(point.labels),
        "start_time_unix_nano": since_ns,
        "time_unix_nano": now_ns,
    }
    value = point.value
    if not isinstance(value, Distribution):
        return data.NumberDataPoint(**common, value=value)
    return data.HistogramDataPoint(
        **common,
        count=value.items,
        sum=value.total,
        bucket_counts=value.counts,
        explicit_bounds=BOUNDS_S,
        min=None,
        max=None,
    )
