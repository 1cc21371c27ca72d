"""Tasks that stay for many epochs: the same results, whatever happens to them."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import time
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

import anabranch as ab
from anabranch.engines.spark import residence
from anabranch.engines.spark.access import ClassicAccess
from anabranch.engines.spark.residence import Residence, why_not_resident
from anabranch.epochs.layout import lay_out
from anabranch.epochs.loop import Epochs
from anabranch.epochs.resident.link import Listener
from anabranch.errors import OperatorError
from anabranch.job import compile_sinks
from tests import needs
from tests.engines.spark.test_job_labels import find_jobs

pytestmark = pytest.mark.spark

GROUP = "test_residence.py "
ITEMS = 60


class Trade(NamedTuple):
    number: int
    symbol: str


def trades(count=ITEMS):
    return [Trade(n, "ABC"[n % 3]) for n in range(count)]


def running(total: int, trade: Trade) -> tuple[int, tuple[str, int]]:
    return total + trade.number, (trade.symbol, total + trade.number)


def keyed(stream):
    """Return a program of two levels, and more with what it ends with."""
    return (
        stream.filter(lambda trade: trade.number % 7 > 0)
        .key_by("symbol")
        .scan(running, 0)
    )


def expected(count=ITEMS):
    totals = dict.fromkeys("ABC", 0)
    found = []
    for number, symbol in trades(count):
        if number % 7 > 0:
            totals[symbol] += number
            found.append((symbol, totals[symbol]))
    return found


@pytest.fixture
def ways(monkeypatch):
    """How each run of stages went: in tasks that stay, or as a Spark job."""
    found = []
    begin, collect = Residence.begin, Residence.collect

    def note_begin(self, *given, behind=None):
        run = begin(self, *given, behind=behind)
        if run is None and behind is None:
            found.append("job")
        return run

    def note_end(self, run):
        try:
            rows = collect(self, run)
        except ConnectionError:
            found.append("lost")
            raise
        found.append("stayed")
        return rows

    monkeypatch.setattr(Residence, "begin", note_begin)
    monkeypatch.setattr(Residence, "collect", note_end)
    return found


def find_active(spark):
    return tuple(spark.sparkContext.statusTracker().getActiveJobsIds())


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_all_epochs_and_the_end_of_the_stream_are_one_spark_job(spark, ways, degree):
    """Both windows have something to say at the end, one through the other."""
    before = len(find_jobs(spark, GROUP))
    numbers = ab.from_iterable(range(60), int).filter(lambda n: n % 7 > 0)
    sums = numbers.window(count=7).aggregate(len).window(count=2).aggregate(sum)
    out = sums.to_list()

    ab.run(out, on="spark", degree=degree, epoch_items=17)

    assert [14, 14, 14, 9] == out.items  # 51 numbers
    assert {"stayed"} == set(ways)
    assert 1 == len(find_jobs(spark, GROUP)) - before
    assert () == find_active(spark)


def killing(flag: Path):
    """Return a function whose process is killed when it meets item 30 first."""

    @ab.declare(state="stateless")
    def kill(trade: Trade) -> Trade:
        if trade.number == 30 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return trade

    return kill


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_task_that_is_killed_takes_nothing_with_it(tmp_path, ways, checkpoint):
    source = ab.from_iterable(trades(), Trade).map(killing(tmp_path / "killed"))
    out = keyed(source).to_list()
    options = {"checkpoint": tmp_path / "state"} if checkpoint else {}

    ab.run(out, on="spark", degree=2, epoch_items=10, **options)

    assert expected() == out.items
    assert 1 == ways.count("lost")
    assert "stayed" == ways[-1]


def test_an_error_of_the_program_is_told_as_ever(spark, ways):
    def inverse(trade: Trade) -> float:
        return 1 / (trade.number - 41)

    numbers = ab.from_iterable(trades(), Trade).map(inverse, name="inverse")

    with pytest.raises(OperatorError, match="inverse") as caught:
        ab.run(numbers.to_list(), on="spark", degree=2, epoch_items=10)

    assert "number=41" in str(caught.value)
    assert {"stayed"} == set(ways)
    assert () == find_active(spark)


def test_others_who_wait_for_a_slot_get_it(spark, ways):
    """A sink in the driver asks Spark, which has no slot left until the tasks go."""
    counts = []

    def ask(_: tuple[str, int]) -> None:
        if not counts:
            counts.append(spark.sparkContext.parallelize(range(9), 2).count())

    sink = keyed(ab.from_iterable(trades(), Trade)).for_each(ask)
    ab.run(sink, on="spark", degree=2, epoch_items=10)

    assert [9] == counts
    assert {"stayed", "job"} == set(ways)


def test_a_job_that_holds_the_slots_keeps_tasks_from_staying(spark, ways, monkeypatch):
    monkeypatch.setattr(residence, "_find_free_slots", lambda _: 1)
    out = keyed(ab.from_iterable(trades(), Trade)).to_list()

    ab.run(out, on="spark", degree=2, epoch_items=30)

    assert expected() == out.items
    assert {"job"} == set(ways)


@pytest.mark.parametrize("port_is", ["free", "another job's"])
def test_tasks_that_come_too_late_end_without_a_failure(
    ways, monkeypatch, caplog, port_is
):
    begin = residence._Stay.begin
    strangers = []

    def begin_late(stay, *given):
        port = stay.hub.port
        stay.hub.close()
        if port_is == "another job's":
            strangers.append(Listener("127.0.0.1", b"of another job", met=print))
            port = strangers[-1].port
        with monkeypatch.context() as patched:
            patched.setattr(type(stay.hub), "port", port)
            begin(stay, *given)
        assert stay._over.wait(60)

    monkeypatch.setattr(residence._Stay, "begin", begin_late)
    out = keyed(ab.from_iterable(trades(), Trade)).to_list()

    with caplog.at_level(logging.DEBUG):
        ab.run(out, on="spark", degree=2, epoch_items=30)
    for stranger in strangers:
        stranger.close()

    assert expected() == out.items
    assert {"job"} == set(ways)
    assert "resident tasks ended" not in caplog.text  # as they do when they fail


@pytest.mark.long
def test_where_tasks_are_lost_again_and_again_nobody_stays(tmp_path, ways):
    @ab.declare(state="stateless")
    def kill(trade: Trade) -> Trade:
        flag = tmp_path / str(trade.number // 10)
        if not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return trade

    out = ab.from_iterable(trades(), Trade).map(kill).to_list()
    ab.run(out, on="spark", degree=1, epoch_items=10)

    assert trades() == out.items
    assert residence.LOSSES == ways.count("lost")
    assert "job" == ways[-1]


def lay_out_program(sink):
    made = compile_sinks(sink, on="spark")
    return lay_out(made.graph, made.plan)


def cluster(master, **settings):
    context = SimpleNamespace(master=master, _conf=settings)
    return ClassicAccess(SimpleNamespace(sparkContext=context))


ENCRYPTED = {"spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        (cluster("local[2]"), None),
        (cluster("local[2]", **ENCRYPTED), None),
        (cluster("spark://host:7077"), None),
        (
            cluster("spark://host:7077", **ENCRYPTED),
            "spark.network.crypto.enabled asks for encrypted connections",
        ),
    ],
)
def test_what_spark_encrypts_does_not_go_through_open_connections(found, why):
    layout = lay_out_program(ab.from_iterable([1], int).map(abs).to_list())

    assert why == why_not_resident(found, layout)


def test_a_dataframe_needs_its_slots_itself(spark):
    frame = spark.range(5)
    layout = lay_out_program(ab.from_spark(frame).to_list())

    assert "the rows of a DataFrame come from other Spark jobs" == why_not_resident(
        cluster("local[2]"), layout
    )


@pytest.fixture
def flights(monkeypatch):
    """How many epochs were under way whenever one began beside others."""
    found = []
    begin = Epochs.begin

    def note(self, pieces):
        begun = begin(self, pieces)
        found.append(self.in_flight)
        return begun

    monkeypatch.setattr(Epochs, "begin", note)
    return found


@pytest.mark.parametrize("checkpoint", [False, True])
@pytest.mark.parametrize("degree", needs.quick(1, [2, 1]))
def test_epochs_begin_before_those_before_are_over(
    tmp_path, flights, degree, checkpoint
):
    """Each begins with the states that the one before it makes."""
    options = {"checkpoint": tmp_path / "state"} if checkpoint else {}
    out = keyed(ab.from_iterable(trades(600), Trade)).to_list()

    ab.run(out, on="spark", degree=degree, epoch_items=20, **options)

    assert expected(600) == out.items
    assert max(flights) > 1


@pytest.mark.parametrize("checkpoint", [False, True])
def test_what_is_lost_takes_back_the_epochs_behind_it(tmp_path, flights, checkpoint):
    options = {"checkpoint": tmp_path / "state"} if checkpoint else {}
    killed = ab.from_iterable(trades(600), Trade).map(killing(tmp_path / "killed"))
    out = keyed(killed).to_list()

    ab.run(out, on="spark", degree=2, epoch_items=10, **options)

    assert expected(600) == out.items
    assert max(flights) > 1


def test_nothing_behind_an_epoch_that_fails_is_delivered(flights):
    def fail_once(total: int, trade: Trade) -> tuple[int, int]:
        if trade.number == 333:
            raise ValueError(trade.number)
        return total + 1, trade.number

    source = ab.from_iterable(trades(600), Trade)
    out = source.key_by("symbol").scan(fail_once, 0, name="fails").to_list()

    with pytest.raises(OperatorError, match="fails"):
        ab.run(out, on="spark", degree=2, epoch_items=10)

    assert list(range(333)) == out.items
    assert max(flights) > 1


def test_items_that_fail_are_left_out_of_every_epoch_in_order(flights):
    def check(total: int, trade: Trade) -> tuple[int, int]:
        if trade.number % 50 == 0:
            raise ValueError(trade.number)
        return total + 1, total + 1

    failures = []
    source = ab.from_iterable(trades(600), Trade)
    out = source.key_by("symbol").scan(check, 0).to_list()

    ab.run(out, on="spark", degree=2, epoch_items=20, on_error=failures.append)

    assert list(range(0, 600, 50)) == [one.item.number for one in failures]
    assert 600 - 12 == len(out.items)
    assert max(flights) > 1


class Step(NamedTuple):
    number: int
    sums: tuple[int, ...] = ()


def add_up(total: int, step: Step) -> tuple[int, Step]:
    return total + step.number, Step(step.number, (*step.sums, total + step.number))


def three_sums(steps):
    """Return three operators in a row, each with a state without a key."""
    return (
        steps.scan(add_up, 0, name="a")
        .scan(add_up, 100, name="b")
        .scan(add_up, 200, name="c")
        .to_list()
    )


def expected_sums(count):
    sums = itertools.accumulate(range(count))
    return [Step(n, (s, 100 + s, 200 + s)) for n, s in enumerate(sums)]


@pytest.mark.parametrize("checkpoint", needs.quick(1, [True, False]))
@pytest.mark.parametrize("cuts", [("b",), ("b", "c")])
def test_a_part_before_a_cut_begins_the_next_epoch_while_the_last_part_works(
    tmp_path, flights, cuts, checkpoint
):
    """What it has changed is in no store until the last part has saved all of it."""
    options = {"checkpoint": tmp_path / "state"} if checkpoint else {}
    out = three_sums(ab.from_iterable([Step(n) for n in range(600)], Step))

    job = ab.start(out, on="spark", degree=1, epoch_items=20, **options)
    job._running.set_cuts(cuts)
    job.wait()

    assert expected_sums(600) == out.items
    assert max(flights) > 1


def test_a_part_that_is_killed_takes_back_the_epochs_behind_it(tmp_path, flights):
    flag = tmp_path / "killed"

    @ab.declare(state="stateless")
    def kill(total: int, step: Step) -> tuple[int, Step]:
        if step.number == 300 and not flag.exists():
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return add_up(total, step)

    source = ab.from_iterable([Step(n) for n in range(600)], Step)
    out = three_sums(source.scan(kill, 0))
    job = ab.start(
        out, on="spark", degree=1, epoch_items=20, checkpoint=tmp_path / "state"
    )
    job._running.set_cuts(("a", "c"))
    job.wait()

    assert flag.exists()
    assert [
        Step(n, (one.sums[0], *one.sums)) for n, one in enumerate(expected_sums(600))
    ] == out.items
    assert max(flights) > 1


def test_cuts_that_change_while_epochs_overlap_change_nothing_else(flights):
    out = three_sums(ab.from_iterable([Step(n) for n in range(900)], Step))

    job = ab.start(out, on="spark", degree=1, epoch_items=10)
    for cuts in itertools.cycle([("b",), (), ("b", "c"), ("c",)]):
        if job.status != "running":
            break
        job._running.set_cuts(cuts)
        time.sleep(0.1)
    job.wait()

    assert expected_sums(900) == out.items
    assert max(flights) > 1


def test_where_a_clock_stands_is_not_known_before_the_epoch_is_over(flights):
    timed = ab.from_iterable(trades(), Trade).event_time("number")
    out = timed.window(time=10, on="number").aggregate(len).to_list()

    ab.run(out, on="spark", degree=2, epoch_items=10)

    assert [10] * 6 == out.items
    assert {0} >= set(flights)


def test_a_stop_does_not_wait_for_epochs_that_begin_early(flights, monkeypatch):
    """They are not committed, so nobody wants their rows; `stop` would warn of a hang."""
    monkeypatch.setattr(residence, "LEAVE_S", 600.0)

    @ab.declare(state="stateless")
    def wait(trade: Trade) -> int:
        time.sleep(0.02)
        return trade.number

    out = ab.from_iterable(trades(6000), Trade).map(wait).to_list()
    job = ab.start(out, on="spark", degree=1, epoch_items=60)
    while job.metrics().epochs < 2 or max(flights, default=0) < 2:
        time.sleep(0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        job.stop()

    assert list(range(len(out.items))) == out.items
    assert "stopped" == job.status
