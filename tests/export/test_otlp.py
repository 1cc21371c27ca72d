"""What OpenTelemetry is sent, as a receiver of its own protocol takes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures

import pytest

import anabranch as ab
from anabranch.metrics.job_metrics import EpochTrace
from tests import needs


def wait_for(reached: Callable[[], object]) -> None:
    """Wait for what is sent in the background: a job does not wait long for it."""
    deadline_s = time.monotonic() + 60
    while not reached():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


class Receiver:
    """A server of OTLP that keeps what it is sent."""

    def __init__(self) -> None:
        import grpc
        from opentelemetry.proto.collector.metrics.v1 import (
            metrics_service_pb2 as metrics,
        )
        from opentelemetry.proto.collector.metrics.v1 import (
            metrics_service_pb2_grpc as metrics_grpc,
        )
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
        from opentelemetry.proto.collector.trace.v1 import (
            trace_service_pb2_grpc as traces_grpc,
        )

        receiver = self

        class Metrics(metrics_grpc.MetricsServiceServicer):
            def Export(self, request, context):  # noqa: N802 - the name of the protocol
                receiver.metrics.append(request)
                return metrics.ExportMetricsServiceResponse()

        class Traces(traces_grpc.TraceServiceServicer):
            def Export(self, request, context):  # noqa: N802 - the name of the protocol
                receiver.traces.append(request)
                return traces.ExportTraceServiceResponse()

        self.metrics: list = []
        self.traces: list = []
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        metrics_grpc.add_MetricsServiceServicer_to_server(Metrics(), self.server)
        traces_grpc.add_TraceServiceServicer_to_server(Traces(), self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    @property
    def target(self) -> str:
        return f"otlp://127.0.0.1:{self.port}"

    def last(self) -> dict:
        """Return the metrics of the last request by their names."""
        wait_for(lambda: self.metrics)
        (resource,) = self.metrics[-1].resource_metrics
        (scope,) = resource.scope_metrics
        assert "anabranch" == scope.scope.name
        return {metric.name: metric for metric in scope.metrics}

    def spans(self, least: int) -> list:
        """Return all spans, once there are so many."""
        wait_for(lambda: len(self._all_spans()) >= least)
        return self._all_spans()

    def _all_spans(self) -> list:
        return [
            span
            for request in self.traces
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def receiver(pytestconfig) -> Iterator[Receiver]:
    try:
        made = Receiver()
    except ImportError as error:
        needs.leave_out(pytestconfig, needs.OTLP, str(error))
    yield made
    made.server.stop(None).wait()


def points_of(metric) -> dict[str, int]:
    return {
        point.attributes[0].value.string_value: point.as_int
        for point in metric.sum.data_points
    }


def test_the_last_metrics_of_a_job_are_sent_at_its_end(receiver):
    out = ab.from_iterable(range(100)).map(abs).to_list()

    ab.run(out, on="local", metrics=receiver.target)

    found = receiver.last()
    assert {"from_iterable": 100} == points_of(found["anabranch.items.read"])
    assert {"to_list": 100} == points_of(found["anabranch.items.delivered"])
    assert found["anabranch.items.read"].sum.is_monotonic
    (latency,) = found["anabranch.latency"].histogram.data_points
    assert 100 == latency.count == sum(latency.bucket_counts)
    assert len(latency.bucket_counts) == len(latency.explicit_bounds) + 1
    assert "s" == found["anabranch.latency"].unit
    assert ["finished"] == [
        attribute.value.string_value
        for point in found["anabranch.job.status"].gauge.data_points
        if point.as_int
        for attribute in point.attributes
        if attribute.key == "status"
    ]


def test_metrics_are_sent_while_a_job_runs(receiver, monkeypatch):
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "20")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "vwap")
    go_on = threading.Event()

    def items():
        yield 1
        assert go_on.wait(60)

    job = ab.start(
        ab.generate(items).to_list(), on="sequential", metrics=receiver.target
    )
    while len(receiver.metrics) < 2:
        assert not go_on.wait(0.01)
    go_on.set()
    job.wait()

    resource = receiver.metrics[0].resource_metrics[0].resource
    assert "vwap" in [a.value.string_value for a in resource.attributes]


def test_an_epoch_is_a_trace_of_its_phases(receiver):
    from anabranch.export.targets import open_exporter

    exporter = open_exporter(receiver.target)
    exporter.begin(list)
    phases = (("read", 0.25), ("run", 1.0), ("commit", 0.5))
    exporter.trace(EpochTrace(1, 1000.0, phases, items=50))
    exporter.trace(EpochTrace(2, 1002.0, phases, items=60))
    exporter.close()

    spans = receiver.spans(8)
    wholes = [span for span in spans if span.name == "epoch"]
    assert 2 == len({span.trace_id for span in wholes})
    assert [b"", b""] == [span.parent_span_id for span in wholes]
    first = [span for span in spans if span.trace_id == wholes[0].trace_id]
    assert {
        "epoch": (1000.0, 1001.75),
        "read": (1000.0, 1000.25),
        "run": (1000.25, 1001.25),
        "commit": (1001.25, 1001.75),
    } == {
        span.name: (span.start_time_unix_nano / 1e9, span.end_time_unix_nano / 1e9)
        for span in first
    }
    inside = {span.parent_span_id for span in first if span.name != "epoch"}
    assert {wholes[0].span_id} == inside
    assert {"anabranch.epoch.number": 1, "anabranch.epoch.items": 50} == {
        attribute.key: attribute.value.int_value for attribute in wholes[0].attributes
    }


@pytest.mark.spark
def test_every_epoch_on_spark_is_traced(receiver, tmp_path):
    out = ab.from_iterable(range(300)).map(abs).to_list()

    job = ab.run(out, on="spark", epoch_items=100, metrics=receiver.target)

    assert list(range(300)) == out.items
    spans = receiver.spans(4 * job.metrics().epochs)
    epochs = [span for span in spans if span.name == "epoch"]
    assert job.metrics().epochs == len(epochs) == len({s.trace_id for s in epochs})
    assert 300 == sum(
        attribute.value.int_value
        for span in epochs
        for attribute in span.attributes
        if attribute.key == "anabranch.epoch.items"
    )
    assert {"epoch", "read", "run", "commit"} == {s.name for s in spans}
    assert 3 <= receiver.last()["anabranch.epochs"].sum.data_points[0].as_int


def test_a_job_goes_on_and_ends_where_nobody_takes_its_metrics(pytestconfig, caplog):
    pytest.importorskip("opentelemetry.exporter", reason=needs.why_left_out(needs.OTLP))
    out = ab.from_iterable([1, 2]).to_list()

    ab.run(out, on="sequential", metrics="otlp://127.0.0.1:1")

    assert [1, 2] == out.items
