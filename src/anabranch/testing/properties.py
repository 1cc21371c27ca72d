"""Check on samples what a program declares or relies on.

A check that passes proves nothing, but one that fails has found a counterexample.
"""

from __future__ import annotations

import copy
import random
import reprlib
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.testing.sameness import is_same

ORDERS = 20  # random orders in which the sample is tried
_SEED = 1


def assert_stateless(
    function: Callable[[Any], Any], items: Sequence[Any], orders: int = ORDERS
) -> None:
    """Assert that a function gives the same for an item whatever came before it.

    The result of a generator function is compared as a list.

    >>> import anabranch as ab
    >>> ab.testing.assert_stateless(lambda n: n * n, range(10))
    >>> seen = set()
    >>> def is_new(n):
    ...     known = n in seen
    ...     seen.add(n)
    ...     return not known
    >>> ab.testing.assert_stateless(is_new, [1, 2, 1])
    Traceback (most recent call last):
        ...
    AssertionError: is_new must give the same for an item in every order; for 2 it gave True, then False
    """
    first: dict[int, Any] = {}
    for order in _orders(len(items), orders):
        for index in order:
            item = copy.deepcopy(items[index])
            result = function(item)
            if hasattr(result, "__next__"):
                result = list(result)
            known = first.setdefault(index, result)
            if not is_same(known, result):
                msg = (
                    f"{_name(function)} must give the same for an item in every order; "
                    f"for {reprlib.repr(items[index])} it gave {reprlib.repr(known)}, "
                    f"then {reprlib.repr(result)}"
                )
                raise AssertionError(msg)


def assert_commutative(
    step: Callable[[Any, Any], Any],
    initial: Any,
    items: Sequence[Any],
    orders: int = ORDERS,
) -> None:
    """Assert that `step(state, item) -> state` ends with one state in every order.

    >>> import anabranch as ab
    >>> ab.testing.assert_commutative(lambda total, n: total + n, 0, [1, 2, 3])
    >>> ab.testing.assert_commutative(lambda total, x: total + x, 0.0, [0.1, 0.2, 0.3])
    Traceback (most recent call last):
        ...
    AssertionError: <lambda> must end with one state in every order; it ended with 0.6000000000000001 and with 0.6
    """
    expected: list[Any] = []
    for order in _orders(len(items), orders):
        state = copy.deepcopy(initial)
        for index in order:
            state = step(state, copy.deepcopy(items[index]))
        expected = expected or [state]
        if not is_same(expected[0], state):
            msg = (
                f"{_name(step)} must end with one state in every order; it ended with "
                f"{reprlib.repr(expected[0])} and with {reprlib.repr(state)}"
            )
            raise AssertionError(msg)


def _orders(size: int, number: int) -> list[list[int]]:
    """Return the order of the sample, its reverse, and some random ones."""
    given = list(range(size))
    chance = random.Random(_SEED)
    return [given, given[::-1], *(chance.sample(given, size) for _ in range(number))]


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", repr(function))
