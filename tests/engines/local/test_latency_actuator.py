"""A latency goal on the local engine: right results, and replicas that follow the load."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import OperatorError


@ab.declare(state="stateless")
def waits(n):
    time.sleep(0.004)
    return n


class Reading(NamedTuple):
    key: str
    n: int


@ab.declare(state="stateless")
def summed(total, reading):
    time.sleep(0.002)
    return total + reading.n, Reading(reading.key, total + reading.n)


@pytest.mark.parametrize("policy", ["predictive", "reactive"])
def test_replicas_change_and_the_items_do_not(policy):
    load = ab.testing.steps((100, 0.6), (700, 1.2))
    out = ab.testing.offered(load).map(waits).to_list()
    goal = ab.latency("50 ms", policy=policy, step=0.2, replicas=6)

    job = ab.run(out, on="local", goal=goal)

    assert list(range(len(load))) == out.items
    changes = [change for change in job.history if "replica" in change.what]
    assert changes
    assert all(change.why for change in changes)
    assert job.metrics().steps


def test_a_keyed_region_keeps_its_state_through_changes():
    readings = [Reading("abcdefgh"[n % 8], n) for n in range(40)]
    load = ab.testing.steps((100, 0.4), (900, 0.9))
    out = (
        ab.testing.offered(load, readings, Reading)
        .key_by("key")
        .scan(summed, 0)
        .to_list()
    )
    goal = ab.latency("50 ms", step=0.2, replicas=4)

    job = ab.run(out, on="local", goal=goal)

    totals, wanted = {}, []
    for n in range(len(load)):
        key, value = readings[n % 40]
        totals[key] = totals.get(key, 0) + value
        wanted.append(Reading(key, totals[key]))
    assert wanted == out.items
    assert any("replicas of" in change.what for change in job.history)


def test_what_a_step_has_seen():
    load = ab.testing.constant(100, seconds=1.0)
    out = ab.testing.offered(load).map(waits).to_list()
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()

    seen = actuator.watch(0.5)
    job.wait()

    (load_seen,) = seen.regions.values()
    assert not seen.closed
    assert 2 == actuator.others  # what reads, and what writes
    assert load_seen.degree == 1
    assert load_seen.service_s >= 0.004
    assert seen.sojourns.items > 0
    assert seen.sojourns.mean_s >= 0.004
    assert actuator.watch(0.1) is None
    assert actuator.resize({"r0": 2}, None) is None


def test_a_file_is_read_as_fast_as_possible():
    out = ab.from_iterable(range(100)).map(waits).to_list()
    job = ab.start(out, on="local", degree=1)

    seen = job._running.latency_actuator().watch(0.1)
    job.stop()

    assert seen.closed


@ab.declare(state="stateless")
def several(n):
    return [n] * (n % 3)


SHAPES = {
    "in turn": lambda stream: stream.map(waits_little),
    "numbered": lambda stream: stream.map(waits_little).filter(lambda n: n % 3 > 0),
    "repeated": lambda stream: stream.map(waits_little).flat_map(several),
    "positions": lambda stream: ab.union(stream.map(waits_little), stream.map(abs)),
}


@ab.declare(state="stateless")
def waits_little(n):
    time.sleep(0.0005)
    return n


class Steps:
    """A source that gives 50 items for each step that it is allowed to take."""

    def __init__(self, steps):
        self.allowed = threading.Semaphore(0)
        self.items = steps * 50

    def stream(self):
        return ab.generate(self.read)

    def read(self):
        for n in range(self.items):
            if n % 50 == 0:
                self.allowed.acquire()
            yield n

    def go(self, steps=1):
        self.allowed.release(steps)


@pytest.mark.parametrize("shape", SHAPES)
def test_replicas_are_woken_and_suspended_without_another_network(shape):
    """The first replicas are built; after that nothing is, and nobody stands still."""
    build, source = SHAPES[shape], Steps(8)
    wanted = build(ab.from_iterable(range(400))).to_list()
    ab.run(wanted, on="sequential")
    out = build(source.stream()).to_list()
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()
    (region, *_) = actuator.degrees

    source.go()
    actuator.resize({region: 3}, None)
    network = job._running.flow.network
    effects, seen = [], []
    for degree in (1, 5, 2, 6, 1, 4):
        effects.append(actuator.resize({region: degree}, None))
        seen.append(actuator.degrees[region])
        source.go()
    source.go()
    job.wait()

    assert wanted.items == out.items
    assert [1, 5, 2, 6, 1, 4] == seen
    assert job._running.flow.network is network
    assert f"2 of {region} suspended; items kept flowing" == effects[0]
    assert f"4 of {region} resumed; items kept flowing" == effects[1]


class Numbered(NamedTuple):
    key: int
    n: int


def count_up(before, item):
    time.sleep(0.0005)
    return before + item.n, Numbered(item.key, before + item.n)


def of_key(n):
    return Numbered(n % 11, n)


def keep_some(item):
    return item.n % 3 > 0


def repeat(item):
    return [item] * (item.n % 3)


def slow_list(items):
    time.sleep(0.0005)
    return list(items)


KEYED = {
    "seqno": lambda counted: counted,
    "strict": lambda counted: counted.filter(keep_some),
    "relaxed": lambda counted: counted.flat_map(repeat),
    "behind a shuffle": lambda counted: counted.key_by("n").scan(count_up, 0),
    "windows": lambda counted: counted.window(count=3).aggregate(list),
}

CLOCKED = {
    "tumbling": lambda keyed: keyed.window(time=40, on="n").aggregate(slow_list),
    "sliding": lambda keyed: keyed.window(time=60, every=20, on="n").aggregate(
        slow_list
    ),
    "sessions": lambda keyed: keyed.window(gap=13, on="n").aggregate(slow_list),
    "forgetful": lambda keyed: keyed.scan(count_up, 0),
}


@pytest.mark.parametrize("shape", KEYED)
def test_keys_move_between_replicas_without_another_network(shape):
    """States go with their keys, and nobody stands still."""

    def build(stream):
        counted = stream.map(of_key).key_by("key").scan(count_up, 0)
        return KEYED[shape](counted).to_list()

    source, wanted = Steps(8), build(ab.from_iterable(range(400)))
    ab.run(wanted, on="sequential")
    out = build(source.stream())
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()
    region = next(one for one in job.plan.regions if one.key == ("key",)).name

    source.go()
    actuator.resize({region: 3}, None)
    network = job._running.flow.network
    effects = []
    for degree in (1, 5, 2, 6, 1, 4):
        effects.append(actuator.resize({region: degree}, None))
        source.go()
    source.go()
    job.wait()

    assert wanted.items == out.items
    assert job._running.flow.network is network
    assert (
        f"2 of {region} suspended, 682 of 1024 buckets of {region} moved; "
        "items kept flowing" == effects[0]
    )


@pytest.mark.parametrize("shape", CLOCKED)
def test_keys_under_a_clock_move_without_another_network(shape):
    """All replicas have seen the same advances, so open windows and timers can move."""

    def build(stream):
        timed = stream.map(of_key).event_time("n", lateness=7)
        return CLOCKED[shape](timed.key_by("key", forget_after=25)).to_list()

    source, wanted = Steps(8), build(ab.from_iterable(range(400)))
    ab.run(wanted, on="sequential")
    out = build(source.stream())
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()
    region = next(one for one in job.plan.regions if one.key).name

    source.go()
    actuator.resize({region: 3}, None)
    network = job._running.flow.network
    for degree in (1, 5, 2, 6, 1, 4):
        actuator.resize({region: degree}, None)
        source.go()
    source.go()
    job.wait()

    assert wanted.items == out.items
    assert job._running.flow.network is network


def test_a_replica_that_fails_gives_its_states_before_the_job_ends():
    def fail_at(before, item):
        if item.n == 130:
            msg = "no"
            raise ValueError(msg)
        return count_up(before, item)

    source = Steps(4)
    out = source.stream().map(of_key).key_by("key").scan(fail_at, 0).to_list()
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()
    actuator.resize({"r0": 4}, None)
    source.go(2)
    for degree in (1, 4, 2, 8):
        actuator.resize({"r0": degree}, None)
    source.go(2)

    with pytest.raises(OperatorError, match="no"):
        job.wait()
    assert 130 == len(out.items)


def test_a_replica_that_is_suspended_gets_no_items():
    source = Steps(4)
    out = source.stream().map(waits_little).to_list()
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()
    actuator.resize({"r0": 2}, None)
    source.go(4)
    job.wait()

    (received,) = [
        one.received for one in job.metrics().elements.values() if one.replicas == 4
    ]
    assert [100, 100, 0, 0] == list(received)
    assert list(range(200)) == out.items


def test_more_than_there_are_need_another_network():
    source = Steps(2)
    out = source.stream().map(waits_little).to_list()
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()
    actuator.resize({"r0": 2}, None)
    before = job._running.flow.network

    actuator.resize({"r0": 5}, None)
    source.go(2)
    job.wait()

    assert before is not job._running.flow.network
    assert list(range(100)) == out.items


def one_in_100(n):
    return n % 100 == 0


def test_the_rate_at_an_input_is_that_of_its_own_items():
    stream = ab.testing.offered(ab.testing.constant(1000, seconds=1.5), name="read")
    kept = stream.map(abs, name="all").filter(one_in_100, name="rare")
    out = kept.map(waits, name="few").to_list(name="out")
    job = ab.start(out, on="local", degree=1)
    actuator = job._running.latency_actuator()

    seen = actuator.watch(0.6)
    job.wait()

    rates = {one.operator: one.in_per_s for one in seen.pipeline.inputs}
    assert rates["all"] == rates["rare"] > 0
    assert pytest.approx(0.01, rel=0.5) == rates["few"] / rates["rare"]
    assert rates["few"] == rates["out"]
