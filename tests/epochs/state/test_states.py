"""The states of an operator: what an epoch reads of them, and writes."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.compiler.columns.choose_columns import find_columns
from anabranch.connectors.files.arrow_items import form_of, to_table
from anabranch.epochs.state.buckets import EMPTY, Stamp, bucket_of_entry
from anabranch.epochs.state.states import ClockStates, StoredStates, bucket_of
from anabranch.epochs.state.store import BucketStore, OpenStates, close_buckets
from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import EngineError
from anabranch.graph.kind import Traits
from anabranch.language.drafts import build_graph
from anabranch.operators.clock import Advance
from anabranch.runtime.columns.chain import ColumnChain
from anabranch.runtime.interpreter import kernel_of
from anabranch.runtime.program import Program

BUCKETS = 4


class Click(NamedTuple):
    ts: int
    user: str


def count(total: int, click: Click) -> tuple[int, tuple[str, int]]:
    return total + 1, (click.user, total + 1)


class Trade(NamedTuple):
    symbol: str
    price: float


class Price(NamedTuple):
    symbol: str
    price: float


class Buckets:
    """The buckets of one replica, in one store."""

    def __init__(self, folder):
        self.store = BucketStore(folder / "store")
        self.stamps = dict.fromkeys(range(BUCKETS), EMPTY)

    def begin(self, turn):
        assert [] == self.store.begin(self.stamps, turn)
        return OpenStates(
            {0: self.store, 1: self.store, 2: self.store, 3: self.store},
            range(BUCKETS),
            BUCKETS,
        )

    def write(self, stamp, changes):
        self.store.end()
        assert [] == self.store.write(self.stamps, stamp, sorted(changes.items()))
        self.stamps = dict.fromkeys(self.stamps, stamp)

    def read(self, turn):
        self.begin(turn)
        found = list(self.store.states())
        self.store.end()
        return found


class Epochs:
    """Runs epochs of one operator on buckets, one replica having all of them."""

    def __init__(self, folder, follow):
        stream = ab.from_iterable([Click(0, "")], Click).event_time("ts")
        graph = build_graph([follow(stream).to_list()])
        self.op = graph.ops[-2]
        self.kernel = kernel_of(self.op)
        self.states = ClockStates(0, self.op, self.kernel, self.op.keyed_by)
        self.pickler = Pickler(graph)
        self.buckets = Buckets(folder)
        self.epoch = 0
        self.clock = None
        self.touched = 0  # keys that the last epoch has read
        self.written = 0  # entries

    def run(self, *events):
        """Return what an epoch of items and times of the clock gives."""
        self.epoch += 1
        self.states.attach(self.buckets.begin(self.epoch), self.pickler)
        state = self.states[()]
        if self.clock is not None:
            self.kernel.share(state, self.clock)
        given = []
        for event in events:
            if isinstance(event, Click):
                given += self.kernel.process(state, event, 0)
            else:
                for turn in self.kernel.advance(state, Advance(event, "number"), 0):
                    if turn.order is not None:
                        given += turn.run()
        self.clock = self.kernel.find_shared(state)
        self.touched = len(self.states._found)
        changes = self.states.changes()
        self.written = len(changes)
        self.buckets.write(Stamp(self.epoch, self.epoch), changes)
        return given

    def held(self):
        """Return how many entries the buckets have."""
        return len(list(self.buckets.read(self.epoch)))


@pytest.fixture
def make(tmp_path):
    yield lambda follow: Epochs(tmp_path, follow)
    close_buckets()


class Counting(ab.Operator):
    """An operator whose state cannot be pickled."""

    def setup(self):
        self.numbers = (n for n in range(9))

    def process(self, click):
        yield next(self.numbers)


class Timed(Counting):
    def on_time(self, time):
        yield time


def test_a_state_that_cannot_travel_is_named_with_its_operator_and_line(tmp_path):
    stream = ab.from_iterable([Click(0, "")], Click).key_by("user")
    graph = build_graph([stream.apply(Counting, name="count").to_list()])
    op = graph["count"]
    states = StoredStates(0, op, kernel_of(op), op.keyed_by)
    states.attach(Buckets(tmp_path).begin(1), Pickler(graph))
    assert states["ada"] is not None

    told = (
        rf"test_states\.py:{op.site.line}: the state of 'count' for key 'ada' must be "
        r"able to travel between processes; TypeError: cannot pickle 'generator'"
    )
    with pytest.raises(EngineError, match=told):
        states.changes()
    close_buckets()


def test_a_state_behind_a_clock_that_cannot_travel_is_named(make):
    epochs = make(lambda stream: stream.key_by("user").apply(Timed, name="count"))

    told = r"the state of 'count' for key 'ada' must be able to travel"
    with pytest.raises(EngineError, match=told):
        epochs.run(Click(3, "ada"))


def windows(stream):
    by_user = stream.key_by("user").window(time=10)
    return by_user.aggregate(end=ab.window_end(), user=ab.any("user"), n=ab.count())


def test_windows_close_in_an_epoch_that_has_no_item_of_their_key(make):
    epochs = make(windows)
    users = [f"u{n:03}" for n in range(50)]

    assert [] == epochs.run(*(Click(3, user) for user in users), 3)
    assert [(10, user, 1) for user in users] == [tuple(row) for row in epochs.run(10)]
    assert 0 == epochs.held()


def test_an_epoch_reads_the_keys_that_close_and_no_others(make):
    epochs = make(windows)
    epochs.run(*(Click(10 * n + 3, f"u{n:03}") for n in range(100)), 5)

    closed = epochs.run(35)

    assert ["u000", "u001", "u002"] == [row.user for row in closed]
    assert 3 == epochs.touched
    assert 2 * 3 == epochs.written  # states and entries of the index that go


def test_a_key_that_is_forgotten_leaves_nothing_behind(make):
    epochs = make(lambda s: s.key_by("user", forget_after=5).scan(count, 0))
    sizes = []
    for n in range(30):
        epochs.run(Click(n, f"new {n}"), Click(n, "old"), n)
        sizes.append(epochs.held())

    assert [12] == sorted(set(sizes[10:]))  # five that are new and the old one
    assert [("old", 31)] == epochs.run(Click(30, "old"))


def test_a_key_that_comes_back_in_the_epoch_that_forgets_it_begins_anew(make):
    epochs = make(lambda s: s.key_by("user", forget_after=5).scan(count, 0))
    epochs.run(Click(1, "a"), 1)

    assert [("a", 1)] == epochs.run(6, Click(7, "a"))
    assert [("a", 2)] == epochs.run(7, Click(8, "a"))
    assert [("a", 1)] == epochs.run(13, Click(14, "a"))


def test_a_session_that_goes_on_moves_on_in_the_index(make):
    def sessions(stream):
        by_user = stream.key_by("user").window(gap=10)
        return by_user.aggregate(end=ab.window_end(), n=ab.count())

    epochs = make(sessions)
    epochs.run(Click(1, "a"), 1)
    epochs.run(Click(9, "a"), 9)

    assert [] == epochs.run(11)  # it would have ended here
    assert [(19, 2)] == [tuple(row) for row in epochs.run(19)]
    assert 0 == epochs.held()


def test_states_and_index_entries_of_a_key_are_in_its_bucket(make):
    epochs = make(windows)
    epochs.run(*(Click(3, f"u{n}") for n in range(20)), 3)

    found = {}
    for raw, stored in epochs.buckets.read(1):
        key, _ = epochs.pickler.loads(stored)
        found.setdefault(key, []).append(bucket_of_entry(raw))
    assert {f"u{n}": 2 * [bucket_of(f"u{n}", BUCKETS)] for n in range(20)} == found


def total(state: float, t: Trade) -> tuple[float, Price]:
    return state + t.price, Price(t.symbol, state + t.price)


def mean(trades: list[Trade]) -> Price:
    return Price(trades[0].symbol, sum(t.price for t in trades) / len(trades))


KEYED = {
    "scan": lambda s: s.scan(total, 0.5),
    "window": lambda s: s.window(count=4).aggregate(mean),
}


class ColumnEpochs:
    """Runs epochs of an operator in columns, beside the same one in Python."""

    def __init__(self, folder, follow):
        graph = build_graph(
            [follow(ab.from_iterable([], Trade).key_by("symbol")).to_list()]
        )
        self.op = graph.ops[-2]
        (entry,) = graph.out_edges(graph.sources[0].name)
        self.python = Program(graph, [self.op.name], [entry])
        traits = {op.name: Traits("stateless") for op in graph}
        kernels = {r.operator: r.kernel for r in find_columns(graph, traits)}
        self.states = self.open()
        self.chain = ColumnChain([self.op], kernels, {self.op.name: self.states})
        self.pickler = Pickler(graph)
        self.buckets = Buckets(folder)
        self.turn = 0
        self.same = False

    def open(self):
        return StoredStates(0, self.op, kernel_of(self.op), self.op.keyed_by)

    def run(self, trades):
        """Return the outputs of an epoch, which is not saved yet."""
        self.turn += 1
        opened = self.buckets.begin(self.turn)
        self.states.attach(opened, self.pickler, same=self.same)
        self.same = False
        table = to_table(trades, form_of(Trade))
        return self.chain.run(self.chain.of_table(table)).items()

    def save(self):
        self.buckets.write(Stamp(self.turn, self.turn), self.states.changes())
        self.same = True

    def give_up(self):
        self.buckets.store.end()

    def read(self):
        """Return the states that are stored, as another process reads them."""
        other = self.open()
        other.attach(self.buckets.begin(self.turn), self.pickler)
        other.load_all()
        self.give_up()
        return dict(other)

    def run_python(self, trades):
        (left,) = self.python.exits.values()
        left.clear()
        self.python.run(trades)
        return left.items[:]


@pytest.mark.parametrize("name", KEYED)
def test_what_kernels_hold_from_epoch_to_epoch_is_what_is_stored(name, tmp_path):
    """
    Some epochs are given up half-way, and some find states of another process.
    """
    epochs = ColumnEpochs(tmp_path, KEYED[name])
    rng = random.Random(5)
    try:
        for number in range(24):
            trades = [
                Trade(f"S{rng.randrange(1 + number)}", rng.uniform(1, 9))
                for _ in range(rng.randrange(1, 40))
            ]
            if number % 5 == 3:
                epochs.run(trades[::-1])
                epochs.give_up()
            if number % 7 == 4:
                epochs.same = False
            assert epochs.run_python(trades) == epochs.run(trades)
            epochs.save()
            assert dict(epochs.python.states[epochs.op.name]) == epochs.read()
    finally:
        close_buckets()


def test_states_that_are_held_are_not_read_again(tmp_path, monkeypatch):
    epochs = ColumnEpochs(tmp_path, KEYED["window"])
    try:
        epochs.run([Trade("a", 1.5), Trade("b", 2.5)])
        epochs.save()
        monkeypatch.setattr(epochs.pickler, "loads", None)

        assert [] == epochs.run([Trade("a", 3.5)])
    finally:
        close_buckets()


@pytest.mark.parametrize("name", KEYED)
def test_states_that_kernels_hold_are_not_read_again_at_the_end(
    name, tmp_path, monkeypatch
):
    epochs = ColumnEpochs(tmp_path, KEYED[name])
    trades = [Trade(f"S{n % 7}", 1.5 * n) for n in range(40)]
    try:
        epochs.run(trades)
        epochs.save()
        epochs.run(trades[:9])
        loaded = []
        monkeypatch.setattr(StoredStates, "_load", lambda *given: loaded.append(given))

        epochs.states.load_all()

        assert [] == loaded
        epochs.run_python(trades)
        epochs.run_python(trades[:9])
        expected = {
            key: list(state)
            for key, state in epochs.python.states[epochs.op.name].items()
        }
        assert expected == {key: list(state) for key, state in epochs.states.items()}
    finally:
        epochs.give_up()
