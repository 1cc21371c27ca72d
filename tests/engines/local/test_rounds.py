"""Rounds of an `iterate` run on all replicas, with the results of one thread."""

from __future__ import annotations

import threading

import pytest

import anabranch as ab
from anabranch.engines.local import run as local_run
from anabranch.errors import OperatorError
from tests import needs
from tests.programs.functions import (
    Event,
    bump_body,
    diamond_body,
    events,
    is_rare,
    is_small,
    thin_body,
    window_body,
)

BODIES = {
    "a map": bump_body,
    "state per key": thin_body,
    "a fan-out and a fan-in": diamond_body,
    "a window without a key": window_body,
}


def of_stream(body):
    stream = ab.from_iterable(events(3, 120), Event)
    return [
        stream.iterate(body, rounds=2).to_list(),
        stream.punctuate(is_rare).iterate(body, rounds=3, until=is_small).to_list(),
    ]


@pytest.mark.parametrize("degree", needs.quick(1, [2, 1, 4]))
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_rounds_give_what_one_thread_gives(body, degree, monkeypatch):
    monkeypatch.setattr(local_run, "WORTH_S", 0)  # whatever a round takes
    expected, sinks = of_stream(body), of_stream(body)
    ab.run(*expected, on="sequential")

    ab.run(*sinks, on="local", degree=degree)

    assert [sink.items for sink in expected] == [sink.items for sink in sinks]
    assert expected[0].items


@ab.declare(state="stateless")
def by_thread(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0], threading.get_ident()


@pytest.mark.parametrize("degree", [1, 3])
def test_a_round_has_as_many_threads_as_it_is_told(degree, monkeypatch):
    monkeypatch.setattr(local_run, "WORTH_S", 0)
    pairs = ab.from_iterable([(n, 0) for n in range(600)])
    out = pairs.iterate(lambda s: s.map(by_thread), rounds=1).to_list()

    ab.run(out, on="local", degree=degree, verify="off")

    assert list(range(600)) == [number for number, _ in out.items]
    assert degree == len({thread for _, thread in out.items})


def test_rounds_that_take_long_are_tried_on_all_cores(monkeypatch):
    tried = []
    monkeypatch.setattr(local_run, "WORTH_S", 1e-12)
    monkeypatch.setattr(local_run.os, "cpu_count", lambda: 2)
    run = local_run.run_body

    def note(plan, options, graph, items, degree):
        tried.append(degree)
        return run(plan, options, graph, items, degree)

    monkeypatch.setattr(local_run, "run_body", note)
    out = ab.from_iterable([1, 2, 3]).iterate(lambda s: s.map(abs), rounds=2).to_list()

    ab.run(out, on="local")

    assert [2] == tried
    assert [1, 2, 3] == out.items


def test_short_rounds_stay_in_one_thread_whatever_the_degree(monkeypatch):
    monkeypatch.setattr(local_run, "WORTH_S", 60)
    monkeypatch.setattr(local_run, "run_body", lambda *_: pytest.fail("has replicas"))
    out = ab.from_iterable([1, 2, 3]).iterate(lambda s: s.map(abs), rounds=4).to_list()

    ab.run(out, on="local", degree=3)

    assert [1, 2, 3] == out.items


def halve(n: int) -> int:
    return 60 // (3 - n)


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_failure_in_a_round_is_that_of_one_thread(on, monkeypatch):
    monkeypatch.setattr(local_run, "WORTH_S", 0)
    out = ab.from_iterable([5, 4, 3, 2]).iterate(
        lambda s: s.map(halve, name="halve"), rounds=1, name="rounds"
    )

    with pytest.raises(OperatorError, match="ZeroDivisionError") as raised:
        ab.run(out.to_list(), on=on, **({"degree": 2} if on == "local" else {}))

    assert "operator 'halve'" in str(raised.value)


seen: list[int] = []


def note_and_pass(n: int) -> int:
    seen.append(n)
    return n


def test_a_body_with_effects_is_left_to_one_thread():
    stream = ab.from_iterable([1, 2]).iterate(
        lambda s: s.map(abs).map(note_and_pass), rounds=1
    )

    assert () == ab.compile(stream.to_list(), on="local").plan.bodies


def test_explain_names_what_is_parallel_in_a_round():
    stream = ab.from_iterable(events(1, 5), Event).iterate(thin_body, rounds=2)

    text = ab.explain(stream.to_list(), on="local")

    assert "iterate: filter, scan, map of its body run in parallel by key" in text
