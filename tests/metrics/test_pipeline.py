"""One model for both goals: which input limits, and what a change would bring."""

from __future__ import annotations

import pytest

from anabranch.metrics.load import ThreadSamples, pipeline_of
from anabranch.metrics.pipeline import InputLoad, Pipeline, RegionShape, ServiceTime


def fed(route, service, rate, **more):
    return InputLoad(route[-1], route, service, rate, **more)


CPU = ServiceTime(cpu_s=0.002)
FETCH = ServiceTime(cpu_s=0.0001, blocked_s=0.0049)
SORT = ServiceTime(cpu_s=0.5)

# 100 items a second are read; one in 100 passes the filter and is sorted for half a second.
SELECTIVE = Pipeline(
    (
        fed(("read",), CPU, 100),
        fed(("read", "keep"), CPU, 100),
        fed(("read", "keep", "sort"), SORT, 1),
    ),
    source_per_s=100,
)


def test_an_operator_behind_a_filter_limits_by_the_items_that_come_to_it():
    limit = SELECTIVE.find_limit()

    assert "sort" == limit.operator
    assert 1 == limit.in_per_s
    assert pytest.approx(100 / 0.9) == SELECTIVE.capacity_per_s


def test_a_port_divides_a_thread_and_leaves_the_rest():
    after = SELECTIVE.divide({"sort"})

    assert {"read": 0.4, "sort": 0.5} == pytest.approx(
        {load.thread: load.utilization for load in after.threads}
    )


def test_replicas_divide_a_region_and_not_what_is_around_it():
    around = Pipeline(
        (
            fed(("read",), CPU, 100),
            fed(("read", "fetch"), FETCH, 100),
            fed(("read", "fetch", "write"), CPU, 100),
        ),
        {"r0": RegionShape(("fetch",))},
        source_per_s=100,
    )

    wide = around.widen(("fetch",), 4)

    assert {"read": 0.2, "fetch": 0.125, "write": 0.2} == pytest.approx(
        {load.thread: load.utilization for load in wide.threads}
    )
    assert 4 == wide.regions["r0"].degree


def test_the_busiest_replica_of_a_region_limits_it():
    hot = fed(("fold",), ServiceTime(cpu_s=0.01), 100, replicas=4, share=0.7)
    model = Pipeline((hot,), {"r0": RegionShape(("fold",), 4, keyed=True)}, 100)

    assert pytest.approx(100 / 0.7) == model.capacity_per_s
    assert pytest.approx(100 / 0.7) == model.regions["r0"].capacity_per_s


def test_threads_that_are_no_replicas_are_stages_with_their_own_time():
    model = Pipeline(
        (
            fed(("read",), CPU, 100),
            fed(("read", "fetch"), FETCH, 100),
            fed(("sort",), SORT, 1),
        ),
        {"r0": RegionShape(("fetch",))},
        source_per_s=100,
    )

    assert {"read": 0.002, "sort": 0.005} == pytest.approx(dict(model.stages))
    assert pytest.approx(0.7) == model.others_busy


def test_what_waits_for_the_lock_is_no_work_but_keeps_a_thread_busy():
    model = Pipeline((fed(("a",), ServiceTime(0.002, lock_s=0.006), 100),))
    (load,) = model.threads

    assert pytest.approx((0.2, 0.8)) == (load.utilization, load.wanted)


def test_a_thread_that_waits_for_room_behind_it_shows_that():
    seen = ThreadSamples("a", 1.0, 0.2, {("a",): 1.0}, waiting=70, looks=100, full=60)

    (one,) = pipeline_of([seen]).inputs

    assert pytest.approx((0.2, 0.6)) == (one.service.cpu_s, one.service.output_s)


def test_samples_and_counted_rates_give_the_cost_of_an_item():
    seen = ThreadSamples(
        "read", 1.0, 0.9, {("read",): 0.4, ("read", "keep", "sort"): 0.5}
    )
    known = [
        fed(("read",), ServiceTime(), 100.0, out_per_s=100.0),
        fed(("read", "keep"), ServiceTime(), 100.0, out_per_s=1.0, producer="read"),
        fed(("read", "keep", "sort"), ServiceTime(), 1.0, producer="keep"),
    ]

    model = pipeline_of([seen], known, source_per_s=100.0)

    costs = {one.operator: one.service.cpu_s for one in model.inputs}
    assert {"read": 0.004, "keep": 0.0, "sort": 0.5} == pytest.approx(costs)
    rates = {one.operator: one.in_per_s for one in model.inputs}
    assert {"read": 100.0, "keep": 100.0, "sort": 1.0} == rates
