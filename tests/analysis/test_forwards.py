"""Which attributes count as forwarded, by the function."""

from typing import NamedTuple

import pytest

from anabranch.analysis.callables import written
from anabranch.analysis.forwards import Outputs


class Item(NamedTuple):
    a: int
    b: int
    c: int


class Pair(NamedTuple):
    a: int
    b: int


def renamed(item):
    other = item
    return Pair(other.a, b=other.b)


def assigned_twice(item):
    a = item.a
    a = a + 1
    return Pair(a, item.b)


def unpacked(item):
    a, b, _ = item
    return Pair(a, b)


def on_one_path(item):
    if item.a:
        return item
    return Pair(item.a, 0)


CHANGED = {"b": 1}
CASES = {
    "the item itself": (lambda item: item, None),
    "by position": (lambda item: Pair(item.a, item.c), {"a"}),
    "by keyword": (lambda item: Pair(b=item.b, a=0), {"b"}),
    "swapped": (lambda item: Pair(item.b, item.a), set()),
    "all but what is replaced": (lambda item: item._replace(b=0), {"a", "c"}),
    "replaced by itself": (lambda item: item._replace(b=item.b), {"a", "b", "c"}),
    "replaced from a mapping": (lambda item: item._replace(**CHANGED), set()),
    "a choice forwards what both do": (
        lambda item: Pair(item.a, item.b) if item.c else Pair(item.a, 0),
        {"a"},
    ),
    "computed": (lambda item: Pair(item.a + 0, item.b), {"b"}),
    "a number": (lambda item: item.a, set()),
    "through another name": (renamed, {"a", "b"}),
    "a name that is assigned twice": (assigned_twice, {"b"}),
    "unpacking": (unpacked, {"a", "b"}),
    "two returns": (on_one_path, {"a"}),
}


@pytest.mark.parametrize(("function", "kept"), CASES.values(), ids=CASES)
def test_of_result(function, kept):
    source = written(function)
    outputs = Outputs(source.node, source.function, {"item": "item"}, Item)

    assert kept == outputs.of_result()
