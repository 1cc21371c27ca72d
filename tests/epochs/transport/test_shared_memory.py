"""What objects of a state share they share in a copy, and a small part travels alone."""

import array
from collections import OrderedDict
from types import MappingProxyType

import numpy as np
import pandas as pd
import pytest

from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import EngineError
from anabranch.graph.graph import Graph

PICKLER = Pickler(Graph(()), lasting=True)


def copy(state):
    return PICKLER.loads(PICKLER.dumps_state(state))


def slice_of(ring):
    return [ring, ring[1:]]


def bytes_below(count):
    data = bytearray(8 * count)
    return [np.frombuffer(data), data]


def column_of(ring):
    table = np.vstack([ring, ring])
    return [table, table[:, 1]]


def values_of(ring):
    column = pd.Series(ring, copy=False)
    return [ring, column, column.to_numpy()]


PARTS = {
    "a slice and its base": lambda: slice_of(np.zeros(4)),
    "two slices of what is not kept": lambda: [
        (ring := np.zeros(9))[1:6],
        ring[8:3:-2],
    ],
    "a column of a table": lambda: column_of(np.zeros(4)),
    "a transposed table": lambda: [(t := np.zeros((2, 3))).T, t[1], t.reshape(6)],
    "other bytes of one memory": lambda: [(t := np.zeros(4)), t.view(np.int32)[3:]],
    "a buffer and its bytes": lambda: bytes_below(3),
    "bytes, then arrays in them": lambda: bytes_below(3)[::-1],
    "a buffer of an array of Python": lambda: [
        (data := array.array("d", [0, 0, 0])),
        np.frombuffer(data)[1:],
    ],
    "two buffers of lost bytes": lambda: [
        (one := np.frombuffer(bytearray(32))),
        one[2:],
    ],
    "dates": lambda: [(d := np.zeros(3, "M8[s]")), d[::2]],
    "a Series and its values": lambda: values_of(np.zeros(3)),
}


def fill(part, number):
    """Write into all elements of an array, or of what is like one."""
    if isinstance(part, pd.Series):
        return
    whole = np.asarray(part) if isinstance(part, np.ndarray) else np.frombuffer(part)
    if whole.flags.writeable:
        whole[...] = np.asarray(number).astype(whole.dtype)


def show(parts):
    return [np.array(part).tobytes() for part in parts]


@pytest.mark.parametrize("make", PARTS.values(), ids=PARTS)
def test_what_is_written_into_one_is_seen_in_the_others(make):
    original, same = make(), copy(make())

    for number in range(1, 6):
        which = number % len(original)
        fill(original[which], number)
        fill(same[which], number)

        assert show(original) == show(same)
        same = copy(same)


def test_arrays_lie_and_step_as_they_did():
    table = np.arange(60.0).reshape(3, 4, 5)
    parts = [table, table[::-1, 1:3, ::2], table.T[2:4], table[1]]
    parts[1].flags.writeable = False

    same = copy(parts)

    for one, other in zip(parts, same, strict=True):
        assert one.tolist() == other.tolist()
        assert one.strides == other.strides
        assert one.flags.writeable == other.flags.writeable
        assert one.__array_interface__["data"][0] % 64 == (
            other.__array_interface__["data"][0] % 64
        )


def test_a_small_part_of_a_large_array_travels_alone():
    table = np.zeros((1000, 1000))

    assert len(PICKLER.dumps_state([table[3, :4], table[500, :4]])) < 1000
    assert len(PICKLER.dumps_state([table[3, :4], table[3, 2:6]])) < 1000


def test_arrays_of_objects_that_share_memory_are_refused():
    ring = np.array([None, [1], "a"], dtype=object)

    assert [None, [1], "a"] == copy([ring])[0].tolist()
    with pytest.raises(EngineError, match="one is of type ndarray with elements of"):
        copy([ring, ring[1:]])


VIEWS = {
    "keys": lambda d: d.keys(),
    "values": lambda d: d.values(),
    "items": lambda d: d.items(),
    "proxy": MappingProxyType,
}


@pytest.mark.parametrize("kind", [dict, OrderedDict])
@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_view_goes_on_showing_its_dict(make, kind):
    held = kind(a=1)
    for state in ([held, make(held)], [make(held), held]):
        same = copy(state)
        mapping, view = sorted(same, key=lambda one: type(one) is not kind)

        mapping["b"] = 2

        assert list(make(kind(a=1, b=2))) == list(view)
        assert type(make(held)) is type(view)
