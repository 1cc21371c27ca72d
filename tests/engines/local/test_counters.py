"""The cost of items, from the counters of a network."""

from __future__ import annotations

import threading

import anabranch as ab
from anabranch.engines.local.counters import Counters, Work, count_items, fill_elements
from anabranch.metrics.pipeline import InputLoad, Pipeline, RegionShape, ServiceTime


def test_items_in_a_queue_or_at_work_do_not_make_the_others_cheaper():
    """Of 40 items that came, two replicas have done 20 in 0.2 s and begun with ten."""
    works = (Work(items=18, busy_s=0.12, done=12), Work(items=12, busy_s=0.08, done=8))
    done = Counters(0.5, {"work": works}, {}, {}, {})
    came = InputLoad("work", ("work",), ServiceTime(), in_per_s=80, replicas=2)

    (found,) = fill_elements([came], done, {}, on_core=0.25)

    assert 0.01 == round(found.service.busy_s, 9)
    assert 0.0025 == round(found.service.cpu_s, 9)


def test_the_operators_of_a_region_share_the_work_of_all_that_came():
    """20 of 40 items are done, in 0.2 s: a quarter of it in a filter, the rest behind."""
    done = Counters(0.5, {"keep": (Work(items=20, busy_s=0.2, done=20),)}, {}, {}, {})
    keep = InputLoad("keep", ("keep",), ServiceTime(), in_per_s=80, producer="read")
    work = InputLoad(
        "work", ("keep", "work"), ServiceTime(), in_per_s=10, producer="keep"
    )

    filled = fill_elements([keep, work], done, {"keep": 1, "work": 3}, on_core=1.0)
    shape = RegionShape(("keep", "work"))
    made = Pipeline(tuple(filled), {"r0": shape}, source_per_s=80)

    assert 0.01 == round(made.regions["r0"].service_s, 9)


def test_a_batch_counts_as_done_with_the_time_that_it_took():
    begun, go_on = threading.Event(), threading.Event()

    @ab.declare(state="stateless")
    def wait(number: int) -> int:
        begun.set()
        go_on.wait(10)
        return number

    got: list[int] = []
    source = ab.from_iterable([1]).map(wait).for_each(got.append)
    job = ab.start(source, on="local", degree=1)
    assert begun.wait(10)
    network = job._running.latency_actuator()._flow.network
    before = [work for works in count_items(network).works.values() for work in works]
    go_on.set()
    job.wait(10)
    after = [work for works in count_items(network).works.values() for work in works]

    assert (1, 0, 0.0) == (
        max(one.items for one in before),
        sum(one.done for one in before),
        sum(one.busy_s for one in before),
    )
    assert [one.items for one in after] == [one.done for one in after]
