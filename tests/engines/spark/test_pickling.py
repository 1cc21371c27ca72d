"""Instances of a program's classes keep their class and their value."""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest

import anabranch as ab
from anabranch.engines.spark.pickling import Pickler
from anabranch.graph.drafts import build_graph


def test_local_classes_come_back_as_themselves():
    class Item(NamedTuple):
        n: int

    @dataclass(frozen=True)
    class Other:
        item: Item

    class Count(ab.Operator):
        def setup(self):
            self.seen = deque([Item(1)])

        def process(self, item):
            yield Other(item)

    source = ab.from_iterable([Item(1)], Item).apply(Count, type=Other)
    pickler = Pickler(build_graph([source.to_list()]))
    instance = Count()
    instance.setup()

    item, other, found = pickler.loads(
        pickler.dumps((Item(3), Other(Item(4)), instance))
    )

    assert (Item, Item(3)) == (type(item), item)
    assert (Other, Other(Item(4))) == (type(other), other)
    assert Count is type(found)
    assert deque([Item(1)]) == found.seen


@pytest.mark.parametrize(
    "value", [[1, 1.0, True], {"a": {1, 2}}, 10**30, b"\0", (None, "\ud800")]
)
def test_plain_values_come_back_with_their_types(value):
    pickler = Pickler(build_graph([ab.from_iterable([]).to_list()]))

    assert repr(value) == repr(pickler.loads(pickler.dumps(value)))


def test_arrays_stay_arrays():
    pickler = Pickler(build_graph([ab.from_iterable([]).to_list()]))

    found = pickler.loads(pickler.dumps([np.arange(3)]))

    assert isinstance(found[0], np.ndarray)
    assert [0, 1, 2] == found[0].tolist()
