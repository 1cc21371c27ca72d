"""How epochs are divided into stages and tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, product
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.epochs.division import OF_JOBS, Division, divide, divide_as_given
from anabranch.epochs.layout import EpochLayout, lay_out
from anabranch.errors import OperatorError
from anabranch.job import compile_sinks, engine_named
from anabranch.runtime.thread import Options


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


def chain(name: str = "read") -> ab.Result:
    """Regions with a count of everything between them: five levels, one unit each."""
    read = ab.from_iterable(range(500), name=name).map(pair)
    keyed = read.key_by("key").scan(running, 0).key_by()
    swap = keyed.scan(counted, 0).map(swapped)
    return swap.key_by("key").scan(running, 0).to_list()


def numbers(name: str) -> ab.Stream:
    """Pairs with rising values."""
    return ab.from_iterable(range(500), name=name).map(pair)


def layout_of(*sinks: ab.Result) -> EpochLayout:
    made = compile_sinks(*sinks)
    return lay_out(made.graph, made.plan)


CHAIN = layout_of(chain())
BESIDE = layout_of(chain("one"), chain("two"))
JOINED = layout_of(
    ab.merge(*map(numbers, ("one", "two", "three")), by="value")
    .scan(counted, 0)
    .to_list()
)


def lengths(division: Division) -> list[int]:
    return [len(levels) for levels in division.stages]


def all_alike(layout: EpochLayout, seconds: float) -> dict[int, float]:
    return dict.fromkeys((unit.number for unit in layout.units), seconds)


def wide(layout: EpochLayout, width: int) -> tuple[int, ...]:
    return tuple(width if unit.replicated else 1 for unit in layout.units)


def test_a_row_of_units_with_little_to_do_is_one_task():
    found = divide(CHAIN, wide(CHAIN, 2), all_alike(CHAIN, 0.01), cores=2)

    assert Division((1, 1, 1, 1, 1), (range(5),)) == found


def test_units_with_much_to_do_have_their_channels():
    found = divide(CHAIN, wide(CHAIN, 2), all_alike(CHAIN, 1.0), cores=2)

    assert divide_as_given(CHAIN, (2, 2, 1, 2, 2)) == found


def test_only_what_is_worth_a_stage_has_one():
    work = {0: 0.01, 1: 1.0, 2: 0.01, 3: 0.01, 4: 0.01}

    found = divide(CHAIN, (1, 2, 1, 2, 2), work, cores=2)

    assert Division((1, 2, 1, 1, 1), (range(1), range(1, 2), range(2, 5))) == found


def test_rows_of_units_side_by_side_stay_side_by_side():
    found = divide(BESIDE, [1] * 10, all_alike(BESIDE, 1.0), cores=2)

    assert (range(5),) == found.stages
    assert [5, 5] == [len(units) for units in BESIDE.together(range(5))]


def test_units_that_come_together_have_a_task_each_if_they_have_enough_to_do():
    much = divide(JOINED, [1] * 4, all_alike(JOINED, 1.0), cores=3)
    little = divide(JOINED, [1] * 4, all_alike(JOINED, 0.001), cores=3)

    assert [3, 1] == [len(units) for units in JOINED.levels]
    assert divide_as_given(JOINED, [1] * 4) == much
    assert (range(2),) == little.stages


def test_as_long_as_nothing_is_known_no_channel_is_given_up():
    channels = wide(CHAIN, 2)

    assert channels == divide(CHAIN, channels, {}, cores=2).channels


def test_a_unit_that_is_cut_has_a_stage_of_its_own():
    little = all_alike(CHAIN, 0.01)

    assert [2, 1, 2] == lengths(divide(CHAIN, [1] * 5, little, cores=2, apart={2}))


def test_a_unit_in_the_driver_has_a_stage_of_its_own():
    seen = []
    read = ab.from_iterable(range(9), name="read").map(pair)
    noted = read.key_by("key").scan(running, 0).key_by().map(seen.append)
    layout = layout_of(noted.scan(counted, 0).to_list())
    (driver,) = (unit for unit in layout.units if unit.in_driver)

    found = divide(layout, [1] * len(layout.units), {}, cores=2)

    assert range(driver.level, driver.level + 1) in found.stages


def seconds(
    layout: EpochLayout,
    stages: Sequence[range],
    channels: Sequence[int],
    work: Mapping[int, float],
    cores: int,
) -> float:
    """How long an epoch takes if it is divided like this."""
    total = 0.0
    for levels in stages:
        inside = [unit for unit in layout.units if unit.level in levels]
        task_of = {unit.number: unit.number for unit in inside}
        for _ in inside:  # until no two that hand each other items differ
            for unit, producers in layout.feeding.items():
                for other in producers:
                    if {unit, other} <= task_of.keys():
                        task_of[unit] = task_of[other] = min(
                            task_of[unit], task_of[other]
                        )
        tasks: dict[tuple[int, int], float] = {}
        for unit in inside:
            width = channels[unit.number] if len(levels) == 1 else 1
            for channel in range(width):
                place = task_of[unit.number], channel
                took_s = work[unit.number] / width
                tasks[place] = tasks.get(place, 0.0) + took_s
        longest = max(*tasks.values(), sum(tasks.values()) / cores)
        total += OF_JOBS.stage_s + OF_JOBS.task_s * (len(tasks) - 1) + longest
    return total


def all_stages(levels: int) -> Iterator[list[range]]:
    """All ways to cut a row of levels into stages."""
    for cuts in product((False, True), repeat=levels - 1):
        ends = [0, *(n for n, cut in enumerate(cuts, 1) if cut), levels]
        yield [range(start, end) for start, end in pairwise(ends)]


@given(data=st.data(), width=st.integers(1, 8), cores=st.integers(1, 8))
@pytest.mark.parametrize("layout", [CHAIN, BESIDE, JOINED])
def test_no_other_division_is_quicker(layout, data, width, cores):
    spent = st.floats(0.0, 0.5) | st.just(0.0)
    work = {unit.number: data.draw(spent) for unit in layout.units}
    channels = wide(layout, width)

    found = divide(layout, channels, work, cores)

    best = min(
        seconds(layout, stages, channels, work, cores)
        for stages in all_stages(len(layout.levels))
    )
    levels_with = {level: len(stage) for stage in found.stages for level in stage}
    assert found.channels == tuple(
        width if levels_with[unit.level] == 1 else 1
        for unit, width in zip(layout.units, channels, strict=True)
    )
    assert best == pytest.approx(
        seconds(layout, found.stages, found.channels, work, cores)
    )


@pytest.mark.spark
def test_little_work_is_done_in_one_stage_and_the_result_stays(
    divisions, a_job_for_each_epoch
):
    expected, found = chain(), chain()
    ab.run(expected, on="sequential")
    ab.run(found, on="spark", epoch_items=90)

    assert expected.items == found.items
    used = [*map(lengths, divisions)]
    assert [1, 1, 1, 1, 1] in used
    assert [5] in used


@pytest.mark.spark
def test_rows_of_units_side_by_side_give_the_sequential_result(divisions):
    def sinks() -> list[ab.Result]:
        joined = ab.merge(*map(numbers, ("one", "two", "three")), by="value")
        return [chain("four"), joined.scan(counted, 0).to_list(), chain("five")]

    expected, found = sinks(), sinks()
    ab.run(*expected, on="sequential")
    ab.run(*found, on="spark", epoch_items=90)

    assert [sink.items for sink in expected] == [sink.items for sink in found]
    assert any(max(lengths(one)) > 1 for one in divisions)


@pytest.mark.spark
def test_a_stated_degree_gives_each_level_its_own_stage(divisions):
    expected, found = chain(), chain()
    ab.run(expected, on="sequential")
    made = compile_sinks(found, on="spark")
    options = Options(degree=1, epoch_items=90)
    engine_named("spark").start(made.graph, made.plan, options).wait()

    assert expected.items == found.items
    assert divisions
    assert all([1] * 5 == lengths(one) for one in divisions)


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
