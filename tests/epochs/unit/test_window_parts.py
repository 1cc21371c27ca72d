"""Windows without a key in two steps: replicas add up, one task merges; no bit differs."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.unit.make_parts import PartMaker
from anabranch.errors import OperatorError, PlanError
from anabranch.plan.integrity import check
from anabranch.plan.json import from_dict, to_dict
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated
from tests.engines.spark.test_clocks import undisturbed


class Reading(NamedTuple):
    ts: int
    place: str
    level: int
    value: float


COLUMNS = {
    "n": ab.count(),
    "total": ab.sum("level"),
    "mean": ab.mean("level"),
    "least": ab.min("value"),
    "most": ab.max("level"),
    "first": ab.first("place"),
    "last": ab.last("value"),
    "some": ab.any("level"),
    "places": ab.counts("place"),
    "top": ab.highest("value"),
    "bottom": ab.lowest("level"),
    "start": ab.window_start(),
    "end": ab.window_end(),
}
ODD: dict[str, tuple[Any, ...]] = {
    "level": (0.1, 2**70, True, 1e16),
    "value": (float("nan"), 3, -0.0, 0.0),
    "place": (None, 7, 1.5),
}


def readings(seed: int, *, odd: bool, late: bool) -> list[Reading]:
    """Return readings of rising times, some of them odd or late."""
    rng = Random(seed)
    time, found = rng.randrange(-40, 40), []
    for _ in range(rng.randrange(1, 160)):
        time += rng.choice([0, 0, 0, 1, 1, 2, 9]) if rng.random() < 0.9 else 0
        ts = time - (rng.randrange(1, 12) if late and rng.random() < 0.1 else 0)
        level, value = rng.randrange(-5, 50), rng.choice([-1.5, 0.0, 2.25, 1e300])
        one = Reading(ts, rng.choice("abc"), level, value)
        if odd and rng.random() < 0.1:
            name = rng.choice([*ODD])
            one = one._replace(**{name: rng.choice(ODD[name])})
        found.append(one)
    return found


def windows(items: list[Reading], seed: int, late: str) -> ab.Stream:
    rng = Random(seed)
    names = rng.sample([*COLUMNS], rng.randrange(1, len(COLUMNS)))
    every = rng.choice([None, 3, 4, 10, 15])
    stream = ab.from_iterable(items, Reading).map(lambda r: r._replace(ts=r.ts + 1))
    return stream.window(time=10, every=every, on="ts", late=late).aggregate(
        **{name: COLUMNS[name] for name in names}
    )


@pytest.fixture
def on_imitation(monkeypatch, tmp_path):
    """Run sinks on an imitation of Spark; return whether parts were made."""
    made = []
    make = PartMaker.make

    def note(self, batch):
        found = make(self, batch)
        made.append(found is not batch)
        return found

    monkeypatch.setattr(PartMaker, "make", note)

    def run(*sinks, **options):
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
            ab.run(*sinks, on="spark", **options)
        return any(made)

    return run


@pytest.mark.parametrize("seed", needs.quick(8, range(400)))
def test_the_windows_are_those_of_one_thread(seed, on_imitation):
    rng = Random(seed)
    late = rng.choice(["drop", "current", "error"])
    items = readings(seed, odd=rng.random() < 0.3, late=late != "error")
    expected, actual = (windows(items, seed, late).to_list() for _ in range(2))
    ab.run(expected, on="sequential")

    on_imitation(
        actual, degree=rng.randrange(1, 4), epoch_items=rng.choice([7, 30, 1000])
    )

    assert repr(expected.items) == repr(actual.items)  # NaN equals nothing


def test_the_task_that_merges_gets_parts(on_imitation):
    items = [Reading(n // 20, "a", n, n / 7) for n in range(400)]
    stream = ab.from_iterable(items, Reading).filter(lambda r: r.level >= 0)
    out = stream.window(time=10, on="ts").aggregate(n=ab.count(), total=ab.sum("level"))
    sink = out.to_list()

    assert on_imitation(sink, degree=2)
    assert [(200, 19900), (200, 59900)] == [tuple(row) for row in sink.items]


def test_numbers_whose_order_or_size_matters_are_those_of_one_thread(on_imitation):
    """
    Sums that exceed 64 bits, zeros of both signs, and extremes that several items have.
    """
    huge, zeros = (1 << 62) - 1, (-0.0, 0.0)

    def out() -> ab.Result:
        items = [
            Reading(n // 8, "a", huge - n % 2, zeros[n // 40 % 2] + n % 3)
            for n in range(400)
        ]
        stream = ab.from_iterable(items, Reading).filter(lambda r: r.level >= 0)
        return (
            stream.window(time=10, on="ts")
            .aggregate(
                total=ab.sum("level"),
                low=ab.min("value"),
                high=ab.max("level"),
                lowest=ab.lowest("value"),
                highest=ab.highest("level"),
                last=ab.last("value"),
            )
            .to_list()
        )

    expected, actual = out(), out()
    ab.run(expected, on="sequential")

    assert on_imitation(actual, degree=2)
    assert repr(expected.items) == repr(actual.items)


def test_a_late_item_is_named_as_one_thread_names_it(on_imitation):
    def out() -> ab.Result:
        items = [
            Reading(t, "a", n, 0.0) for n, t in enumerate([1] * 9 + [30] * 9 + [2] * 9)
        ]
        stream = ab.from_iterable(items, Reading).map(lambda r: r)
        return stream.window(time=10, on="ts").aggregate(n=ab.count()).to_list()

    texts = []
    for run in (lambda sink: ab.run(sink, on="sequential"), on_imitation):
        with pytest.raises(OperatorError) as raised:
            run(out())
        texts.append(str(raised.value).split("\n")[0])

    assert texts[0] == texts[1]
    assert "level=18" in texts[1]


@pytest.mark.parametrize(
    ("build", "options"),
    [
        (lambda s: s.window(count=3).aggregate(n=ab.count()), {}),
        (lambda s: s.window(time=5.5, on="ts").aggregate(n=ab.count()), {}),
        (lambda s: s.window(time=5, on="ts").aggregate(len), {}),
        (
            lambda s: s.key_by("place").window(time=5, on="ts").aggregate(n=ab.count()),
            {},
        ),
        (lambda s: s.event_time("ts").window(time=5).aggregate(n=ab.count()), {}),
        (
            lambda s: s.window(time=5, on="ts").aggregate(n=ab.count()),
            {"on_error": "skip"},
        ),
        (lambda s: s.window(time=5, on="ts").aggregate(n=ab.count()), {"on": "local"}),
    ],
)
def test_other_windows_are_computed_in_one_step(build, options):
    stream = ab.from_iterable([Reading(1, "a", 1, 1.0)], Reading).map(lambda r: r)

    plan = ab.compile(build(stream).to_list(), **options).plan

    assert [] == [op.name for op in plan.operators if op.in_parts]


def test_explain_says_that_a_window_has_two_steps():
    stream = ab.from_iterable([Reading(1, "a", 1, 1.0)], Reading).map(lambda r: r)
    made = ab.compile(stream.window(time=5, on="ts").aggregate(n=ab.count()).to_list())

    text = " ".join(made.explain().split())
    assert "in two steps: each replica of r0 pre-aggregates its range" in text
    again = from_dict(to_dict(made.plan))
    assert [True] == [op.in_parts for op in again.operators if op.name == "aggregate"]


def test_a_plan_that_adds_up_what_is_no_range_is_refused():
    stream = ab.from_iterable([Reading(1, "a", 1, 1.0)], Reading).key_by("place")
    scanned = stream.scan(lambda n, r: (n, r), 0).key_by()
    made = ab.compile(scanned.window(time=5, on="ts").aggregate(n=ab.count()).to_list())
    data = to_dict(made.plan)
    for op in data["operators"]:
        op["in_parts"] = op["name"] == "aggregate"

    with pytest.raises(PlanError, match="but not from contiguous ranges"):
        check(made.graph, from_dict(data))
