"""What control steps have seen, in as few words as tests need."""

from __future__ import annotations

from anabranch.metrics.latency import Latencies, sojourns
from anabranch.metrics.load import Observed, RegionLoad


def latencies(*seconds, items=100):
    found = Latencies()
    for one in seconds:
        found.record(one, items // len(seconds))
    return sojourns([found])


def step(
    rate, *, degree=1, service_s=0.01, latency_s=0.011, backlog=0, share=0.0, **more
):
    load = RegionLoad(degree, service_s, min(rate, degree / service_s), share)
    return Observed(
        1.0, (rate,) * 4, backlog, latencies(latency_s), {"r0": load}, **more
    )
