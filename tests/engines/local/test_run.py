"""Running on the local engine: changes, errors, stopping, and what it tells."""

from __future__ import annotations

import itertools
import re
import threading
import time
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.errors import EngineError, InputError, OperatorError
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.runtime.split import even_table
from anabranch.runtime.thread import Options
from tests.engines.local.shaking import ended, started


class Tick(NamedTuple):
    key: int
    value: int


class Steps:
    """An endless source that gives out as many items as it is told to."""

    def __init__(self):
        self.allowed = threading.Semaphore(0)

    def __call__(self):
        for n in itertools.count():
            self.allowed.acquire()
            yield Tick(n % 7, n)

    def give(self, count):
        self.allowed.release(count)


def total(state: int, tick: Tick) -> tuple[int, Tick]:
    return state + tick.value, tick._replace(value=state + tick.value)


def totals(count):
    sums, expected = {}, []
    for n in range(count):
        sums[n % 7] = sums.get(n % 7, 0) + n
        expected.append(Tick(n % 7, sums[n % 7]))
    return expected


def eventually(holds, patience_s=30):
    """Wait for something that another thread is about to do."""
    deadline_s = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline_s, "it never came to that"
        time.sleep(0.001)


def arrived(sink, count):
    eventually(lambda: len(sink.items) == count)


@pytest.fixture
def keyed():
    """A keyed program that runs, its source, and its sink."""
    steps = Steps()
    stream = ab.generate(steps, Tick).key_by("key").scan(total, 0, name="total")
    sink = stream.map(lambda tick: tick, name="after").to_list()
    made = compile_sinks(sink, on="local")
    run = LocalEngine().start(made.graph, made.plan, Options())
    yield run, steps, sink
    steps.give(10)
    run.stop()


def region_of(run, operator):
    (name,) = [r.name for r in run.flow.plan.regions if operator in r.operators]
    return name


def test_keyed_state_moves_with_its_bucket(keyed):
    run, steps, sink = keyed
    region = region_of(run, "total")
    done = 0
    for degree in (3, 2, 5, 1, 4):
        run.set_degree(region, degree)
        steps.give(50)
        done += 50
        arrived(sink, done)

    assert totals(done) == sink.items


def test_a_hot_bucket_can_be_given_to_another_channel(keyed):
    run, steps, sink = keyed
    region = region_of(run, "total")
    run.set_degree(region, 3)
    steps.give(50)
    arrived(sink, 50)

    run.set_table(region, tuple(2 - channel for channel in even_table(3)))
    steps.give(50)
    arrived(sink, 100)

    assert totals(100) == sink.items


def test_a_change_tells_how_long_the_flow_stood_still(keyed):
    run, *_ = keyed

    change = run.insert_port("after", why="a test")

    assert change.what == "insert a threaded port at after[0]"
    assert change.why == "a test"
    assert re.search(r"paused for [\d.]+ ms", change.effect)
    assert (change,) == run.history


def test_ports_come_and_go(keyed):
    run, steps, sink = keyed
    for n in range(1, 4):
        run.insert_port("after")
        assert run.metrics().ports == ("after[0]",)
        steps.give(10)
        arrived(sink, 20 * n - 10)
        run.remove_port("after")
        assert run.metrics().ports == ()
        steps.give(10)
        arrived(sink, 20 * n)

    assert totals(60) == sink.items


def test_a_change_names_the_locks_that_it_turns_on_and_off():
    steps = Steps()
    source = ab.generate(steps, Tick, name="o1")
    second = source.map(lambda tick: tick, name="o2")
    sink = ab.union(source, second, name="o3").to_list()
    run = started([sink], lambda *_: Configuration())

    inserted = run.insert_port("o2")
    removed = run.remove_port("o2")
    run.stop()

    assert "locks turned on: o3" in inserted.effect
    assert "locks turned off: o3" in removed.effect


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.insert_port("nobody"),
        lambda run: run.insert_port("after", 1),
        lambda run: run.set_degree("nowhere", 2),
        lambda run: run.set_degree("r0", 0),
    ],
)
def test_changes_that_make_no_sense_are_refused(keyed, change):
    run, *_ = keyed

    with pytest.raises(ValueError, match="must"):
        change(run)


def test_a_program_that_has_ended_cannot_be_changed():
    run = ended(started([ab.from_iterable([1]).to_list()], lambda *_: Configuration()))

    with pytest.raises(EngineError, match="has ended"):
        run.insert_port("to_list")


def test_stop_ends_a_program_whose_source_gives_nothing_more(keyed):
    run, steps, sink = keyed
    steps.give(5)
    arrived(sink, 5)

    run.stop()

    assert run.status == "stopped"
    assert totals(5) == sink.items


def test_no_item_waits_for_the_next_one(keyed):
    """
    A burst and then silence: the last items of the burst must not stay behind.
    """
    _, steps, sink = keyed
    for count in (1, 50, 500):
        before = len(sink.items)
        steps.give(count)
        arrived(sink, before + count)

    assert totals(551) == sink.items


FAILING = {
    "fused": {},
    "behind a port": {"ports": frozenset({Input("bad")})},
    "in channels": {"degree": 3},
}


@pytest.mark.parametrize("options", FAILING.values(), ids=FAILING)
def test_an_error_stops_the_program_and_names_operator_and_item(options):
    sink = (
        ab.from_iterable(range(1000))
        .map(lambda n: 1 // (500 - n), name="bad")
        .to_list()
    )

    def choose(graph, plan):
        degrees = {r.name: options.get("degree", 1) for r in plan.regions}
        return Configuration(options.get("ports", frozenset()), degrees)

    run = started([sink], choose)

    with pytest.raises(
        OperatorError, match=r"'bad' .* failed on .*: 500: ZeroDivision"
    ):
        run.wait(30)
    assert run.status == "failed"


def test_a_fused_error_names_the_place_of_the_item_in_its_source():
    sink = (
        ab.from_iterable(range(1000), name="src")
        .map(lambda n: 1 // (500 - n))
        .to_list()
    )

    with pytest.raises(OperatorError, match="item 501 of src"):
        ab.run(sink, on="local")


@pytest.mark.parametrize("degree", [1, 3])
def test_items_that_fail_are_left_out_or_sent_elsewhere(degree):
    lost = []
    sink = ab.from_iterable(range(100)).map(lambda n: n // (n % 10)).to_list()

    ab.run(sink, on="local", degree=degree, on_error=ab.dead_letter(lost.append))

    assert [n // (n % 10) for n in range(100) if n % 10] == sink.items
    assert list(range(0, 100, 10)) == sorted(failure.item for failure in lost)


def test_a_sink_that_fails_is_an_error_like_any_other():
    seen, lost = [], []

    def take(n):
        if n == 3:
            msg = "no threes"
            raise ValueError(msg)
        seen.append(n)

    sink = ab.from_iterable(range(6)).for_each(take, name="take")
    job = ab.run(sink, on="local", on_error=ab.dead_letter(lost.append))

    assert [0, 1, 2, 4, 5] == seen
    assert [("take", 3)] == [(failure.operator, failure.item) for failure in lost]
    assert job.metrics().delivered == {"take": 5}


def test_a_source_that_fails_stops_the_program():
    def broken():
        yield 1
        msg = "the wire is cut"
        raise OSError(msg)

    with pytest.raises(InputError, match="the wire is cut"):
        ab.run(ab.generate(broken).to_list(), on="local")


def test_no_half_written_file_is_left(tmp_path):
    path = tmp_path / "out.csv"
    sink = (
        ab.from_iterable(range(1000)).map(lambda n: 1 // (900 - n)).write_csv(str(path))
    )

    with pytest.raises(OperatorError):
        ab.run(sink, on="local")

    assert not path.exists()


def test_setup_of_an_operator_runs_once_whatever_changes():
    setups = []

    class Once(ab.Operator):
        def setup(self):
            setups.append(self)
            self.n = 0

        def process(self, item):
            self.n += 1
            return [self.n]

        def finish(self):
            return [-self.n]

    steps = Steps()
    sink = ab.generate(lambda: itertools.islice(steps(), 20)).apply(Once, name="once")
    out = sink.to_list()
    run = started([out], lambda *_: Configuration())
    steps.give(10)
    run.insert_port("once")
    steps.give(9)
    run.remove_port("once")
    steps.give(1)
    ended(run)

    assert [*range(1, 21), -20] == out.items
    assert len(setups) == 1


def test_metrics_have_latencies_and_counters():
    sink = ab.from_iterable(range(1000)).map(lambda n: n, name="m").to_list(name="out")

    metrics = ab.run(sink, on="local", degree=2).metrics()

    assert metrics.read == {"from_iterable": 1000}
    assert metrics.delivered == {"out": 1000}
    assert metrics.latency.items == 1000
    assert sum(items for _, items in metrics.latency_counts) == 1000
    assert 0 < metrics.latency.p50_ms <= metrics.latency.max_ms
    assert (500, 500) == metrics.elements["m"].received


def test_all_threads_end_with_the_program():
    before = threading.active_count()
    numbers = ab.from_iterable(range(1000)).map(lambda n: n, name="m")
    ended(
        started(
            [ab.union(numbers, numbers.map(lambda n: -n, name="u")).to_list()],
            lambda _, plan: Configuration(
                frozenset({Input("u")}), {r.name: 3 for r in plan.regions}
            ),
        )
    )

    eventually(lambda: threading.active_count() <= before)
    assert threading.active_count() <= before
