"""A job goes on after a change of tuple types that its states do not depend on."""

from __future__ import annotations

from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.errors import AnabranchError
from tests.engines.spark.imitation import Killed, undisturbed

ROWS = 24


class Point(NamedTuple):
    key: str
    n: int


class Wide(NamedTuple):
    key: str
    n: int
    more: str


class Pair(NamedTuple):
    first: int
    last: int


POINTS = [Point("ab"[n % 2], n) for n in range(ROWS)]


def widen(one: Point) -> Wide:
    return Wide(one.key, one.n, "x")


def narrow(one: Wide) -> Point:
    return Point(one.key, one.n)


def remember(last: object, one: Point) -> tuple[object, Pair]:
    """Keep the item itself as the state."""
    return one, Pair(-1 if last is None else last.n, one.n)


def remember_wide(last: object, one: Point) -> tuple[object, Pair]:
    return widen(one), Pair(-1 if last is None else last.n, one.n)


def plain(stream):
    return stream


def there_and_back(stream):
    return stream.map(widen).map(narrow)


EXPECTED = [Pair(max(n - 2, -1), n) for n in range(ROWS)]


def run(folder, seen, shape, step=remember):
    pairs = shape(ab.from_iterable(POINTS, Point)).key_by("key").scan(step, None)
    sink = pairs.for_each(seen.append)
    ab.run(sink, epoch_items=6, degree=2, checkpoint=folder / "checkpoint")


def die_once(place, epoch):
    left = [(place, epoch)]

    def die(*at):
        if at in left:
            left.clear()
            raise Killed

    return die


@pytest.mark.parametrize(
    "shapes",
    [(plain, there_and_back, plain), (there_and_back, plain, there_and_back)],
    ids=["comes and goes", "goes and comes"],
)
def test_the_type_of_an_operator_without_state(tmp_path, cluster_of, shapes):
    """States keep the numbers of their types, whatever is before them."""
    seen: list[Pair] = []
    for epoch, shape in enumerate(shapes, 1):
        cluster_of(undisturbed, in_driver=die_once("delivered", epoch))
        if epoch < len(shapes):
            with pytest.raises(Killed):
                run(tmp_path, seen, shape)
            del seen[epoch * 6 :]  # the epoch that was not marked comes again
            seen = seen[: (epoch - 1) * 6]
        else:
            cluster_of(undisturbed)
            run(tmp_path, seen, shape)

    assert EXPECTED == seen


def test_a_type_that_is_gone_and_in_a_state_stops_the_job(tmp_path, cluster_of):
    seen: list[Pair] = []
    cluster_of(undisturbed, in_driver=die_once("delivered", 2))
    with pytest.raises(Killed):
        run(tmp_path, seen, there_and_back, remember_wide)
    del seen[6:]  # the epoch that was not marked comes again

    cluster_of(undisturbed)
    with pytest.raises(AnabranchError, match="no longer in the program"):
        run(tmp_path, seen, plain, remember)

    run(tmp_path, seen, there_and_back, remember_wide)
    assert EXPECTED == seen
