"""What control steps have seen, in as few words as tests need."""

from __future__ import annotations

from anabranch.metrics.latency import NO_SOJOURNS, Latencies, sojourns
from anabranch.metrics.load import Observed
from anabranch.metrics.pipeline import (
    InputLoad,
    Pipeline,
    RegionLoad,
    RegionShape,
    ServiceTime,
)


def latencies(*seconds, items=100):
    found = Latencies()
    for one in seconds:
        found.record(one, items // len(seconds))
    return sojourns([found])


def observed(  # noqa: PLR0917 - in the order of a step's attributes
    seconds,
    arrivals,
    backlog,
    came_out=NO_SOJOURNS,
    regions=None,
    stages=None,
    on_core=1.0,
    **more,
):
    """A step with these regions, and threads that take so long for an item."""
    rate = sum(arrivals) / len(arrivals) or 1.0
    inputs = [
        _input(name, ServiceTime(service_s), rate)
        for name, service_s in (stages or {}).items()
    ]
    shapes = {}
    for name, load in (regions or {}).items():
        operators = load.operators or (name,)
        service = ServiceTime(
            load.service_s * on_core, blocked_s=load.service_s * (1 - on_core)
        )
        inputs.append(
            _input(operators[0], service, load.items_per_s, load.degree, load.share)
        )
        shapes[name] = RegionShape(
            operators, load.degree, load.keyed, load.per_item, load.shares
        )
    pipeline = Pipeline(tuple(inputs), shapes, source_per_s=rate)
    return Observed(
        seconds, tuple(arrivals), backlog, came_out, pipeline=pipeline, **more
    )


def _input(name, service, rate, degree=1, share=0.0):
    return InputLoad(name, (name,), service, rate, rate, degree, share)


def step(
    rate, *, degree=1, service_s=0.01, latency_s=0.011, backlog=0, share=0.0, **more
):
    load = RegionLoad(degree, service_s, min(rate, degree / service_s), share)
    return observed(
        1.0, (rate,) * 4, backlog, latencies(latency_s), {"r0": load}, **more
    )
