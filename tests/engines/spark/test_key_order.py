"""At the end of a stream keys finish in order, also where functions have effects."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.errors import OperatorError
from tests.engines.spark.imitation import Cluster, imitated, undisturbed

ITEMS = "dacbfe"
DIVISIONS = [{"degree": 1}, {"degree": 2, "epoch_items": 2}]

count = 0


def number(window):
    global count  # noqa: PLW0603 - a program like those of users
    count += 1
    return count, window[0]


class Number(ab.Operator):
    def process(self, item):
        self.item = item
        return ()

    def finish(self):
        global count  # noqa: PLW0603 - as above
        count += 1
        return [(count, self.item)]


class Fail(ab.Operator):
    def process(self, item):
        self.item = item
        return ()

    def finish(self):
        if self.item in "bcef":
            msg = f"no {self.item}"
            raise ValueError(msg)
        return [self.item]


def key_items():
    return ab.from_iterable(ITEMS).key_by(lambda item: item)


PROGRAMS = {
    "aggregate": lambda: key_items().window(count=2).aggregate(number),
    "finish": lambda: key_items().apply(Number),
}


@pytest.mark.parametrize("division", DIVISIONS, ids=str)
@pytest.mark.parametrize("make", PROGRAMS.values(), ids=list(PROGRAMS))
def test_functions_with_effects_finish_in_key_order(
    make, division, monkeypatch, tmp_path
):
    monkeypatch.setitem(globals(), "count", 0)
    sink = make().to_list()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(sink, on="spark", **division)

    expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]
    assert expected == sink.items


@pytest.mark.parametrize("division", DIVISIONS, ids=str)
def test_the_first_key_that_fails_is_named_over_all_replicas(
    division, monkeypatch, tmp_path
):
    sink = key_items().apply(Fail).to_list()

    with (
        imitated(monkeypatch, Cluster(undisturbed), tmp_path),
        pytest.raises(OperatorError, match="for key 'b': ValueError: no b"),
    ):
        ab.run(sink, on="spark", **division)
