"""A controller on Spark: cuts come and go between epochs, the result stays."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import anabranch as ab
from anabranch.control.controller import Controller
from anabranch.control.goals import Throughput
from anabranch.control.settings import Settings
from anabranch.engines.spark.actuator import SparkActuator
from anabranch.engines.spark.epoch_log import EpochLog
from anabranch.engines.spark.layout import lay_out
from anabranch.engines.spark.task import Report
from anabranch.job import compile_sinks
from anabranch.metrics.load import Profile, ThreadLoad
from anabranch.metrics.samples import ThreadSamples
from anabranch.plan.arrangement import Arrangement
from anabranch.testing import outputs

EAGER = Settings(alpha=1.0, least_promise=-1.0, least_free_cores=-9.0)
RESTLESS = replace(EAGER, least_gain=-1.0, sureness=0.0)  # keeps everything


def step(total: int, n: int) -> tuple[int, int]:
    return (total * 31 + n) % 1009, total


def program(items: int) -> ab.Stream:
    """Operators with one state in all: they cannot be replicated, only cut."""
    stream = ab.from_iterable(range(items), name="read")
    for name in ("a", "b", "c"):
        stream = stream.scan(step, 0, name=name)
    return stream


class Imagining(SparkActuator):
    """Watches the program, but then reports a thread that any cut would help."""

    def profile(self):
        if super().profile() is None:
            return None
        places = sorted(self.places - self.arrangement.ports)
        uses = {place: (n + 1) / (len(places) + 1) for n, place in enumerate(places)}
        return Profile((ThreadLoad("read", 1.0, uses),))


def actuator_of(run, kind=SparkActuator) -> SparkActuator:
    return kind(run, run._layout, run._epoch_log, run.set_cuts)


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
    sink = program(2_000_000).to_list()
    job = ab.start(sink, on="spark", degree=2, epoch_items=200_000)
    profile = actuator_of(job._running).profile()
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
    """A run of which only its end matters."""

    def __init__(self):
        self.ended = threading.Event()

    def ended_within(self, seconds):
        return self.ended.wait(seconds)


def unstarted(*sinks) -> SparkActuator:
    made = compile_sinks(*sinks)
    layout = lay_out(made.graph, made.plan)
    return SparkActuator(FakeRun(), layout, EpochLog(), lambda _: None)


def test_cuts_are_possible_behind_the_first_operator_of_an_element():
    assert {"b", "c"} <= unstarted(program(1).to_list()).places


def test_an_element_is_not_cut_twice():
    actuator = unstarted(program(1).to_list())
    before = actuator.places

    actuator.arrange(Arrangement(frozenset({"b"})))

    assert {"b", "c"} == before - actuator.places


def test_only_the_level_that_takes_longest_is_shown():
    """
    Levels run one after the other: threads of others do not need the cores.
    """
    keyed = ab.from_iterable(range(9), name="read").map(divmod_of, name="pair")
    actuator = unstarted(keyed.scan(step_of_pair, 0, name="sum").to_list())
    by_name = actuator._layout.unit_of
    quick = ThreadSamples("read", 1.0, 1.0, {("read", "pair"): 1.0})
    slow = ThreadSamples("sum", 5.0, 5.0, {("sum",): 1.0})

    profile = actuator.profile_from(
        [
            Report(by_name["pair"].number, 0, samples=(quick,)),
            Report(by_name["sum"].number, 0, samples=(slow,)),
        ]
    )

    assert ["sum"] == [load.thread for load in profile.threads]


def divmod_of(n: int) -> tuple[int, int]:
    return divmod(n, 2)


def step_of_pair(total: int, pair: tuple[int, int]) -> tuple[int, int]:
    return total + pair[0], total


def test_a_program_that_has_ended_gives_no_answers():
    actuator = unstarted(program(1).to_list())
    actuator._run.ended.set()

    answers = actuator.rates(), actuator.profile(), actuator.arrange(None)

    assert (None, None, None) == answers
