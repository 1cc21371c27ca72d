"""What a pickled copy lacks is found wherever it is, if a program may read it."""

import io
from collections import deque
from decimal import Decimal

import numpy as np
import pytest

from anabranch.epochs.transport.pickle import PickledNames, ValuePickler
from anabranch.errors import EngineError


class Kept:
    """Its hooks lose `extra`, and keep all else in new containers."""

    extra = None

    def __init__(self, value, extra=None):
        self.value, self.extra = value, extra

    def __getstate__(self):
        return [self.value]

    def __setstate__(self, state):
        (self.value,) = state


def write(value, *reads):
    buffer = io.BytesIO()
    ValuePickler(buffer, PickledNames(reads=frozenset(reads))).dump(value)


def chain(length):
    one = None
    for _ in range(length):
        one = Kept(one)
    return one


INSIDE = {
    "a list": lambda one: [one],
    "a dict": lambda one: {"a": {"b": one}},
    "a tuple in a deque": lambda one: deque([(one,)]),
    "another such object": Kept,
}
EQUAL = {
    "a NaN": float("nan"),
    "a set": {1, "a"},
    "an array": np.array([1.0, float("nan")]),
    "an object of a library": Decimal("1.50"),
    "a function": chain,
    "a method": "a".upper,
    "many": chain(100),
    "containers": [{"a": deque([bytearray(b"x"), (1, 2.5, None, 1j)])}],
}


@pytest.mark.parametrize("put", INSIDE.values(), ids=INSIDE)
def test_a_loss_is_found_inside_of(put):
    with pytest.raises(EngineError, match=r"Kept\.extra is .*test_losses\.py:\d+"):
        write(put(Kept(1, extra=2)), "extra", "value")


@pytest.mark.parametrize("put", INSIDE.values(), ids=INSIDE)
def test_what_no_code_names_may_be_lost(put):
    write(put(Kept(1, extra=2)), "value")


@pytest.mark.parametrize("value", EQUAL.values(), ids=EQUAL)
def test_what_is_kept_is_no_loss(value):
    write(Kept(value), "value", "extra")
    write(Kept(value, extra=None), "value", "extra")


def test_objects_that_refer_to_each_other_are_compared():
    one, other = Kept(None), Kept(None)
    one.value, other.value = [other], {"one": one}

    write(one, "value", "extra")
    other.extra = 1
    with pytest.raises(EngineError):
        write(one, "value", "extra")


def test_a_zero_keeps_its_sign():
    class Plus(float):
        def __reduce__(self):
            return Plus, (abs(self),)

    with pytest.raises(EngineError, match=r"the value of a .*Plus"):
        write([Plus(-0.0)])
