"""Generated programs on Spark give what the sequential engine gives."""

from random import Random

import pytest

import anabranch as ab
from tests import needs
from tests.programs.generate import assert_same, program

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("seed", needs.quick(1, range(24)))
def test_any_degree_and_epoch_size_gives_the_sequential_result(seed):
    rng = Random(seed)
    degree = rng.randint(1, 8)
    epoch_items = rng.choice([7, 40, 1000, 1000])

    assert_same(
        program(seed),
        lambda sinks: ab.run(
            *sinks, on="spark", degree=degree, epoch_items=epoch_items
        ),
    )


@pytest.mark.parametrize("seed", needs.quick(1, [3, 11]))
def test_epochs_of_one_item_give_the_sequential_result(seed):
    assert_same(
        program(seed),
        lambda sinks: ab.run(*sinks, on="spark", degree=2, epoch_items=1),
    )


@pytest.mark.parametrize("seed", needs.quick(1, range(500, 506)))
def test_items_that_operators_refuse_are_left_out(seed):
    assert_same(
        program(seed, failing=True),
        lambda sinks: ab.run(
            *sinks, on="spark", degree=3, epoch_items=50, on_error="skip"
        ),
    )


@pytest.mark.parametrize("seed", needs.quick(1, range(500)))
def test_what_follows_a_clock_gives_the_sequential_result(seed):
    rng = Random(seed)
    degree = rng.randint(1, 4)
    epoch_items = rng.choice([7, 40, 1000])

    assert_same(
        program(seed, timed=True),
        lambda sinks: ab.run(
            *sinks, on="spark", degree=degree, epoch_items=epoch_items
        ),
    )
