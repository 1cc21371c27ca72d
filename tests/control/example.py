"""The running example of the paper: Figures 3 and 4, and the matrix of section 4.1."""

from __future__ import annotations

from anabranch.metrics.pipeline import InputLoad, Pipeline, ServiceTime, ThreadLoad

EXAMPLE = (
    ThreadLoad("t0", 0.90, {"o1": 0.15, "o3": 0.50, "o4": 0.20}),
    ThreadLoad("t1", 1.00, {"o3": 0.50, "o4": 0.20}),
    ThreadLoad("t2", 0.90, {"o6": 0.30, "o4": 0.15, "o10": 0.05}),
    ThreadLoad("t3", 0.95, {"o8": 0.60, "o9": 0.30, "o10": 0.20}),
)


def as_pipeline(*threads, **facts):
    """The model of threads that are chains: a port with more use comes first."""
    inputs = [one for load in threads for one in _inputs(load)]
    return Pipeline(tuple(inputs), **facts)


def _inputs(load):
    chain = sorted(load.ports, key=lambda port: -load.ports[port])
    behind = [*(load.ports[port] for port in chain[1:]), 0.0][: len(chain)]
    own = {
        port: load.ports[port] - after
        for port, after in zip(chain, behind, strict=True)
    }
    first = max(load.ports.values(), default=0.0)
    own = {load.thread: load.utilization - first, **own}
    part = load.blocked / load.utilization if load.utilization else 0.0
    for place, (name, use) in enumerate(own.items()):
        lock = load.held_up * use / load.utilization if load.utilization else 0.0
        service = ServiceTime(use * (1 - part), lock, use * part)
        route = (load.thread, *chain[:place])
        yield InputLoad(name, route, service, float(load.replicas), 0.0, load.replicas)
