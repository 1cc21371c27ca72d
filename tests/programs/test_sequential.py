"""The interpreter against a second implementation of the meaning, on whole programs.

`breadth_first` runs operator by operator and orders by position; the sequential engine
goes depth-first, item by item. That they agree proves, on these programs, that the
order of positions is the order of the sequential run.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from anabranch.language.drafts import build_graph
from tests import needs
from tests.programs.breadth_first import run_breadth_first
from tests.programs.generate import (
    Program,
    first_difference,
    program,
    programs,
    run_sequential,
)


def assert_both_agree(generated: Program) -> None:
    expected = run_breadth_first(build_graph(generated.build()))
    actual = run_sequential(generated)

    for (name, left), right in zip(expected.items(), actual, strict=True):
        difference = first_difference(left, right)
        assert difference is None, f"{name}: {difference}\n\n{generated}"


@pytest.mark.parametrize("start", needs.quick(3, range(0, 400, 50)))
def test_position_order_is_depth_first_order(start):
    for seed in range(start, start + 50):
        assert_both_agree(program(seed))


@settings(
    max_examples=needs.count_examples(20, 60),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(programs())
def test_position_order_is_depth_first_order_on_shrinkable_programs(generated):
    assert_both_agree(generated)


@pytest.mark.parametrize("start", needs.quick(2, range(0, 300, 50)))
def test_what_follows_a_clock_is_in_the_order_of_time_and_key(start):
    for seed in range(start, start + 50):
        assert_both_agree(program(seed, timed=True))


@pytest.mark.parametrize("start", needs.quick(1, range(0, 300, 30)))
def test_position_order_is_depth_first_order_where_streams_part_and_meet(start):
    for seed in range(start, start + 30):
        assert_both_agree(program(seed, graphs=True))


def test_a_punctuation_passes_a_clock():
    text = """
import anabranch as ab
from tests.programs.functions import *
from tests.programs.timed import *

s1 = ab.from_iterable(events(145, 30), Event).punctuate(outside)
s2 = s1.map(jump).event_time("ts").map(rekey).key_by("key", half).apply(Echoes)
sinks = [s2.apply(Sheaves).to_list()]
"""
    assert_both_agree(Program(text))
