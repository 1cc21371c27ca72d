"""A controller on Spark: cuts come and go between epochs, the result stays."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pytest

import anabranch as ab
from anabranch.control.goals import ControlSettings, Throughput
from anabranch.control.throughput.tune import Controller
from anabranch.epochs.control import (
    REGIONS,
    EpochActuator,
    count_streams,
    list_inputs,
)
from anabranch.epochs.division import OF_JOBS
from anabranch.epochs.layout import lay_out
from anabranch.epochs.log import EpochLog, Seen, UnitLoads
from anabranch.epochs.task import Report, WrittenPart
from anabranch.job import compile_sinks
from anabranch.metrics.load import ThreadSamples
from anabranch.metrics.pipeline import ThreadLoad
from anabranch.plan.plan import Arrangement
from anabranch.testing import outputs
from tests.control.example import as_pipeline
from tests.engines.spark.imitation import Cluster, imitated, undisturbed

EAGER = ControlSettings(alpha=1.0, least_promise=-1.0, least_free_cores=-9.0)
RESTLESS = replace(EAGER, least_gain=-1.0, sureness=0.0)  # keeps everything


def step(total: int, n: int) -> tuple[int, int]:
    return (total * 31 + n) % 1009, total


def program(items: int) -> ab.Stream:
    """Operators with one state in all: they cannot be replicated, only cut."""
    stream = ab.from_iterable(range(items), name="read")
    for name in ("a", "b", "c"):
        stream = stream.scan(step, 0, name=name)
    return stream


class Imagining(EpochActuator):
    """Watches the program, but then reports a thread that any cut would help."""

    def profile(self):
        if super().profile() is None:
            return None
        places = sorted(self.places - self.arrangement.ports)
        uses = {place: (n + 1) / (len(places) + 1) for n, place in enumerate(places)}
        return as_pipeline(ThreadLoad("read", 1.0, uses))


def actuator_of(run, kind=EpochActuator) -> EpochActuator:
    return kind(run, run._layout, run._epoch_log)


@pytest.mark.long
@pytest.mark.spark
def test_a_controller_changes_nothing_in_the_result():
    expected, sink = outputs(program(600)), program(600).to_list()
    job = ab.start(sink, on="spark", degree=2, epoch_items=40)
    controller = Controller(actuator_of(job._running, Imagining), RESTLESS)

    controller.run()
    job.wait()

    assert expected == sink.items
    assert controller.history[0].what.startswith("insert a threaded port at")
    assert all(s.what and s.why and s.effect for s in controller.history)


@pytest.mark.spark
def test_workers_tell_which_operators_they_were_in():
    """
    Epochs are short, and looks at workers rare: some see them between two batches.
    """
    sink = program(20_000_000).to_list()
    job = ab.start(sink, on="spark", degree=2, epoch_items=200_000)
    actuator = actuator_of(job._running)
    profile = actuator.profile()
    while profile is not None and not profile.threads[0].ports:
        profile = actuator.profile()
    job.stop()

    assert profile is not None
    (load,) = profile.threads
    assert "a" == load.thread  # reading is a region, and so an element of its own
    assert {"b", "c"} == set(load.ports)
    assert load.utilization > 0


@pytest.mark.spark
def test_a_job_is_tuned_unless_its_degree_is_given():
    goal = Throughput(RESTLESS)
    tuned = ab.start(program(50).to_list(), on="spark", goal=goal)
    tuned.wait()
    fixed = ab.start(program(50).to_list(), on="spark", goal=goal, degree=1)
    fixed.wait()

    assert tuned._controller is not None
    assert fixed._controller is None


class FakeRun:
    """A run whose epochs are told by the test."""

    def __init__(self):
        self.ended = threading.Event()
        self.elapsed_s = 0.0
        self.cores = self.degree = 2
        self.costs = OF_JOBS
        self.cuts = frozenset()

    def set_degree(self, degree):
        self.degree = degree

    def set_cuts(self, operators):
        self.cuts = frozenset(operators)


def unstarted(*sinks) -> EpochActuator:
    made = compile_sinks(*sinks)
    return EpochActuator(FakeRun(), lay_out(made.graph, made.plan), EpochLog())


def test_cuts_are_possible_behind_the_first_operator_of_an_element():
    assert {"b", "c"} <= unstarted(program(1).to_list()).places


def test_an_element_that_is_cut_can_be_cut_again():
    actuator = unstarted(program(1).to_list())
    before = actuator.places

    actuator.arrange(Arrangement(frozenset({"b"})))

    assert {"b"} == before - actuator.places


def test_a_further_cut_moves_what_is_behind_it_in_its_part():
    sums = ab.from_iterable(range(9), name="read")
    for name in "abcd":
        sums = sums.scan(step, 0, name=name)
    actuator = unstarted(sums.to_list())
    actuator.arrange(Arrangement(frozenset({"c"})))
    unit = actuator.layout.unit_of["a"].number
    first = ThreadSamples("a", 1.0, 1.0, {("a",): 3.0, ("a", "b"): 1.0})
    second = ThreadSamples("c", 1.0, 1.0, {("c",): 1.0, ("c", "d"): 1.0})

    profile = actuator.profile_from(
        [Report(unit, 0, samples=(seen,)) for seen in (first, second)], took_s=1.0
    )

    assert [{"b": 0.25}, {"d": 0.5}] == [dict(load.ports) for load in profile.threads]


def test_a_unit_that_runs_in_columns_is_not_cut():
    """Behind a cut it would run in Python, which takes longer than two workers gain."""
    actuator = unstarted(program(1).to_list())
    unit = actuator.layout.unit_of["b"].number
    seen = ThreadSamples("a", 1.0, 1.0, {("a",): 1.0, ("a", "b"): 1.0})

    in_python, in_columns = (
        actuator.profile_from([Report(unit, 0, samples=(seen,), ran=ran)], took_s=1.0)
        for ran in ({"b": (0, 9)}, {"b": (9, 0)})
    )

    assert {"b": 0.5} == in_python.threads[0].ports
    assert {} == in_columns.threads[0].ports


def test_only_the_level_that_takes_longest_is_shown():
    """
    Levels run one after the other: threads of others do not need the cores.
    """
    keyed = ab.from_iterable(range(9), name="read").map(divmod_of, name="pair")
    actuator = unstarted(keyed.scan(step_of_pair, 0, name="sum").to_list())
    by_name = actuator.layout.unit_of
    quick = ThreadSamples("read", 1.0, 1.0, {("read", "pair"): 1.0})
    slow = ThreadSamples("sum", 5.0, 5.0, {("sum",): 1.0})

    profile = actuator.profile_from(
        [
            Report(by_name["pair"].number, 0, samples=(quick,)),
            Report(by_name["sum"].number, 0, samples=(slow,)),
        ],
        took_s=10.0,
    )

    assert ["sum"] == [load.thread for load in profile.threads]
    assert 0.5 == profile.share


def is_rare(n: int) -> bool:
    return n % 100 == 0


def slow(n: int) -> int:
    return n + 1


def behind_a_filter() -> ab.Result:
    stream = ab.from_iterable(range(1000), name="read").map(slow, name="all")
    few = stream.filter(is_rare, name="rare").map(slow, name="few")
    return few.scan(step, 0, name="sum").to_list(name="out")


def test_each_operator_has_its_own_rate_behind_a_filter_too():
    """Workers count the streams inside a unit; the next unit counts what it gets."""
    actuator = unstarted(behind_a_filter())
    layout = actuator.layout
    first, last = layout.unit_of["few"], layout.unit_of["sum"]
    to_few = ("read", "all", "rare", "few")
    seen = ThreadSamples("read", 1.0, 1.0, {to_few[:2]: 1, to_few: 3})
    streams = {edge.consumer.operator: edge for edge in layout.graph.edges}
    counted = {"all": 500, "rare": 500, "few": 5}
    reports = [
        Report(
            first.number,
            replica,
            read={"read": 500},
            taken=(500,),
            samples=(seen,),
            passed={streams[name]: count for name, count in counted.items()},
        )
        for replica in range(2)
    ]
    reports.append(
        Report(last.number, 0, taken=(10,), written=(WrittenPart("out", "", 10),))
    )

    profile = actuator.profile_from(reports, took_s=2.0)
    rates = list_inputs(layout, count_streams(layout, reports), 2.0)

    assert 500.0 == profile.source_per_s
    assert {"read": 500, "all": 500, "rare": 500, "few": 5, "sum": 5, "out": 5} == {
        one.operator: one.in_per_s for one in rates
    }
    (few,) = (one for one in profile.inputs if one.operator == "few")
    assert 5.0 == few.in_per_s
    assert pytest.approx(0.3) == few.service.cpu_s  # 0.75 of two cores, 5 items/s


def test_in_columns_streams_that_leave_a_unit_tell_of_those_before_maps():
    actuator = unstarted(behind_a_filter())
    layout = actuator.layout
    first, last = layout.unit_of["few"], layout.unit_of["sum"]
    reports = [
        Report(first.number, 0, read={"read": 1000}, taken=(1000,)),
        Report(last.number, 0, taken=(10,)),
    ]

    counts = count_streams(layout, reports)

    assert {"all": 1000, "rare": 1000, "few": 10, "sum": 10, "out": 10} == {
        edge.consumer.operator: count for edge, count in counts.items()
    }


def test_a_profiled_task_reports_the_items_of_each_stream(monkeypatch, tmp_path):
    found: list[Report] = []
    note = UnitLoads.note

    def keep(loads, reports):
        found.extend(reports)
        note(loads, reports)

    monkeypatch.setattr(UnitLoads, "note", keep)
    always = property(lambda _: True, lambda *_: None)
    monkeypatch.setattr(EpochLog, "profiling", always, raising=False)
    sink = behind_a_filter()

    with imitated(monkeypatch, Cluster(undisturbed), tmp_path):
        ab.run(sink, on="spark", degree=2)

    passed: Counter[str] = Counter()
    for report in found:
        for edge, count in report.passed.items():
            passed[edge.consumer.operator] += count
    assert 10 == len(sink.items)
    assert 1000 == passed["rare"]
    assert 10 == passed["few"] == passed["sum"]
    assert 1010 == sum(sum(report.taken) for report in found)


def divmod_of(n: int) -> tuple[int, int]:
    return divmod(n, 2)


def step_of_pair(total: int, pair: tuple[int, int]) -> tuple[int, int]:
    return total + pair[0], total


def passed(actuator, items: int, seconds: float, *, profiled: bool = False) -> None:
    """Let an epoch go by."""
    log = actuator._log
    log.begin()
    report = Report(0, 0, {"read": items})
    log._recent.append(Seen(log.started, seconds, profiled, (report,)))


def test_a_cut_moves_all_that_is_behind_it_on_whatever_way():
    """
    Of what follows a meeting, a thread is seen on the way that an item took; a cut
    before one of the ways moves it for both.
    """
    first = ab.from_iterable(range(9), name="read").scan(step, 0, name="first")
    one, other = (first.scan(step, 0, name=name) for name in ("one", "other"))
    both = ab.union(one, other, name="both").scan(step, 0, name="last")
    actuator = unstarted(both.to_list())
    unit = actuator.layout.unit_of["last"]
    ways = {("first", "one", "both", "last"): 1.0, ("first", "other", "last"): 3.0}
    seen = ThreadSamples(unit.operators[0], 1.0, 1.0, ways)

    profile = actuator.profile_from([Report(unit.number, 0, samples=(seen,))], 1.0)

    assert 1.0 == profile.threads[0].ports["one"]


def test_it_predicts_what_other_degrees_would_take():
    """
    Two tasks of a second each in an epoch of four: one task would take a second longer,
    and three on two cores no less than now.
    """
    actuator = unstarted(replicable())
    busy = ThreadSamples("read", 1.0, 1.0, {("read", "pair"): 1.0})
    reports = [Report(0, channel, samples=(busy,)) for channel in range(2)]

    profile = actuator.profile_from(reports, took_s=4.0)

    assert {REGIONS: 1.25} == profile.with_fewer
    assert {REGIONS: 1.0} == profile.with_more


def test_a_degree_that_changes_nothing_is_no_choice():
    """A millisecond of work is done by one task, whatever the degree is."""
    actuator = unstarted(replicable())
    idle = ThreadSamples("read", 0.001, 0.001, {("read", "pair"): 0.001})

    profile = actuator.profile_from([Report(0, 0, samples=(idle,))], took_s=0.1)

    assert {} == profile.with_fewer
    assert {REGIONS: 1.0} == profile.with_more


def test_regions_have_one_degree_together():
    actuator = unstarted(replicable())

    assert {REGIONS: ("read", "pair")} == actuator.regions
    assert 2 == actuator.arrangement.degree(REGIONS)
    assert "from the next epoch on" == actuator.arrange(Arrangement())
    assert 1 == actuator._run.degree


def test_all_regions_are_measured_where_most_sources_lead():
    """
    One source may end before the others: at its operators nothing would come by.
    """
    short = ab.from_iterable(range(9), name="short")
    both = ab.union(short, ab.from_iterable(range(9), name="long"), name="both")
    actuator = unstarted(both.map(divmod_of, name="pair").to_list())

    assert 2 == len(actuator._leading[actuator.regions[REGIONS][0]])


def replicable() -> ab.Result:
    return ab.from_iterable(range(9), name="read").map(divmod_of, name="pair").to_list()


def test_a_program_without_regions_has_no_degree_to_change():
    actuator = unstarted(replicable())
    actuator.regions = {}

    actuator.arrange(Arrangement())

    assert () == actuator.arrangement.degrees
    assert 2 == actuator._run.degree


def test_epochs_are_not_measured_while_they_still_become_faster():
    """
    Java compiles while the first epochs run: that is no gain of a change.
    """
    actuator = unstarted(replicable())
    for seconds in (8.0, 4.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        passed(actuator, 100, seconds)

    assert (100.0, 100.0, 100.0) == actuator.rates().at["pair"]


def test_small_epochs_are_not_compared_with_large_ones():
    actuator = unstarted(replicable())
    for items in (100, 100, 100, 10, 100, 100, 20):
        passed(actuator, items, 1.0)

    assert (100.0, 100.0, 100.0) == actuator.rates().at["read"]


def test_epochs_that_have_become_smaller_for_good_are_compared_again():
    actuator = unstarted(replicable())
    for items in (100, 100, *[50] * 8):
        passed(actuator, items, 1.0)
    actuator.rates()  # of both

    assert (50.0, 50.0, 50.0) == actuator.rates().at["read"]


def test_only_epochs_that_begin_after_a_change_tell_about_it():
    """
    One that runs while the change is made still has the old degree.
    """
    actuator = unstarted(replicable())
    for _ in range(5):
        passed(actuator, 100, 1.0)
    assert actuator.rates() is not None
    actuator._log.begin()  # this one is under way

    actuator.arrange(Arrangement())
    under_way = Seen(actuator._log.started, 9.0, False, (Report(0, 0, {"read": 100}),))
    actuator._log._recent.append(under_way)
    for _ in range(3):
        passed(actuator, 100, 0.5)

    assert (200.0, 200.0, 200.0) == actuator.rates().at["read"]


def test_a_program_that_has_ended_gives_no_answers():
    actuator = unstarted(program(1).to_list())
    actuator._run.ended.set()

    answers = actuator.rates(), actuator.profile(), actuator.arrange(Arrangement())

    assert (None, None, None) == answers
