"""Shapes that make naive designs stand still for good.

Each has a place where streams meet and another where one of them gets little or
nothing, with buffers of one item, so that every queue is full all the time.
"""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.runtime.element import Replica
from tests import needs
from tests.engines.local.shaking import all_inputs, ended, started, stumble
from tests.programs.generate import first_difference

N = 400


class Event(NamedTuple):
    key: int
    n: int


def source():
    return ab.from_iterable([Event(n % 5, n) for n in range(N)], Event)


def counted(state: int, event: Event) -> tuple[int, Event]:
    return state + 1, event._replace(n=event.n + state)


def all_to_one_branch():
    """
    A split sends everything one way: the join hears of the other only by marks.
    """
    left, right = source().split(lambda _: 0, 2)
    return ab.union(left.map(lambda e: e), right.map(lambda e: e))


def one_branch_is_silent_for_long():
    left, right = source().split(lambda e: int(e.n > N - 5), 2)
    return ab.union(left.map(lambda e: e), right.map(lambda e: e))


def a_branch_drops_everything():
    numbers = source()
    return ab.union(numbers.filter(lambda e: e.n < 0), numbers.map(lambda e: e))


def a_barrier_of_branches_with_different_rates():
    numbers = source()
    return ab.barrier(
        numbers.filter(lambda e: e.n % 50 == 49), numbers.map(lambda e: e)
    )


def nested_split_joins():
    inner = ab.split_join(
        ab.duplicate(),
        [lambda s: s.filter(lambda e: e.n % 2 == 0), lambda s: s.map(lambda e: e)],
        ab.round_robin([1, 2]),
    )
    numbers = source()
    return ab.union(numbers.pipe(inner), numbers.filter(lambda e: e.n % 97 == 0))


def crossing_joins():
    """
    Two threads feed two merges, each of which waits for the other thread.
    """
    numbers = source()
    one, two = numbers.map(lambda e: e), numbers.filter(lambda e: e.n % 3 == 0)
    first, second = ab.union(one, two), ab.union(two, one)
    return ab.merge(first, second, by="n")


def a_bypass_around_a_region():
    numbers = source()
    counts = numbers.key_by("key").scan(counted, 0).filter(lambda e: e.n % 10 == 0)
    return ab.union(counts, numbers)


def many_outputs_for_one_item():
    burst = source().filter(lambda e: e.n % 100 == 0).flat_map(lambda e: [e] * 300)
    return ab.union(burst, burst.filter(lambda e: e.n == 0))


def sources_of_different_lengths():
    short = ab.from_iterable([Event(0, 0)], Event)
    return ab.merge(source(), short, source().filter(lambda e: e.n > N - 3), by="n")


SHAPES = (
    all_to_one_branch,
    one_branch_is_silent_for_long,
    a_branch_drops_everything,
    a_barrier_of_branches_with_different_rates,
    nested_split_joins,
    crossing_joins,
    a_bypass_around_a_region,
    many_outputs_for_one_item,
    sources_of_different_lengths,
)


@pytest.fixture
def tiny_buffers(monkeypatch):
    monkeypatch.setattr(Replica, "_adapt", lambda _: None)  # the limit stays at one


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("degree", [1, 3])
@pytest.mark.parametrize(
    "threaded", needs.quick(1, ["some inputs", "every input", "no input"])
)
def test_it_never_stands_still(shape, degree, threaded, tiny_buffers, monkeypatch):
    rng = random.Random(f"{shape.__name__} {degree} {threaded}")
    share = {"every input": 1.0, "some inputs": 0.5, "no input": 0.0}[threaded]
    sink = shape().to_list()
    expected = shape().to_list()
    ab.run(expected, on="sequential")

    def choose(graph, plan):
        ports = frozenset(p for p in all_inputs(graph) if rng.random() < share)
        return Configuration(ports, {r.name: degree for r in plan.regions})

    ended(started([sink], choose))

    assert None is first_difference(expected.items, sink.items)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_it_never_stands_still_when_threads_stumble(shape, tiny_buffers, monkeypatch):
    stumble(monkeypatch, 7)
    monkeypatch.setattr("tests.engines.local.test_deadlock.N", 60)
    sink, expected = shape().to_list(), shape().to_list()
    ab.run(expected, on="sequential")

    def choose(graph, plan):
        degrees = {r.name: 2 for r in plan.regions}
        return Configuration(frozenset(all_inputs(graph)), degrees)

    ended(started([sink], choose))

    assert None is first_difference(expected.items, sink.items)
