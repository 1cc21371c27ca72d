"""Which levels share a stage, and which units are worth one."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.engines.engine import Options
from anabranch.engines.spark.epochs import Epochs
from anabranch.engines.spark.layout import Layout, lay_out
from anabranch.engines.spark.stages import STAGE_S, TASK_S, narrowed, stages
from anabranch.errors import OperatorError
from anabranch.job import compile_sinks, engine_named


class Pair(NamedTuple):
    key: int
    value: int


def pair(n: int) -> Pair:
    return Pair(n % 7, n)


def swapped(one: tuple[int, int]) -> Pair:
    return Pair(one[1] % 5, one[0])


def running(total: int, one: Pair) -> tuple[int, tuple[int, int]]:
    return total + one.value, (one.key, total)


def counted(count: int, one: tuple[int, int]) -> tuple[int, tuple[int, int]]:
    return count + 1, (count, one[1])


def chain(name: str = "read") -> ab.Sink:
    """Regions with a count of everything between them: five levels, one unit each."""
    read = ab.from_iterable(range(500), name=name).map(pair)
    keyed = read.key_by("key").scan(running, 0).key_by()
    swap = keyed.scan(counted, 0).map(swapped)
    return swap.key_by("key").scan(running, 0).to_list()


def layout_of(*sinks: ab.Sink) -> Layout:
    made = compile_sinks(*sinks)
    return lay_out(made.graph, made.plan)


CHAIN = layout_of(chain())
REPLICATED = [unit.number for unit in CHAIN.units if unit.replicated]


def lengths(*channels: int, apart: frozenset[int] = frozenset()) -> list[int]:
    return [len(one) for one in stages(CHAIN, channels, apart)]


def test_levels_with_one_task_each_share_a_stage():
    assert 5 == len(CHAIN.units) == len(CHAIN.levels)
    assert [5] == lengths(1, 1, 1, 1, 1)
    assert [1, 4] == lengths(2, 1, 1, 1, 1)
    assert [2, 1, 2] == lengths(1, 1, 2, 1, 1)
    assert [1, 1, 1, 1, 1] == lengths(2, 2, 1, 2, 2)


def test_a_unit_that_is_cut_has_a_stage_of_its_own():
    assert [2, 1, 2] == lengths(1, 1, 1, 1, 1, apart=frozenset({2}))


def test_units_side_by_side_stay_side_by_side():
    layout = layout_of(chain("one"), chain("two"))

    assert [1] * 5 == [len(one) for one in stages(layout, [1] * 10)]


def test_a_unit_in_the_driver_has_a_stage_of_its_own():
    seen = []
    read = ab.from_iterable(range(9), name="read").map(pair)
    noted = read.key_by("key").scan(running, 0).key_by().map(seen.append)
    layout = layout_of(noted.scan(counted, 0).to_list())
    (driver,) = (unit for unit in layout.units if unit.in_driver)

    found = stages(layout, [1] * len(layout.units))

    assert range(driver.level, driver.level + 1) in found


def seconds(channels: tuple[int, ...], work: dict[int, float]) -> float:
    """How long an epoch takes: its stages one after the other, tasks side by side."""
    return sum(
        STAGE_S
        + sum(
            work[level] / channels[level] + TASK_S * (channels[level] - 1)
            for level in stage
        )
        for stage in stages(CHAIN, channels)
    )


@given(
    work=st.lists(st.floats(0.0, 0.5), min_size=5, max_size=5),
    width=st.integers(2, 8),
)
def test_no_other_choice_of_narrow_units_is_quicker(work, width):
    spent = dict(enumerate(work))
    wide = tuple(width if n in REPLICATED else 1 for n in range(5))

    found = narrowed(CHAIN, wide, spent)

    ways = product(*((1, width) if n in REPLICATED else (1,) for n in range(5)))
    assert min(seconds(way, spent) for way in ways) == pytest.approx(
        seconds(found, spent)
    )


def test_units_whose_work_is_not_known_stay_as_they_are():
    wide = tuple(2 if n in REPLICATED else 1 for n in range(5))

    assert wide == narrowed(CHAIN, wide, {})


@pytest.fixture
def used(monkeypatch) -> list[list[int]]:
    """How many levels each stage of each epoch has."""
    found = []
    whole = Epochs._stages

    def noted(self, task):
        parts = whole(self, task)
        found.append([len(part) for part in parts])
        return parts

    monkeypatch.setattr(Epochs, "_stages", noted)
    return found


@pytest.mark.spark
def test_little_work_is_done_in_one_stage_and_the_result_stays(used):
    expected, found = chain(), chain()
    ab.run(expected, on="sequential")
    ab.run(found, on="spark", epoch_items=90)

    assert expected.items == found.items
    assert [1, 1, 1, 1, 1] in used
    assert [5] in used


@pytest.mark.spark
def test_a_stated_degree_gives_each_level_its_own_stage(used):
    expected, found = chain(), chain()
    ab.run(expected, on="sequential")
    made = compile_sinks(found, on="spark")
    options = Options(degree=1, epoch_items=90)
    engine_named("spark").start(made.graph, made.plan, options).wait()

    assert expected.items == found.items
    assert used
    assert all([1] * 5 == one for one in used)


def failing(limit: int, one: tuple[int, int]) -> tuple[int, int]:
    if one[0] == limit:
        raise ValueError(one)
    return one


@pytest.mark.spark
@pytest.mark.parametrize("limit", [2, 450])
def test_an_error_in_a_shared_stage_is_told_as_in_any_other(limit):
    read = ab.from_iterable(range(500), name="read").map(pair)
    keyed = read.key_by("key").scan(running, 0).key_by().scan(counted, 0)
    checked = keyed.map(partial(failing, limit), name="checked")

    with pytest.raises(OperatorError, match="checked"):
        ab.run(checked.scan(counted, 0).to_list(), on="spark", epoch_items=90)
