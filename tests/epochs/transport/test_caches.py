"""A cache in a state or an item is the same in a copy: entries, their order, counts."""

import functools

import pytest

from anabranch.epochs.transport.pickle import Pickler
from anabranch.graph.graph import Graph


class Numbered:
    """Gives each new call a number."""

    def __init__(self, **parameters):
        self.calls = 0
        self.number = functools.lru_cache(**parameters)(self._number)

    def _number(self, *_, **__):
        self.calls += 1
        return [self.calls]


def copy(value):
    pickler = Pickler(Graph(()))
    return pickler.loads(pickler.dumps_state(value))


CALLS = [
    (("a",), {}),
    ((2,), {}),
    ((2.0,), {}),
    ((True,), {}),
    (((1, 2),), {}),
    ((), {}),
    ((1, 2), {}),
    ((1,), {"b": 2}),
    ((1,), {"b": 2.0, "c": (3,)}),
    ((), {"b": 2}),
    ((frozenset([1]), None), {}),
]


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("maxsize", [None, 0, 1, 4, 128])
def test_a_copy_goes_on_as_the_original(maxsize, typed):
    original, plain = (Numbered(maxsize=maxsize, typed=typed) for _ in range(2))
    for count in range(40):
        args, kwargs = CALLS[count * count % 11 if count % 3 else count % 2]
        expected = plain.number(*args, **kwargs), plain.number.cache_info()

        given = original.number(*args, **kwargs), original.number.cache_info()
        original = copy(original)

        assert expected == given
    assert plain.calls == original.calls


def test_a_cleared_copy_counts_from_zero():
    original = Numbered()
    original.number(1)
    same = copy(original)

    same.number.cache_clear()

    assert (0, 0, 128, 0) == same.number.cache_info()
    assert [2] == same.number(1)


def test_results_are_objects_of_the_copy():
    original = Numbered()
    original.shown = original.number("a")

    same = copy(original)
    same.shown.append("seen")

    assert [1, "seen"] == same.number("a")
    assert [1] == original.number("a")


def test_a_recursive_cache_keeps_its_entries():
    state = {}

    @functools.cache
    def fibonacci(n):
        state[n] = len(state)
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    fibonacci(20)
    same, calls = copy((fibonacci, state))

    assert 6765 == same(20)
    assert 21 == len(calls)
    assert 10946 == same(21)
    assert 22 == len(calls)
