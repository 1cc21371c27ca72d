"""Programs behind a clock on Spark: any degree, also one that changes, and restarts.

On an imitation of Spark (see `imitation`), where replicas and epochs cost little.
"""

from __future__ import annotations

import datetime as dt
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import pytest

import anabranch as ab
from anabranch.epochs.loop import Epochs
from anabranch.errors import EngineError
from tests import needs
from tests.engines.spark.imitation import Cluster, imitated, undisturbed
from tests.programs.functions import (
    Event,
    Replay,
    Sheaves,
    numbered,
    smooth_block,
    to_itself,
    total,
)
from tests.programs.generate import assert_same, program
from tests.programs.timed import SHIFTS, shake, shift_by

LONG = (1002, 1010, 1018, 1031, 1037, 1043)  # programs of five epochs, mostly clocked


class CutOffError(Exception):
    """Ends a run between two epochs."""


@pytest.mark.parametrize("seed", needs.quick(1, range(500)))
def test_a_degree_that_changes_from_epoch_to_epoch_changes_nothing(
    seed, monkeypatch, tmp_path
):
    rng = Random(seed)
    epoch_items = rng.choice([7, 20, 40, 1000])
    run_epoch = Epochs.run

    def run_with_any_degree(self, pieces):
        self.divider.degree = rng.randint(1, 5)
        run_epoch(self, pieces)

    monkeypatch.setattr(Epochs, "run", run_with_any_degree)

    def run(sinks):
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
            ab.run(*sinks, on="spark", degree=2, epoch_items=epoch_items)

    assert_same(program(seed, timed=True), run)


@pytest.mark.parametrize("seed", needs.quick(1, [*range(1100, 1200), *LONG]))
def test_a_job_that_goes_on_from_its_checkpoint_gives_the_rest(
    seed, monkeypatch, tmp_path
):
    """
    Lists have what was delivered after the restart, so what both runs gave is the whole.
    """
    rng = Random(seed)
    last = rng.randint(1, 4)
    run_epoch = Epochs.run

    def run_until_interrupted(self, pieces):
        if self.stamp.epoch == last:
            raise CutOffError
        self.divider.degree = rng.randint(1, 4)
        run_epoch(self, pieces)

    options = {"on": "spark", "degree": 3, "epoch_items": 12}
    generated = program(seed, timed=True)

    def run(sinks):
        before = generated.build()
        with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
            with monkeypatch.context() as patch:
                patch.setattr(Epochs, "run", run_until_interrupted)
                try:
                    ab.run(*before, checkpoint=tmp_path / "checkpoint", **options)
                except CutOffError:
                    again = True
                else:
                    again = False
            if again:
                ab.run(*sinks, checkpoint=tmp_path / "checkpoint", **options)
        for one, two in zip(before, sinks, strict=True):
            two.draft.kind.items[:0] = one.draft.kind.items

    assert_same(generated, run)


class Tick(NamedTuple):
    ts: Any
    key: str


class Sample(NamedTuple):
    number: int
    value: int


def join_ends(seen: list[Sample]) -> list[Sample]:
    return [Sample(seen[0].number, seen[0].value + seen[-1].value)]


@ab.declare(push=(1, 1))
def some(sample: Sample) -> list[Sample]:
    return [sample] if sample.value % 3 else []


def number(count: int, sample: Sample) -> tuple[int, Sample]:
    return count + 1, Sample(sample.number, sample.value + count)


def is_sign(event: Event) -> bool:
    return event.key == "sign"


def first(events: list[Event]) -> Event:
    return events[0]


def make_ticks(seed, count=90):
    """Times that stand still for a while, jump, and fall behind now and then."""
    rng, now, found = Random(seed), 0, []
    for _ in range(count):
        now += rng.choice([0, 0, 0, 1, 40])
        found.append(Tick(now - rng.choice([0, 0, 2, 9]), rng.choice("abcd")))
    return found


def run_imitated(sink, monkeypatch, tmp_path, **options):
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(sink, on="spark", **options)
    return sink.items


def of_regions(sink):
    return [name for one in ab.compile(sink).plan.regions for name in one.operators]


@pytest.mark.parametrize("how", ["window", "apply"])
@pytest.mark.parametrize("epoch_items", [1, 2, 7])
def test_a_punctuation_reaches_keys_of_earlier_epochs_that_may_be_forgotten(
    how, epoch_items, monkeypatch, tmp_path
):
    keys = ("b", "a", "c", "sign", "a")
    events = [Event(ts, key, 0, 0) for ts, key in enumerate(keys)]
    signs = ab.from_iterable(events, Event).event_time("ts").punctuate(is_sign)
    keyed = signs.key_by("key", forget_after=100)
    windows = keyed.window(punctuation=True).aggregate(first)
    out = (windows if how == "window" else keyed.apply(Sheaves)).to_list()

    found = run_imitated(out, monkeypatch, tmp_path, epoch_items=epoch_items)

    assert [events[n] for n in (1, 0, 2, 3, 4)] == found


@pytest.mark.parametrize("late", ["drop", "current"])
@pytest.mark.parametrize("degree", [2, 5])
def test_each_range_begins_with_the_clock_of_the_ranges_before_it(
    late, degree, monkeypatch, tmp_path
):
    ticks = make_ticks(degree)
    clock, expected = float("-inf"), []
    for tick in ticks:
        if tick.ts >= clock or late == "current":
            expected.append(tick)
        clock = max(clock, tick.ts - 3)
    source = ab.from_iterable(ticks, Tick).map(lambda t: t)
    sink = source.event_time("ts", lateness=3, late=late).to_list()

    assert len(ticks) > len(expected) or late == "current"
    assert "event_time" in of_regions(sink)
    assert expected == run_imitated(
        sink, monkeypatch, tmp_path, degree=degree, epoch_items=40
    )


def test_an_item_that_is_late_for_an_earlier_range_fails_by_itself(
    monkeypatch, tmp_path
):
    times = [1, 50, "x", 2, 60, 3, None, 70, 4, 5]
    ticks = [Tick(time, "a") for time in times]
    failed = []
    made = ab.from_iterable(ticks, Tick).event_time("ts", late="dead_letter").to_list()

    kept = run_imitated(
        made,
        monkeypatch,
        tmp_path,
        degree=4,
        on_error=ab.dead_letter(lambda failure: failed.append(failure.item.ts)),
    )

    assert [1, 50, 60, 70] == [tick.ts for tick in kept]
    assert sorted(["x", 2, 3, None, 4, 5], key=str) == sorted(failed, key=str)


def test_what_times_are_is_told_by_the_first_of_all_ranges(monkeypatch, tmp_path):
    day, later = dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 2)  # noqa: DTZ001
    times = [day, day, 7, 8, later, 9, day, later, 10, 11]
    failed = []
    made = ab.from_iterable([Tick(t, "a") for t in times], Tick).event_time("ts")

    kept = run_imitated(
        made.to_list(),
        monkeypatch,
        tmp_path,
        degree=5,
        on_error=ab.dead_letter(lambda failure: failed.append(failure.item.ts)),
    )

    assert [day, day, later, later] == [tick.ts for tick in kept]
    assert [7, 8, 9, 10, 11] == sorted(failed)


@pytest.mark.parametrize("seed", range(4))
def test_a_union_of_clocks_goes_on_where_the_ranges_before_have_left_it(
    seed, monkeypatch, tmp_path
):
    def build():
        one, two = (
            ab.from_iterable(make_ticks(seed + n, 60), Tick).event_time("ts")
            for n in (0, 100)
        )
        both = ab.union(one, two).map(lambda t: Tick(t.ts, t.key + "x"))
        sizes = both.key_by("key").window(time=10, on="ts").aggregate(len)
        return ab.union(sizes, both).to_list()

    expected = build()
    ab.run(expected, on="sequential")

    found = build()
    assert "union" in of_regions(found)
    assert expected.items == run_imitated(
        found, monkeypatch, tmp_path, degree=3, epoch_items=30
    )


@pytest.mark.parametrize("degree", [1, 2])
def test_a_block_that_looks_ahead_keeps_its_place_among_other_streams(
    degree, monkeypatch, tmp_path
):
    samples = [Sample(n % 3, n) for n in range(20)]
    source = ab.from_iterable(samples, Sample)
    ends = source.block(join_ends, pop=1, push=1, peek=3)
    both = ab.union(ends, source).key_by("number").scan(number, 0).to_list()
    merged = [
        sample
        for place, one in enumerate(samples)
        for sample in [
            *([Sample((place - 2) % 3, 2 * place - 2)] if place > 1 else []),
            one,
        ]
    ]
    seen = dict.fromkeys(range(3), 0)
    expected = []
    for one in merged:
        expected.append(Sample(one.number, one.value + seen[one.number]))
        seen[one.number] += 1

    assert expected == run_imitated(
        both, monkeypatch, tmp_path, degree=degree, epoch_items=12
    )


def test_a_push_that_is_declared_wrongly_is_named_and_not_believed(
    monkeypatch, tmp_path
):
    samples = [Sample(n % 3, n) for n in range(20)]
    source = ab.from_iterable(samples, Sample).flat_map(some)

    with pytest.raises(EngineError, match="is a declared push wrong"):
        run_imitated(
            source.key_by("number").scan(number, 0).to_list(),
            monkeypatch,
            tmp_path,
            degree=2,
        )


class Reading(NamedTuple):
    ts: int
    place: str
    value: float


def middle(readings: list[Reading]) -> tuple[str, float]:
    return readings[-1].place, sum(r.value for r in readings)


def readings(count):
    rng = Random(count)
    return [
        Reading(n - rng.randrange(30), f"p{rng.randrange(7)}", rng.random())
        for n in range(count)
    ]


def close_windows(given, late, window):
    clocked = ab.from_iterable(given, Reading).event_time("ts", lateness=9, late=late)
    windows = clocked.key_by("place").window(on="ts", **window)
    columns = {"n": ab.count(), "since": ab.window_start(), "until": ab.window_end()}
    named = windows.aggregate(place=ab.any("place"), **columns, name="named")
    return [windows.aggregate(middle, name="listed").to_list(), named.to_list()]


@pytest.mark.parametrize("late", needs.quick(1, ["drop", "current"]))
@pytest.mark.parametrize(
    "window",
    [{"time": 50}, {"time": 50, "every": 10}, {"time": 7, "every": 20}],
)
def test_windows_that_a_clock_closes_run_in_columns(
    window, late, monkeypatch, tmp_path
):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    given = readings(700)
    expected = close_windows(given, late, window)
    ab.run(*expected, on="sequential")
    actual = close_windows(given, late, window)

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        job = ab.run(*actual, on="spark", degree=2, epoch_items=150)

    assert [one.items for one in expected] == [one.items for one in actual]
    shares = job.metrics().in_columns
    assert {"event_time": 1.0, "listed": 1.0, "named": 1.0} == shares


def test_windows_in_columns_go_on_from_the_checkpoint_of_python(monkeypatch, tmp_path):
    given = readings(700)
    (_, whole) = close_windows(given, "drop", {"time": 50, "every": 20})
    ab.run(whole, on="sequential")
    run_epoch, found = Epochs.run, []

    def run_until_interrupted(self, pieces):
        if self.stamp.epoch == 2 + len(found):
            raise CutOffError
        run_epoch(self, pieces)

    for how in ("never", "at_once", "never"):
        monkeypatch.setenv("ANABRANCH_COMPILE", how)
        sink = close_windows(given, "drop", {"time": 50, "every": 20})[1]
        with (
            imitated(monkeypatch, Cluster(undisturbed), tmp_path),
            monkeypatch.context() as patch,
            suppress(CutOffError),
        ):
            if len(found) < 2:
                patch.setattr(Epochs, "run", run_until_interrupted)
            options = {"degree": 2, "epoch_items": 150}
            ab.run(sink, on="spark", checkpoint=tmp_path / "kept", **options)
        found.append(sink.items)

    assert whole.items == [item for items in found for item in items]


def by_place(reading: Reading) -> int:
    return 1 if reading.place == "p1" else 0


@pytest.mark.parametrize("branches", [1, 2])
def test_one_stream_of_a_split_is_read_in_columns(branches, monkeypatch, tmp_path):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    given = [one for one in readings(200) if branches == 2 or one.place != "p1"]
    lists = []
    for _ in range(2):
        some = ab.from_iterable(given, Reading).filter(lambda r: r.value < 0.9)
        lists.append(some.split(by_place, branches)[0].to_list())

    ab.run(lists[0], on="local")
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(lists[1], on="spark", degree=2)

    expected = [one for one in given if one.value < 0.9 and one.place != "p1"]
    assert [expected, expected] == [one.items for one in lists]


def test_what_is_due_is_found_again_when_columns_give_up(monkeypatch, tmp_path):
    """
    Columns run the windows of the first epoch; Python, which goes on with them in the
    next one, closes those that columns had passed over in the index.
    """
    monkeypatch.setenv("ANABRANCH_COMPILE", "at_once")
    lists = []
    for _ in range(2):
        numbers = ab.generate(Replay(735, 60), Event).key_by("zone").scan(numbered, 0)
        smooth = numbers.block(smooth_block, pop=1, push=1, peek=3).map(shake)
        clocked = smooth.event_time("ts", lateness=3, late="current")
        shifted = clocked.lookup(SHIFTS, on="zone", into=shift_by)
        sliding = shifted.key_by("key", "zone").window(time=20, every=5, on="ts")
        ends = {"ts": ab.window_end(), "key": ab.any("key"), "zone": ab.first("zone")}
        counts = sliding.aggregate(**ends, value=ab.count(), into=Event)
        totals = counts.window(time=20, on="ts").aggregate(total)
        lists.append(totals.split(to_itself, 1)[0].to_list())

    ab.run(lists[0], on="sequential")
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(lists[1], on="spark", degree=1, epoch_items=20)

    assert lists[0].items == lists[1].items
