"""Kernels against the functions that they were traced from, to the last bit."""

import math
import random

import numpy as np
import pytest

from anabranch.compiler.numeric.kernels import Firing, layout_of, make_kernel
from anabranch.compiler.numeric.values import RefusedError
from anabranch.runtime.compiled.arrays import DTYPES, to_arrays, to_items
from anabranch.runtime.compiled.build import compile_kernel
from tests import needs
from tests.compiler.numeric import exact, refused
from tests.compiler.numeric.refused import REFUSED

ODD = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 5.0, 1e308, -1e308, 5e-324, 2.0**53]
ODD += [math.inf, -math.inf, math.nan, 0.1, 255.5, 4.999999999999999]


def numbers(seed, count=300):
    chance = random.Random(seed)
    made = [chance.uniform(-6, 6) for _ in range(count)]
    return made + [chance.gauss(0, 1) * 10.0 ** chance.randint(-5, 5) for _ in made]


def shown(values):
    """Tell values apart as no comparison does: -0.0, nan, True, 1 and 1.0 differ."""
    return [repr(value) for value in values]


def run_kernel(firing, item_type, items):
    """Return what the kernel gives for all firings, None if Python has to do it."""
    takes = layout_of(item_type)
    kernel, gives = make_kernel(firing, takes)
    arrays = to_arrays(items, takes.columns, takes.type)
    assert arrays is not None
    count = (len(items) - firing.peek) // firing.pop + 1
    out = [np.empty(count * firing.push, DTYPES[c.kind]) for c in gives.columns]
    constants = np.array(kernel.constants)
    if compile_kernel(kernel)(count, *arrays, *out, constants):
        return None
    return to_items(out, gives.type)


def raises(function, item):
    try:
        function(item)
    except (ArithmeticError, ValueError, AssertionError):
        return True
    return False


def single(function):
    return Firing(function.__name__, function, 1, 1, 1, single=True, gives_list=False)


@pytest.mark.parametrize("function", needs.quick(6, exact.SINGLE))
def test_a_function_of_a_float(function):
    ordinary = [x for x in numbers(1) if not raises(function, x)]

    assert shown(map(function, ordinary)) == shown(
        run_kernel(single(function), float, ordinary)
    )


@pytest.mark.parametrize("function", needs.quick(6, exact.SINGLE))
@pytest.mark.parametrize("x", ODD)
def test_an_odd_float_is_right_or_left_to_python(function, x):
    given = run_kernel(single(function), float, [x])

    assert given is not None or raises(function, x) or abs(x) >= 2**52 or math.isnan(x)
    if raises(function, x):
        assert given is None
    if given is not None:
        assert shown([function(x)]) == shown(given)


@pytest.mark.parametrize("function", needs.quick(6, exact.WHOLE))
def test_a_function_of_an_int(function):
    items = [*range(-2000, 2000), 2**31, -(2**31)]

    assert shown(map(function, items)) == shown(
        run_kernel(single(function), int, items)
    )


@pytest.mark.parametrize("function", needs.quick(6, exact.RECORDS))
def test_a_function_of_a_record(function):
    chance = random.Random(2)
    items = [
        exact.Point(x, chance.randint(-9, 9), chance.random() < 0.5)
        for x in numbers(3, 50)
    ]

    assert shown(map(function, items)) == shown(
        run_kernel(single(function), exact.Point, items)
    )


@pytest.mark.parametrize(
    ("function", "pop", "push", "peek"), needs.quick_rows(6, exact.BLOCKS)
)
def test_a_block(function, pop, push, peek):
    items = numbers(4, 203)
    firing = Firing(
        function.__name__, function, pop, push, peek, single=False, gives_list=True
    )
    windows = [items[n : n + peek] for n in range(0, len(items) - peek + 1, pop)]

    given = run_kernel(firing, float, items)

    assert shown(y for window in windows for y in function(window)) == shown(given)


@pytest.mark.parametrize("function", REFUSED)
def test_what_is_not_exact_is_refused(function):
    item_type = int if function.__annotations__ == {"n": int, "return": int} else float

    with pytest.raises(RefusedError, match=REFUSED[function]):
        make_kernel(single(function), layout_of(item_type))


def test_a_refusal_names_the_line():
    line = refused.rounds_to_come.__code__.co_firstlineno + 4

    with pytest.raises(RefusedError) as caught:
        make_kernel(single(refused.rounds_to_come), layout_of(float))

    assert caught.value.place.endswith(f"refused.py:{line}")


def test_tracing_changes_nothing_of_the_users():
    for function in (refused.greatest_list, refused.sum_from_a_list):
        with pytest.raises(RefusedError):
            make_kernel(single(function), layout_of(float))

    assert [1.0] == refused.KEPT


@pytest.mark.parametrize(
    "function",
    [
        refused.element_at_an_object,
        refused.slice_up_to_an_object,
        refused.true_object,
    ],
)
def test_tracing_runs_no_special_method_of_the_users(function):
    with pytest.raises(RefusedError):
        make_kernel(single(function), layout_of(float))

    assert 0 == refused.Counter.asked


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "atan", "exp", "log", "sqrt"])
def test_functions_of_math_agree_to_the_last_bit(name):
    function = getattr(math, name)
    items = [x for x in numbers(5, 20_000) if not raises(function, x)]

    assert shown(map(function, items)) == shown(
        run_kernel(single(function), float, items)
    )


def test_filters_that_differ_in_their_numbers_are_one_function():
    def with_taps(*taps):
        def fir(window):
            return [sum(x * tap for x, tap in zip(window, taps, strict=True))]

        firing = Firing("fir", fir, 1, 1, 3, single=False, gives_list=True)
        return make_kernel(firing, layout_of(float))[0]

    one, two = with_taps(1.0, 2.0, 3.0), with_taps(-1.0, 0.5, 0.5)

    assert one.source == two.source
    assert one.constants != two.constants
