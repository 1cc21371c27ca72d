"""Operators without state: what goes out for one item."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.errors import OperatorError
from anabranch.operators.stateless import (
    WINDOW,
    Filter,
    FilterKernel,
    FlatMap,
    FlatMapKernel,
    Map,
    MapKernel,
    PassKernel,
    Punctuate,
    PunctuateKernel,
    Split,
    SplitKernel,
)


def countdown(n):
    while n:
        yield n
        n -= 1


def fails_late(n):
    yield n
    raise ValueError(n)


CASES = {
    "map gives one": (MapKernel(Map(str)), 3, ["3"]),
    "map gives None where the function does": (MapKernel(Map(lambda _: None)), 3, [None]),
    "filter keeps what is true": (FilterKernel(Filter(lambda n: n)), 3, [3]),
    "filter drops what is empty": (FilterKernel(Filter(lambda n: [])), 3, []),
    "flat_map gives all of an iterator": (FlatMapKernel(FlatMap(countdown)), 3, [3, 2, 1]),
    "flat_map may give nothing": (FlatMapKernel(FlatMap(lambda _: ())), 3, []),
    "punctuate puts the mark behind": (PunctuateKernel(Punctuate(bool)), 3, [3, WINDOW]),
    "punctuate passes others on": (PunctuateKernel(Punctuate(bool)), 0, [0]),
    "union passes on": (PassKernel(), 3, [3]),
    "split by an index": (SplitKernel(Split(lambda n: n, 4)), 3, [(3, 3)]),
    "split by an index of numpy": (SplitKernel(Split(np.int64, 4)), 3, [(3, 3)]),
    "split to several, as named, each once": (SplitKernel(Split(lambda _: (2, 0, 2), 3)), 7, [(2, 7), (0, 7)]),
    "split to none": (SplitKernel(Split(lambda _: [], 3)), 7, []),
}  # fmt: skip


@pytest.mark.parametrize(("kernel", "item", "outputs"), CASES.values(), ids=CASES)
def test_outputs(kernel, item, outputs):
    assert outputs == list(kernel.process(kernel.open(), item, 0))


@pytest.mark.parametrize("branch", [-1, 2, (0, 2)])
def test_a_route_outside_the_branches_is_refused_as_a_whole(branch):
    kernel = SplitKernel(Split(lambda _: branch, 2))

    with pytest.raises(OperatorError, match="indices from 0 to 1; got"):
        kernel.process(None, "x", 0)


def test_a_flat_map_that_forgets_to_return_is_told_so():
    kernel = FlatMapKernel(FlatMap(lambda _: None))

    with pytest.raises(OperatorError, match="is a return or a yield missing"):
        kernel.process(None, "x", 0)


def test_a_flat_map_that_fails_on_the_way_gives_nothing():
    kernel = FlatMapKernel(FlatMap(fails_late))

    with pytest.raises(ValueError, match="7"):
        kernel.process(None, 7, 0)
