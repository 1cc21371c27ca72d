"""A call that takes too long for one item fails, and names operator and item."""

from __future__ import annotations

import functools
import time
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, OperatorError
from anabranch.runtime.call_watch import SlowCallError
from tests.engines.spark.imitation import Cluster, imitated
from tests.engines.spark.test_clocks import undisturbed

LIMIT = "50 ms"


def hang_on_three(n: int) -> int:
    while n == 3:
        time.sleep(0.001)
    return n


class Slow(ab.Operator):
    """Hangs on one item, in a method of its own."""

    def process(self, item):
        return [hang_on_three(item)]


class Inherited(Slow):
    """Hangs in a method of its base."""


class Numbered(NamedTuple):
    number: int

    @property
    def place(self) -> int:
        return hang_on_three(self.number)


def count(state: int, item: object) -> tuple[int, object]:
    return state + 1, item


PROGRAMS = {
    "a key": lambda numbers: numbers.key_by(hang_on_three).scan(count, 0, name="slow"),
    "an inherited method": lambda numbers: numbers.apply(Inherited, name="slow"),
    "a cache": lambda numbers: numbers.map(functools.cache(hang_on_three), name="slow"),
    "map": lambda numbers: numbers.map(hang_on_three, name="slow"),
    "filter": lambda numbers: numbers.filter(
        lambda n: hang_on_three(n) >= 0, name="slow"
    ),
    "an operator": lambda numbers: numbers.apply(Slow, name="slow"),
}


@pytest.mark.parametrize("engine", ["sequential", "local"])
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_call_that_hangs_fails_with_its_operator_and_item(program, engine):
    out = program(ab.from_iterable(range(5), int)).to_list()

    with pytest.raises(
        OperatorError, match=r"operator 'slow' .*item 4 .*: 3: "
    ) as found:
        ab.run(out, on=engine, item_timeout=LIMIT)

    assert "within 0.05 s (item_timeout)" in str(found.value)


@pytest.mark.parametrize("degree", [1, 2])
def test_a_key_that_hangs_in_a_round_is_ended(degree):
    out = (
        ab.from_iterable(range(5), int)
        .iterate(
            lambda s: s.key_by(hang_on_three).scan(count, 0, name="slow"), rounds=1
        )
        .to_list()
    )

    with pytest.raises(OperatorError, match=r"operator 'slow' .*: 3: SlowCallError"):
        ab.run(out, on="local", degree=degree, item_timeout=LIMIT)


@pytest.mark.parametrize("engine", ["sequential", "local"])
def test_an_item_that_hangs_can_be_left_out(engine):
    out = ab.from_iterable(range(5), int).map(hang_on_three).to_list()

    job = ab.run(out, on=engine, item_timeout=LIMIT, on_error="skip")

    assert [0, 1, 2, 4] == out.items
    assert {"map": 1} == dict(job.metrics().failed)


def test_a_property_that_hangs_as_a_key_is_ended():
    items = [Numbered(n) for n in range(5)]
    out = ab.from_iterable(items, Numbered).key_by("place").scan(count, 0).to_list()

    ab.run(out, on="sequential", item_timeout=LIMIT, on_error="skip")

    assert [0, 1, 2, 4] == [item.number for item in out.items]


def test_a_source_may_take_longer_for_all_its_items_than_a_function_for_one():
    def give():
        for n in range(20):
            until = time.monotonic() + 0.01
            while time.monotonic() < until:
                pass
            yield n

    out = ab.generate(give, int).to_list()

    ab.run(out, on="sequential", item_timeout=LIMIT)

    assert list(range(20)) == out.items


def test_a_task_of_spark_ends_a_call_that_hangs(tmp_path, monkeypatch):
    out = ab.from_iterable(range(5), int).map(hang_on_three, name="slow")

    with (
        imitated(monkeypatch, Cluster(undisturbed), tmp_path),
        pytest.raises(OperatorError, match=r"operator 'slow' .*: 3: SlowCallError"),
    ):
        ab.run(out.to_list(), item_timeout="500 ms", epoch_items=5)


def test_many_quick_calls_are_no_slow_one():
    def wait(n: int) -> int:
        time.sleep(0.01)
        return n

    out = ab.from_iterable(range(20), int).map(wait).to_list()

    ab.run(out, on="sequential", item_timeout="150 ms")

    assert list(range(20)) == out.items


@pytest.mark.parametrize("limit", ["0 s", "soon", -1])
def test_a_limit_that_is_none_is_refused(limit):
    with pytest.raises(ArgumentError, match="duration"):
        ab.run(ab.from_iterable([1]).to_list(), on="sequential", item_timeout=limit)


def test_the_error_keeps_its_words_on_its_way():
    assert "as it was" == str(SlowCallError("as it was"))
