from __future__ import annotations

import pytest

from anabranch.testing.offered_load import burst, constant, periodic, recorded, steps


def rates(load, seconds):
    return [sum(s <= due < s + 1 for due in load.due_s) for s in range(seconds)]


def test_a_constant_load_is_due_evenly():
    assert [20, 20, 20] == rates(constant(20, seconds=3), 3)


def test_steps_follow_each_other():
    assert [10, 10, 30, 5] == rates(steps((10, 2), (30, 1), (5, 1)), 4)


def test_a_step_without_items_is_a_pause():
    assert [4, 0, 0, 4] == rates(steps((4, 1), (0, 2), (4, 1)), 4)


def test_a_burst_is_a_step_up_and_down_again():
    load = burst(10, seconds=4, of=50, at=1, lasting=1)

    assert [10, 50, 10, 10] == rates(load, 4)


def test_a_periodic_load_rises_and_falls():
    seen = rates(periodic(0, 100, period=10, seconds=20), 20)

    assert 1000 == pytest.approx(sum(seen), abs=2)
    assert seen[:5] == sorted(seen[:5])
    assert seen[:10] == pytest.approx(seen[10:], abs=2)
    assert seen[:5] == pytest.approx(seen[5:10][::-1], abs=2)


def test_a_recorded_load_begins_with_its_first_item():
    assert (0.0, 1.0, 1.0, 4.0) == recorded([50, 51, 51, 54]).due_s
    assert (0.0, 0.5) == recorded([50, 51], speed=2).due_s


def test_times_must_be_in_order():
    with pytest.raises(ValueError, match="must be in order"):
        recorded([2.0, 1.0])


def test_a_rate_is_not_negative():
    with pytest.raises(ValueError, match="must not be negative"):
        constant(-1, seconds=2)


def test_an_empty_load_has_no_items():
    assert () == constant(0, seconds=2).due_s
