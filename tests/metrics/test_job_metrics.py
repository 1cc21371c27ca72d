"""The measurements of a job are frozen data, and plain data on request."""

from __future__ import annotations

import dataclasses
import json

import pytest

import anabranch as ab
from anabranch.metrics.job_metrics import ElementCounters, LatencyStep, Metrics
from anabranch.metrics.latency import LatencySummary

MEASURED = Metrics(
    "local",
    "running",
    2.0,
    read={"trades": 3},
    latency=LatencySummary(3, 1.0, 2.0, 3.0, 4.0),
    latency_counts=((1.0, 3),),
    steps=(LatencyStep(1.0, 2.0, 3.0, 4, 5.0, 6.0, {"r0": 2}),),
    elements={"map": ElementCounters(1, (3,), (0,), (64,))},
)


def test_measurements_are_plain_data_on_request():
    data = json.loads(json.dumps(MEASURED.to_dict()))

    assert {"trades": 3} == data["read"]
    assert {"items", "p50_ms", "p95_ms", "p99_ms", "max_ms"} == set(data["latency"])
    assert [[1.0, 3]] == data["latency_counts"]
    assert {"r0": 2} == data["steps"][0]["replicas"]
    assert [64] == data["elements"]["map"]["limit"]
    assert None is data["backlog"]


def test_measurements_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MEASURED.elapsed_s = 3.0


def test_every_measurement_is_explained():
    text = Metrics.__doc__

    assert [] == [
        f.name for f in dataclasses.fields(Metrics) if f"`{f.name}`" not in text
    ]


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_a_job_has_the_measurements_of_its_engine(engine):
    sink = ab.from_iterable([1, 2, 3]).map(abs, name="m").to_list(name="out")

    found = ab.run(sink, on=engine, degree=1).metrics()

    assert (engine, "finished", {"out": 3}) == (
        found.engine,
        found.status,
        found.delivered,
    )
    assert (3 if engine == "local" else 0) == found.latency.items
