"""A controller on the real engine: whatever it does, the result is the sequential one."""

from __future__ import annotations

import hashlib
import time
from dataclasses import replace

import pytest

import anabranch as ab
from anabranch.control.goals import ControlSettings
from anabranch.control.throughput.tune import Controller
from anabranch.engines.local import control as actuator_module
from anabranch.engines.local.control import LocalActuator, arrangement_of, rearrange
from anabranch.engines.local.counters import list_watched_threads
from anabranch.engines.local.layout import Configuration
from anabranch.engines.local.run import LocalEngine
from anabranch.graph.graph import Input
from anabranch.job import compile_sinks
from anabranch.metrics.pipeline import ThreadLoad
from anabranch.plan.plan import Arrangement
from anabranch.runtime.thread import Options
from anabranch.testing import outputs
from tests.control.example import as_pipeline

BLOCK = bytes(20_000)
EAGER = ControlSettings(alpha=1.0, least_promise=-1.0, least_free_cores=-9.0)
RESTLESS = replace(EAGER, least_gain=-1.0, sureness=0.0)  # keeps everything
WAVERING = replace(EAGER, least_gain=0.5)  # takes nearly everything back


def hashed(n: int) -> int:
    return n + hashlib.sha256(BLOCK).digest()[0]


def summed(total: int, n: int) -> tuple[int, int]:
    return total + n, total


def program(items: int):
    read = ab.from_iterable(range(items), name="read")
    one = read.map(hashed, name="one").filter(lambda n: n % 3 != 0, name="some")
    other = read.map(hashed, name="other")
    both = ab.union(one, other, name="both").scan(summed, 0, name="sum")
    return both.map(hashed, name="last")


class Imagining(LocalActuator):
    """Watches the program, but then reports a thread that any port would help."""

    def profile(self):
        if super().profile() is None:
            return None
        ports = sorted(self.places - self.arrangement.ports)
        uses = {port: (n + 1) / (len(ports) + 1) for n, port in enumerate(ports)}
        return as_pipeline(ThreadLoad("read", 1.0, uses))


@pytest.fixture
def _hurried(monkeypatch):
    """Let the controller decide forty times a second, so that it does a lot."""
    monkeypatch.setattr(actuator_module, "PERIOD_S", 0.02)
    monkeypatch.setattr(actuator_module, "SLICES", 4)
    monkeypatch.setattr(actuator_module, "GLANCE_S", 0.02)
    monkeypatch.setattr(actuator_module, "SETTLING_S", 0.0)


@pytest.mark.parametrize("settings", [RESTLESS, WAVERING], ids=["restless", "wavering"])
@pytest.mark.usefixtures("_hurried")
def test_a_controller_changes_nothing_in_the_result(settings):
    expected, sink = outputs(program(4000)), program(4000).to_list()
    made = compile_sinks(sink, on="local")
    run = LocalEngine().start(made.graph, made.plan, Options())
    controller = Controller(Imagining(run, run.flow), settings)

    controller.run()
    run.wait()

    assert expected == sink.items
    assert controller.history[0].what.startswith("insert a threaded port at")
    assert all(step.what and step.why and step.effect for step in controller.history)
    times = [step.at_s for step in controller.history]
    assert sorted(times) == times


def test_the_history_of_a_job_has_the_steps_of_its_controller():
    """
    A program that never ends is watched until the controller has decided something.
    """
    sink = ab.generate(endless, int, name="read").map(hashed, name="one")
    job = ab.start(sink.for_each(lambda _: None), on="local")
    try:
        while not job.history:
            assert not job.wait(timeout=0.05)
    finally:
        job.stop()

    first = job.history[0]
    assert first.at_s > 0
    # On a crowded machine the thread seems to wait for the world: then it gets many.
    decided = first.what == "settled" or first.what.startswith("insert")
    assert decided or first.what.endswith(" replicas for r0")
    assert first.why


def endless():
    return iter(int, 1)


def test_a_given_degree_is_left_alone():
    job = ab.run(program(50).to_list(), on="local", degree=2)

    assert () == job.history
    assert {2} == set(job.metrics().degrees.values())


def started(sink, configuration=None):
    made = compile_sinks(sink, on="local")
    return LocalEngine(configuration).start(made.graph, made.plan, Options())


def test_every_thread_is_watched_under_the_operator_that_it_begins_with():
    stream = ab.generate(endless, int, name="read").map(abs, name="a")
    sink = stream.map(abs, name="b").for_each(lambda _: None)
    run = started(sink, Configuration(ports=frozenset({Input("b")})))

    begins = [one.begin for one in list_watched_threads(run.flow)]
    run.stop()

    assert ["read", "b"] == begins


def test_a_thread_is_seen_in_the_sink_that_it_hands_items_to():
    stream = ab.generate(endless, int, name="read").map(abs, name="a")
    run = started(stream.for_each(lambda _: hashed(1), name="out"))

    seen = set()
    while ("read", "a", "out") not in seen:
        (thread,) = run.actuator().samples(0.05)
        seen |= set(thread.at_work)
    run.stop()

    assert {route[0] for route in seen if route} == {"read"}


@pytest.mark.usefixtures("_hurried")
def test_throughput_at_an_operator_is_told_by_the_sources_that_lead_to_it():
    one = ab.generate(endless, int, name="one")
    other = ab.generate(endless, int, name="other").map(hashed, name="slow")
    run = started(ab.union(one, other, name="both").for_each(lambda _: None))

    rates = run.actuator().rates()
    run.stop()

    assert rates.at["slow"] == rates.at["other"]
    assert rates.at["both"] == pytest.approx(
        [a + b for a, b in zip(rates.at["one"], rates.at["other"], strict=True)]
    )


def test_a_program_that_has_ended_gives_no_answers():
    run = started(ab.from_iterable([1], name="read").to_list())
    run.wait()
    actuator = run.actuator()

    answers = actuator.rates(), actuator.profile(), actuator.arrange(Arrangement())

    assert (None, None, None) == answers


def test_arrangements_and_configurations_are_two_sides_of_one_thing():
    wanted = Arrangement(frozenset({"a", "b"})).with_degree("r0", 3)

    assert wanted == arrangement_of(rearrange(Configuration(), wanted))


def test_a_port_at_another_input_of_an_operator_is_kept():
    before = Configuration(ports=frozenset({Input("a", 1)}))

    assert before == rearrange(before, arrangement_of(before))


def test_taking_channels_back_leaves_one():
    wide = rearrange(Configuration(), Arrangement().with_degree("r0", 3))

    assert {"r0": 1} == rearrange(wide, Arrangement()).degrees


def test_operators_that_block_are_seen_and_helped_beyond_the_cores():
    @ab.declare(state="stateless")
    def fetch(n: int) -> int:
        time.sleep(0.005)
        return n

    out = ab.from_iterable(range(600), name="read").map(fetch, name="fetch").to_list()
    job = ab.run(out, on="local")

    assert list(range(600)) == out.items
    assert job.metrics().degrees["r0"] >= 8
