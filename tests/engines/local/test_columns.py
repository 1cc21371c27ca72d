"""Elements that run in columns on threads give what one thread gives, errors included."""

from __future__ import annotations

import csv
import random

import pyarrow.parquet as pq
import pytest

import anabranch as ab
from anabranch.connectors.files import chunks
from anabranch.errors import OperatorError
from anabranch.runtime.batch import TableItems
from anabranch.runtime.columns import column_part
from tests import needs
from tests.engines.trades import (
    Trade,
    ever_larger,
    is_large,
    of_window,
    parts_of,
    per_share,
    vwap,
)


def in_cents(t: Trade) -> Trade:
    return t._replace(price=round(t.price * 100, 2))


def in_words(t: Trade) -> Trade:
    words = [t.symbol]
    words.append(str(t.volume % 3))
    return t._replace(symbol="-".join(words))


PROGRAMS = {
    "chain": lambda s: s.map(in_cents).filter(is_large).map(per_share),
    "filter": lambda s: s.filter(is_large),
    "scan": lambda s: s.key_by("symbol").scan(vwap, (0.0, 0)),
    "window": lambda s: s.key_by("symbol").window(count=7).aggregate(of_window),
    "sliding": lambda s: (
        s.key_by("symbol").window(count=7, every=2).aggregate(of_window)
    ),
    "sliding in time": lambda s: (
        s.key_by("symbol").window(time=90, every=30, on="ts").aggregate(of_window)
    ),
    "named columns": lambda s: s.window(time=9, on="ts").aggregate(
        start=ab.window_start(), most=ab.max("price"), symbol=ab.last("symbol")
    ),
    "flat_map": lambda s: s.flat_map(parts_of).filter(is_large),
    "beyond 64 bits": lambda s: s.key_by("symbol").scan(ever_larger, 1),
    "mixed": lambda s: s.map(in_words).filter(is_large).map(per_share),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at once")


def which_third(t: Trade) -> int:
    return t.volume % 3


def is_small(t: Trade) -> bool:
    return t.volume < 50


def fan_out(s):
    cents = s.map(in_cents)
    some = ab.union(cents.filter(is_large), cents.filter(is_small))
    return [some.key_by("symbol").scan(vwap, (0.0, 0)), cents.flat_map(parts_of)]


def in_words_beside(s):
    cents = s.map(in_cents)
    parts = cents.flat_map(parts_of)
    both = ab.union(cents.map(in_words), parts)
    windows = both.key_by("symbol").window(count=7, every=2)
    return [windows.aggregate(of_window), parts]


def three_ways(s):
    one, two, three = s.split(which_third, 3)
    both = ab.union(two.map(in_words), three.map(in_cents))
    return [ab.union(one.map(in_cents), three), both.map(per_share)]


def which_ways(t: Trade) -> tuple[int, ...]:
    return (0,) if t.volume < 30 else (1, 0) if t.volume < 60 else ()


def several_ways(s):
    one, two = s.map(in_cents).split(which_ways, 2)
    return [ab.union(two.map(per_share), one.map(per_share)), two]


def marked(s):
    signs = s.punctuate(is_small).map(in_cents)
    windows = signs.filter(is_large).window(punctuation=True)
    return [signs, windows.aggregate(of_window)]


def timed(s):
    clock = s.event_time("ts", lateness=9).map(in_cents)
    windows = clock.filter(is_large).key_by("symbol").window(time=90, on="ts")
    return [clock.flat_map(parts_of), windows.aggregate(of_window)]


GRAPHS = {
    f.__name__: f
    for f in (fan_out, in_words_beside, three_ways, several_ways, marked, timed)
}


def make_trades(count, volume=None):
    rng = random.Random(3)
    return [
        Trade(
            ts,
            f"S{rng.randrange(40)}",
            round(rng.uniform(1, 200), 2),
            rng.randrange(1, 99) if volume is None else volume(ts),
        )
        for ts in range(count)
    ]


@pytest.mark.parametrize("degree", needs.quick(1, [2, 1]))
@pytest.mark.parametrize("name", needs.share(3, PROGRAMS))
def test_the_items_are_those_of_one_thread(name, degree):
    trades = make_trades(20_000)
    one = PROGRAMS[name](ab.from_iterable(trades, Trade)).to_list()
    two = PROGRAMS[name](ab.from_iterable(trades, Trade)).to_list()

    ab.run(one, on="sequential")
    job = ab.run(two, on="local", degree=degree)

    assert list(map(repr, one.items)) == list(map(repr, two.items))
    shares = job.metrics().in_columns
    runs = {o.name for o in job.plan.operators if o.runs == "columns"}
    assert runs == set(shares)
    assert runs
    least = min(shares.values())  # how soon depends on how long kernels take
    assert least < 0.2 if name == "beyond 64 bits" else least > 0


def write_csv(path, trades):
    with path.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(Trade._fields)
        rows.writerows(trades)


class WatchedItems(TableItems):
    """Counts the items that come as tables, and those of them that become objects."""

    came = made = 0

    def __init__(self, table, make):
        super().__init__(table, make)
        WatchedItems.came += len(self)

    def __iter__(self):
        WatchedItems.made += len(self)
        return super().__iter__()


@pytest.mark.parametrize("degree", needs.quick(1, [2, 1]))
@pytest.mark.parametrize("name", needs.share(3, [*PROGRAMS][::-1]))
def test_from_file_to_file_the_bytes_are_those_of_one_thread(name, degree, tmp_path):
    source = tmp_path / "trades.csv"
    write_csv(source, make_trades(20_000))
    texts = {}
    for engine in ("sequential", "local"):
        target = tmp_path / f"{engine}.csv"
        sink = PROGRAMS[name](ab.read_csv(source, Trade)).write_csv(target)
        ab.run(sink, on=engine, degree=degree if engine == "local" else None)
        texts[engine] = target.read_bytes()

    assert texts["sequential"] == texts["local"]


@pytest.mark.parametrize("name", ["chain", "scan", "window", "filter"])
def test_no_item_becomes_an_object_between_two_files(name, tmp_path, monkeypatch):
    source, target = tmp_path / "trades.csv", tmp_path / "out.csv"
    write_csv(source, make_trades(20_000))
    monkeypatch.setattr(WatchedItems, "came", 0)
    monkeypatch.setattr(WatchedItems, "made", 0)
    monkeypatch.setattr(chunks, "TableItems", WatchedItems)
    monkeypatch.setattr(column_part, "TableItems", WatchedItems)

    ab.run(PROGRAMS[name](ab.read_csv(source, Trade)).write_csv(target), on="local")

    outputs = len(target.read_text().splitlines()) - 1
    assert 20_000 < WatchedItems.came <= 20_000 + outputs
    assert WatchedItems.made == 0


def test_an_error_between_two_files_names_its_row(tmp_path):
    source, target = tmp_path / "trades.csv", tmp_path / "out.csv"
    write_csv(source, make_trades(20_000, lambda ts: 0 if ts == 17_777 else 4))
    sink = ab.read_csv(source, Trade).map(in_cents).map(per_share).write_csv(target)

    with pytest.raises(OperatorError, match="ZeroDivisionError") as raised:
        ab.run(sink, on="local")

    assert "item 17778 of read_csv" in str(raised.value)
    assert "ts=17777" in str(raised.value)
    assert not target.exists()


def test_a_bad_row_among_good_ones_is_left_out(tmp_path):
    source, target = tmp_path / "trades.csv", tmp_path / "out.csv"
    trades = make_trades(20_000)
    write_csv(source, trades)
    lines = source.read_text().splitlines()
    lines[12_345] = "12344,S1,dear,3"
    source.write_text("\n".join(lines) + "\n")
    sink = ab.read_csv(source, Trade).filter(is_large).write_csv(target)

    ab.run(sink, on="local", on_error="skip")

    kept = [t for t in trades if t.ts != 12_344 and t.volume > 3]
    expected = [",".join(map(repr, t)).replace("'", "") for t in kept]
    assert expected == target.read_text().splitlines()[1:]


def test_a_table_is_written_as_its_items_would_be(tmp_path):
    trades = make_trades(20_000)
    source = tmp_path / "trades.csv"
    write_csv(source, trades)

    ab.run(
        ab.read_csv(source, Trade).filter(is_large).write_parquet(tmp_path / "out"),
        on="local",
    )

    found = pq.read_table(tmp_path / "out").to_pylist()
    assert [t._asdict() for t in trades if t.volume > 3] == found


@pytest.mark.parametrize("degree", needs.quick(1, [2, 1]))
@pytest.mark.parametrize("name", needs.share(2, GRAPHS))
def test_streams_that_part_and_meet_run_in_columns(name, degree):
    trades = make_trades(12_000)
    one = [s.to_list() for s in GRAPHS[name](ab.from_iterable(trades, Trade))]
    two = [s.to_list() for s in GRAPHS[name](ab.from_iterable(trades, Trade))]

    ab.run(*one, on="sequential")
    job = ab.run(*two, on="local", degree=degree)

    for expected, actual in zip(one, two, strict=True):
        assert list(map(repr, expected.items)) == list(map(repr, actual.items))
    shares = job.metrics().in_columns
    assert {o.name for o in job.plan.operators if o.runs == "columns"} == set(shares)
    assert min(shares.values()) > 0  # how soon depends on how long kernels take


def by_threes(t: Trade) -> bool:
    return t.ts % 3 != 0


def route_by_volume(t: Trade) -> int:
    return t.volume & 1


def sum_up(total: int, t: Trade) -> tuple[int, Trade]:
    return total + t.volume, t._replace(volume=total + t.volume)


class Streams:
    """Streams with a clock that part and meet by chance; most of it is compiled."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def make_sinks(self) -> list[ab.Result]:
        inputs = [self.make_input() for _ in range(self.rng.randrange(1, 4))]
        both = self.go_on(ab.union(*inputs) if len(inputs) > 1 else inputs[0])
        return [self.end(both).to_list() for _ in range(self.rng.randrange(1, 3))]

    def make_input(self) -> ab.Stream:
        step, shift = self.rng.randrange(1, 4), self.rng.randrange(1, 6)
        trades = [
            Trade(
                step * i - i * shift % 5, f"S{i * shift % 7}", 1.5, 1 + i * shift % 11
            )
            for i in range(400)
        ]
        lateness = self.rng.choice([0, 3, 7, 10])
        clocked = ab.from_iterable(trades, Trade).event_time("ts", lateness=lateness)
        return self.go_on(clocked)

    def go_on(self, s: ab.Stream) -> ab.Stream:
        for _ in range(self.rng.randrange(3)):
            match self.rng.randrange(4):
                case 0:
                    s = s.map(in_cents)
                case 1:
                    s = s.filter(by_threes)
                case 2:
                    s = s.flat_map(parts_of)
                case _:
                    odd, even = s.split(route_by_volume, 2)
                    s = ab.union(self.go_on(odd), even.map(in_cents))
        return s

    def end(self, s: ab.Stream) -> ab.Stream:
        time = self.rng.choice([5, 9])
        match self.rng.randrange(4):
            case 0:
                return s.key_by("symbol").window(time=time).aggregate(of_window)
            case 1:
                return s.key_by("symbol", forget_after=time).scan(sum_up, 0)
            case 2:
                return s.key_by("symbol").window(gap=time).aggregate(of_window)
        return s.key_by("symbol").scan(sum_up, 0)


@pytest.mark.parametrize("degree", needs.quick(1, [2, 1, 3]))
@pytest.mark.parametrize("seed", needs.share(12, range(60)))
def test_clocks_that_part_and_meet_are_those_of_one_thread(seed, degree):
    one, two = Streams(seed).make_sinks(), Streams(seed).make_sinks()

    ab.run(*one, on="sequential")
    ab.run(*two, on="local", degree=degree)

    assert [s.items for s in one] == [s.items for s in two]


def clocks_that_meet() -> ab.Result:
    """Two streams with clocks of their own pace, one behind the other."""
    fast, slow = (
        ab.from_iterable(
            [Trade(step * i - i % 5, f"S{i % 7}", 1.5, i % 11) for i in range(6000)],
            Trade,
        ).event_time("ts", lateness=6)
        for step in (3, 2)
    )
    both = ab.union(fast.map(in_cents), slow.filter(by_threes), name="both")
    return both.key_by("symbol").window(time=50).aggregate(of_window).to_list()


def test_clocks_meet_in_columns():
    """
    Whether an advance is lost is seen at once: the slow stream decides what closes.
    """
    one, two = clocks_that_meet(), clocks_that_meet()

    ab.run(one, on="sequential")
    job = ab.run(two, on="local")

    assert one.items == two.items
    assert len(two.items) > 1000
    assert job.metrics().in_columns["both"] > 0
    assert "the least of their clocks" in ab.explain(two, on="local")


def share_of(t: Trade) -> Trade:
    return t._replace(price=1.0 / t.volume)


def loses_words(t: Trade) -> Trade:
    return t._replace(symbol=["S"][t.ts // 8000])


def test_the_first_error_counts_and_sinks_have_what_came_before_it():
    """One branch fails on item 8000, the other one, which runs before it, on item 8100."""
    trades = make_trades(9000, lambda ts: 0 if ts == 8100 else 4)

    def build():
        cents = ab.from_iterable(trades, Trade).map(in_cents)
        both = ab.union(cents.map(share_of), cents.map(loses_words))
        return [both.to_list(), cents.filter(is_large).to_list()]

    one, two = build(), build()
    for sinks, on in ((one, "sequential"), (two, "local")):
        with pytest.raises(OperatorError, match="IndexError") as raised:
            ab.run(*sinks, on=on)
        assert "item 8001 of from_iterable" in str(raised.value)

    for expected, actual in zip(one, two, strict=True):
        assert expected.items == actual.items


SEEN: list[tuple[str, int]] = []


def note_here(t: Trade) -> Trade:
    SEEN.append(("here", t.ts))
    return t


def note_there(t: Trade) -> Trade:
    SEEN.append(("there", t.ts))
    return t


def test_operators_that_share_something_take_turns_by_item():
    def build():
        cents = ab.from_iterable(make_trades(3000), Trade).map(in_cents)
        here = cents.map(note_here).map(in_cents)
        there = cents.filter(is_small).map(note_there).map(in_cents)
        return [here.to_list(), there.to_list()]

    SEEN.clear()
    ab.run(*build(), on="sequential")
    expected = SEEN[:]
    SEEN.clear()
    ab.run(*build(), on="local")

    assert expected == SEEN


def test_the_users_own_error_names_its_item():
    trades = make_trades(9000, lambda ts: 0 if ts == 7777 else 4)
    stream = ab.from_iterable(trades, Trade)
    sink = stream.map(in_cents).map(per_share).to_list()

    with pytest.raises(OperatorError, match="ZeroDivisionError") as raised:
        ab.run(sink, on="local")

    assert "item 7778 of from_iterable" in str(raised.value)
    assert "ts=7777" in str(raised.value)


def test_values_that_are_not_of_the_promised_type_are_the_users_own():
    trades = [t._replace(price=3) if t.ts % 5 else t for t in make_trades(5000)]
    one = ab.from_iterable(trades, Trade).filter(is_large).map(per_share).to_list()
    two = ab.from_iterable(trades, Trade).filter(is_large).map(per_share).to_list()

    ab.run(one, on="sequential")
    ab.run(two, on="local")

    assert list(map(repr, one.items)) == list(map(repr, two.items))


def test_explain_says_which_part_runs_in_columns():
    stream = ab.from_iterable([], Trade).map(in_cents, name="one")
    sink = stream.map(in_words, name="two").filter(is_large, name="three")
    text = ab.explain(sink.map(per_share, name="four").to_list(), on="local")

    assert "one: Python (the part from three on is compiled instead)" in text
    assert "three: columns (its predicate is compiled)" in text
    assert "four: columns" in text
