import datetime as dt
import re
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, GraphError, OperatorError
from anabranch.language.drafts import build_graph
from anabranch.operators.clock import Advance
from anabranch.runtime.interpreter import kernel_of
from anabranch.testing import outputs

UTC = dt.UTC
NOON = dt.datetime(2026, 3, 1, 12, tzinfo=UTC)


class Click(NamedTuple):
    ts: int
    user: str = "a"


class Visit(NamedTuple):
    at: dt.datetime


class Night(NamedTuple):
    day: dt.date


class Untyped:
    def __init__(self, at):
        self.at = at


def clicks(*times):
    return ab.from_iterable([Click(t) for t in times], Click)


def passed(stream):
    return [click.ts for click in outputs(stream)]


def test_an_item_below_the_clock_is_dropped_and_one_at_the_clock_is_not():
    assert [10, 7, 12] == passed(clicks(10, 7, 6, 12, 8).event_time("ts", lateness=3))


def test_a_late_item_may_go_on_without_moving_the_clock():
    late = clicks(10, 1, 9).event_time("ts", late="current")

    assert [10, 1, 9] == passed(late)
    counts = late.window(time=5).aggregate(end=ab.window_end(), n=ab.count())
    assert [(15, 3)] == [tuple(row) for row in outputs(counts)]


def test_a_late_item_may_be_an_error():
    with pytest.raises(OperatorError, match="must not fall behind the clock; got 1"):
        outputs(clicks(10, 1).event_time("ts", late="error"))


def test_a_late_item_may_be_a_dead_letter():
    lost = []
    out = clicks(10, 1, 12).event_time("ts", late="dead_letter").to_list()
    ab.run(out, on="local", on_error=ab.dead_letter(lost.append))

    assert [10, 12] == [click.ts for click in out.items]
    assert [Click(1)] == [failure.item for failure in lost]


def test_dead_letters_that_nobody_takes_are_refused():
    out = clicks(10, 1).event_time("ts", late="dead_letter").to_list()

    with pytest.raises(ArgumentError, match="so the run must take them"):
        ab.run(out, on="sequential", on_error="skip")


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_window_whose_function_fails_takes_no_other_window_with_it(on):
    given = [Click(1, "a"), Click(2, "b"), Click(3, "c"), Click(30, "a")]

    def name(window):
        return {"a": "A", "c": "C"}[window[0].user]

    stream = ab.from_iterable(given, Click).event_time("ts").key_by("user")
    out = stream.window(time=10).aggregate(name).to_list()
    ab.run(out, on=on, on_error="skip")

    assert ["A", "C", "A"] == out.items


class Reminders(ab.Operator):
    def process(self, click):
        self.wake_at(click.ts + 100)
        self.wake_at(click.ts + 200, at_end=False)
        return []

    def on_time(self, time):
        return [("woken", time)]

    def finish(self):
        return ["finished"]


def test_a_key_that_is_forgotten_has_its_timers_and_then_its_end():
    given = [Click(1, "b"), Click(20, "a")]
    stream = ab.from_iterable(given, Click).event_time("ts")
    woken = stream.key_by("user", forget_after=10).apply(Reminders)

    assert [("woken", 101), "finished", ("woken", 120), "finished"] == outputs(woken)


class Diary(ab.Operator):
    def process(self, click):
        self.user = click.user
        self.wake_at(click.ts + 5)
        return [f"in {self.user}"]

    def on_time(self, time):
        return [f"at {time}"]

    def finish(self):
        return [f"end {self.user}"]


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_an_item_wakes_its_own_key_only(degree):
    """
    The late items of b and a are old at once; both keys end at the next advance.
    """
    given = [Click(100, "z"), Click(5, "b"), Click(6, "a"), Click(200, "z")]
    stream = ab.from_iterable(given, Click).event_time("ts", late="current")
    out = stream.key_by("user", forget_after=1).apply(Diary).to_list()
    ab.run(out, on="local", degree=degree)

    late = ["in b", "at 10", "in a", "at 11"]
    rest = ["in z", "end b", "end a", "at 105", "at 205", "end z"]
    assert ["in z", *late, *rest] == out.items


class Forgetful(ab.Operator):
    """Asks to be woken at a time of the wrong kind, then at one of the right kind."""

    def process(self, visit):
        self.wake_at(visit.at.timestamp())
        self.wake_at(visit.at + dt.timedelta(minutes=1))
        return []

    def on_time(self, time):
        return [time.minute]


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_a_timer_of_another_kind_than_the_clock_fails_by_itself(on):
    visits = [Visit(NOON + dt.timedelta(minutes=m)) for m in (0, 10, 20)]
    lost = []
    out = ab.from_iterable(visits, Visit).event_time("at").apply(Forgetful).to_list()
    ab.run(out, on=on, on_error=ab.dead_letter(lost.append))

    assert [1, 11, 21] == out.items
    assert 3 == len(lost)
    assert "must be of one kind throughout" in str(lost[0].error)


def test_a_time_that_is_none_is_refused_where_it_is_asked_for():
    class Sleepy(Diary):
        def process(self, click):
            self.wake_at("soon")
            return []

    with pytest.raises(OperatorError, match="must be a finite number, a date or a"):
        outputs(clicks(1).event_time("ts").apply(Sleepy))


def test_an_operator_that_wakes_must_say_what_it_does_then():
    class Mute(ab.Operator):
        def process(self, click):
            self.wake_at(click.ts)
            return []

    text = "must define on_time(self, time) to be woken by the clock of its stream"
    with pytest.raises(OperatorError, match=re.escape(text)):
        outputs(clicks(1).apply(Mute))


def test_timers_without_a_clock_are_refused():
    with pytest.raises(GraphError, match="its stream has none"):
        ab.run(clicks(1).apply(Reminders).to_list(), on="sequential")


def test_sessions_without_a_clock_are_refused():
    out = clicks(1).window(gap=5, on="ts").aggregate(len).to_list()

    with pytest.raises(GraphError, match="its stream has no clock"):
        ab.run(out, on="sequential")


def test_a_session_behind_clocks_of_several_attributes_is_refused_with_the_reason():
    both = ab.union(clicks(1).event_time("ts"), clicks(1).event_time("real"))
    out = both.window(gap=5, on="ts").aggregate(len).to_list()

    with pytest.raises(GraphError, match="each must have a clock with the same attrib"):
        ab.run(out, on="sequential")


def test_forgetting_without_a_clock_is_refused():
    with pytest.raises(ArgumentError, match="forget_after must have a clock"):
        clicks(1).key_by("user", forget_after=5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"on": "when"}, "names 'when'"),
        ({"on": "user"}, "must look at a number, a date or a datetime"),
        ({"on": "ts", "late": "never"}, "late must be one of"),
        ({"on": "ts", "unit": "weeks"}, "unit must be one of"),
        ({"on": "ts", "lateness": -1}, "lateness must be a duration of 0 or more"),
    ],
)
def test_a_clock_that_makes_no_sense_is_refused(arguments, words):
    with pytest.raises(GraphError, match=words):
        ab.run(clicks(1).event_time(**arguments).to_list(), on="sequential")


def test_numbers_of_a_unit_take_lengths_with_one():
    stream = clicks(0, 900, 1500, 2500).event_time("ts", unit="ms")
    windows = stream.window(time="1 s").aggregate(end=ab.window_end(), n=ab.count())

    assert [(1000, 2), (2000, 1), (3000, 1)] == [tuple(row) for row in outputs(windows)]


def test_numbers_without_a_unit_take_no_length_with_one():
    out = clicks(0).event_time("ts").window(time="1 s").aggregate(len).to_list()

    with pytest.raises(GraphError, match="of an unknown unit"):
        ab.run(out, on="sequential")


def times(kind, **options):
    return ab.from_iterable([], NamedTuple("Timed", [("ts", kind)])).event_time(
        "ts", **options
    )


def count_up(total, _):
    return total + 1, total


LENGTHS = {
    "lateness": lambda kind, span: times(kind, lateness=span),
    "forget_after": lambda kind, span: (
        times(kind).key_by("ts", forget_after=span).scan(count_up, 0)
    ),
    "within": lambda kind, span: times(kind).join(times(kind), within=span),
    "gap": lambda kind, span: times(kind).window(gap=span).aggregate(len),
}


@pytest.mark.parametrize(
    ("kind", "span", "words"),
    [
        (int, "3 h", "is 3:00:00, but 'ts' is int, of an unknown unit"),
        (dt.datetime, 3, "must be a timedelta or a text like .*; got 3"),
    ],
)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_length_that_does_not_go_with_the_times_is_found_before_the_run(
    length, kind, span, words
):
    with pytest.raises(GraphError, match=f"{length}.* {words}"):
        outputs(LENGTHS[length](kind, span))


@pytest.mark.parametrize(("kind", "span"), [(Any, "3 h"), (int, 3), (dt.date, "3 d")])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths_that_may_go_with_the_times_are_accepted(length, kind, span):
    assert [] == outputs(LENGTHS[length](kind, span))


def test_a_clock_goes_by_datetimes_across_a_change_of_summer_time():
    from zoneinfo import ZoneInfo

    zone = ZoneInfo("Europe/Berlin")
    night = dt.datetime(2026, 10, 25, 0, 0, tzinfo=UTC)  # 3:00 becomes 2:00 at 1:00 UTC
    times = [(night + dt.timedelta(minutes=30 * n)).astimezone(zone) for n in range(6)]
    stream = ab.from_iterable([Visit(at) for at in times], Visit).event_time("at")
    rows = outputs(
        stream.window(time="1 h").aggregate(end=ab.window_end(), n=ab.count())
    )

    assert [("2026-10-25 02:00:00+01:00", 2), ("2026-10-25 03:00:00+01:00", 2)] == [
        (str(row.end), row.n) for row in rows[:2]
    ]
    assert 3 == len(rows)


def test_windows_by_dates_are_of_whole_days():
    nights = [Night(dt.date(2026, 3, d)) for d in (1, 2, 9)]
    stream = ab.from_iterable(nights, Night).event_time("day", lateness="1 d")
    weeks = stream.window(time="7 d").aggregate(start=ab.window_start(), n=ab.count())

    assert [(dt.date(2026, 2, 26), 2), (dt.date(2026, 3, 5), 1)] == [
        tuple(row) for row in outputs(weeks)
    ]


@pytest.mark.parametrize("clock", [True, False])
def test_zones_that_are_mixed_are_one_clear_error(clock):
    eastern = dt.timezone(dt.timedelta(hours=-5))
    stream = ab.from_iterable([Visit(NOON), Visit(NOON.astimezone(eastern))], Visit)
    stream = stream.event_time("at") if clock else stream

    with pytest.raises(
        OperatorError, match="must be of one kind throughout, a datetime"
    ):
        outputs(stream.window(time="1 h", on="at").aggregate(len))


def test_datetimes_take_no_length_without_a_unit():
    stream = ab.from_iterable([Untyped(NOON)]).event_time("at")

    with pytest.raises(OperatorError, match="must be a timedelta or a text"):
        outputs(stream.window(time=60).aggregate(len))


def test_bounds_are_for_windows_that_have_some():
    out = clicks(1).window(count=2).aggregate(end=ab.window_end()).to_list()

    with pytest.raises(
        GraphError, match="only a window by time or a session has bounds"
    ):
        ab.run(out, on="sequential")


def test_items_leave_in_the_order_of_time_and_of_arrival():
    given = [Click(4, "a"), Click(2, "b"), Click(4, "c"), Click(3, "d"), Click(9, "e")]
    stream = ab.from_iterable(given, Click).event_time("ts", lateness=2).in_order()

    assert "bdace" == "".join(click.user for click in outputs(stream))


def test_order_without_a_clock_is_refused():
    with pytest.raises(ArgumentError, match="in_order must have a clock"):
        clicks(1).in_order()


@pytest.mark.parametrize("on", ["sequential", "local"])
def test_the_slower_clock_counts_where_streams_meet(on):
    fast = clicks(1, 100, 200).event_time("ts")
    slow = clicks(2, 3, 12).event_time("ts")
    out = (
        ab.union(fast, slow)
        .window(time=10)
        .aggregate(lambda window: [click.ts for click in window])
    )
    sink = out.to_list()
    ab.run(sink, on=on)

    assert [[1, 2, 3], [12], [100], [200]] == sink.items


def test_a_join_in_time_needs_the_same_clock_on_both_sides():
    with pytest.raises(ArgumentError, match="must have a clock of the same attribute"):
        clicks(1).event_time("ts").join(clicks(1), on="user", within=5)


def test_a_join_has_windows_or_a_distance_in_time():
    stream = clicks(1).event_time("ts")

    with pytest.raises(ArgumentError, match="or within alone"):
        stream.join(stream, within=5, left_window=1, right_window=1)


def test_a_join_in_time_knows_datetimes():
    def at(*minutes):
        visits = [Visit(NOON + dt.timedelta(minutes=m)) for m in minutes]
        return ab.from_iterable(visits, Visit).event_time("at", lateness="1 h")

    pairs = outputs(at(1, 30).join(at(5, 33, 40), within="4 min"))

    assert [(30, 33)] == [(a.at.minute, b.at.minute) for a, b in pairs]


def test_what_an_operator_with_timers_gives_keeps_its_order_behind_a_fan_out():
    stream = clicks(1, 2, 3, 40).event_time("ts").apply(Reminders)
    both = ab.union(stream.map(lambda x: ("one", x)), stream.map(lambda x: ("two", x)))
    woken = [f"{x[1]}" if x != "finished" else x for _, x in outputs(both)]
    sink = both.to_list()
    ab.run(sink, on="local", degree=2)

    assert ["101", "101", "102", "102"] == woken[:4]
    assert outputs(both) == sink.items


def test_keys_that_get_many_items_stand_in_the_index_once():
    op = _clocked_op(lambda s: s.key_by("user", forget_after=50).scan(_number, 0))
    kernel = kernel_of(op)
    state = kernel.open()
    for time in range(1000):
        kernel.process(state, Click(time, "a"), 0)
        list(kernel.advance(state, Advance(time, "number"), 0))
    assert len(state["queue"]) == 1
    assert list(state["keys"]) == ["a"]
    list(kernel.advance(state, Advance(1049, "number"), 0))
    assert not any(state[name] for name in ("queue", "keys", "last", "due", "ends"))


def test_windows_that_have_closed_leave_nothing_behind():
    op = _clocked_op(lambda s: s.key_by("user").window(time=10).aggregate(len))
    kernel = kernel_of(op)
    state = kernel.open()
    for time in range(100):
        for user in "abc":
            kernel.process(state, Click(time, user), 0)
        assert len(state["queue"]) <= 6
        for turn in kernel.advance(state, Advance(time - 5, "number"), 0):
            turn.run()
    for turn in kernel.advance(state, Advance(1000, "number"), 0):
        turn.run()
    assert not any(state[name] for name in ("queue", "keys", "last", "due"))


def test_a_clock_is_told_only_where_a_window_can_close():
    graph = build_graph(
        [
            clicks(1)
            .event_time("ts", name="clock")
            .window(time=10)
            .aggregate(len)
            .window(time=20, every=4, on="real")
            .aggregate(len)
            .to_list()
        ]
    )
    kernel = kernel_of(graph["clock"])
    state = kernel.open()
    told = [
        output.time
        for time in range(12)
        for output in kernel.process(state, Click(time), 0)
        if isinstance(output, Advance)
    ]
    assert told == [0, 4, 8, 10]


def test_a_session_of_many_items_keeps_the_order_of_arrival():
    times = [0, 3, 1, 2, 9, 6, 5]
    stream = clicks(*times).event_time("ts", lateness=9).window(gap=5)
    (row,) = outputs(stream.aggregate(lambda window: [click.ts for click in window]))
    assert row == times


def test_an_item_whose_time_is_none_tells_nothing_about_the_others():
    visits = [Untyped(None), Untyped(NOON), Untyped(NOON + dt.timedelta(hours=2))]
    stream = ab.from_iterable(visits).event_time("at").window(time="1 h")
    out = stream.aggregate(len).to_list()
    ab.run(out, on="sequential", on_error="skip")
    assert out.items == [1, 1]


def _number(n, click):
    return n + 1, n


def _clocked_op(build):
    graph = build_graph([build(clicks(1).event_time("ts")).to_list()])
    return next(op for op in graph if op.timing is not None)


def _plan(stream, on):
    compiled = ab.compile(stream.to_list(), on=on)
    sequential = {one.operator for one in compiled.plan.sequential}
    return [region.operators for region in compiled.plan.regions], sequential


@pytest.mark.parametrize("on", ["local", "spark"])
def test_what_the_clock_closes_by_key_is_a_parallel_region(on):
    clock = clicks(1).event_time("ts", name="clock").key_by("user")
    programs = {
        "windows": clock.window(time=10).aggregate(n=ab.count(), name="follower"),
        "sessions": clock.window(gap=10).aggregate(n=ab.count(), name="follower"),
        "timers": clock.apply(Reminders, name="follower"),
        "forgetting": clock.key_by("user", forget_after=5).scan(
            _number, 0, name="follower"
        ),
        "pairs": clock.join(clock, on="user", within=3, name="follower"),
    }

    found = {name: _plan(stream, on)[0] for name, stream in programs.items()}

    assert dict.fromkeys(programs, ("follower",)) == {
        name: regions[-1][-1:] for name, regions in found.items()
    }


@pytest.mark.parametrize("on", ["local", "spark"])
def test_what_has_one_state_in_all_stays_sequential_behind_a_clock(on):
    clock = clicks(1).event_time("ts")

    assert "in_order" in _plan(clock.in_order(), on)[1]
    assert "all" in _plan(clock.window(time=10).aggregate(len, name="all"), on)[1]


class Nagging(ab.Operator):
    """Asks to be woken at a time that has passed when it is woken."""

    def process(self, click):
        self.name = click.user
        self.wake_at(click.ts + 10)
        return []

    def on_time(self, time):
        if time > 5:
            self.wake_at(time - 8)
        return [(self.name, time)]


@pytest.mark.parametrize("degree", [1, 2, 3, 7])
def test_replicas_give_what_one_advance_closes_in_the_order_of_time_and_key(degree):
    users = ["b", 2, None, "a", (1, "x"), 1.5, b"a", (1,), -3]
    in_order = [None, -3, 1.5, 2, "a", "b", b"a", (1,), (1, "x")]
    given = [Click(t, user) for t in (7, 3) for user in users] + [Click(50, "z")]
    stream = ab.from_iterable(given, Click).event_time("ts", lateness=4).key_by("user")
    windows = stream.window(time=5).aggregate(end=ab.window_end(), key=ab.any("user"))
    woken = stream.apply(Nagging)
    sinks = [windows.to_list(), woken.to_list()]

    ab.run(*sinks, on="local", degree=degree)

    first = [(end, key) for end in (5, 10) for key in in_order]
    assert [*first, (55, "z")] == [tuple(row) for row in sinks[0].items]
    # What a timer asks for in the past comes right behind it.
    early = [(key, t) for key in in_order for t in (13, 5)]
    late = [(key, t) for key in in_order for t in (17, 9, 1)]
    ended = [("z", 60), ("z", 52), ("z", 44), ("z", 36), ("z", 28)]
    rest = [("z", 20), ("z", 12), ("z", 4)]
    assert [*early, *late, *ended, *rest] == sinks[1].items


def test_blocks_behind_a_clock_get_no_groups_on_spark_since_advances_stand_between():
    clock = clicks(1).event_time("ts").filter(lambda click: click.ts > 0)
    pairs = clock.block(lambda two: [two[1]], pop=2, push=1, name="pairs")

    assert "pairs" in _plan(pairs, "spark")[1]


def test_zones_that_mean_utc_are_one():
    first = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    later = dt.datetime(2026, 3, 1, 0, 1, tzinfo=ZoneInfo("UTC"))
    stream = ab.from_iterable([(first,), (later,)]).map(lambda row: Moment(*row))

    found = ab.testing.outputs(stream.event_time("at").in_order())

    assert [first, later] == [moment.at for moment in found]


class Moment(NamedTuple):
    at: dt.datetime
