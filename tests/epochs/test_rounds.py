"""Rounds of an `iterate` run in the tasks of all replicas, with the results of one thread."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace

import pytest

import anabranch as ab
from anabranch import job
from anabranch.epochs import end_of_stream
from anabranch.epochs.loop import Epochs
from anabranch.errors import OperatorError
from tests import needs
from tests.engines.local.test_rounds import BODIES, halve, of_stream
from tests.engines.spark.imitation import Cluster, Killed, imitated
from tests.engines.spark.test_clocks import undisturbed
from tests.programs.compare import run_imitated, run_on, run_resumed
from tests.programs.functions import Event, events, is_rare, sum_block


@pytest.fixture
def imitation(monkeypatch, tmp_path):
    """Run the jobs of a test on an imitation of Spark; count the rounds in tasks."""
    monkeypatch.setattr(end_of_stream, "WORTH_S", 0)  # whatever a round takes
    begun = []
    begin = Epochs.begin_anew

    def note(self):
        begun.append(self)
        begin(self)

    monkeypatch.setattr(Epochs, "begin_anew", note)
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path / "hosts"):
        yield begun


@pytest.mark.parametrize(
    ("epoch_items", "degree"),
    needs.quick_rows(1, [(7, 2), (1000, 3), (50, 1)]),
)
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_rounds_give_what_one_thread_gives(body, epoch_items, degree, imitation):
    expected, sinks = of_stream(body), of_stream(body)
    ab.run(*expected, on="sequential")

    ab.run(*sinks, on="spark", degree=degree, epoch_items=epoch_items)

    assert [sink.items for sink in expected] == [sink.items for sink in sinks]
    parallel = ab.compile(*sinks, on="spark").plan.bodies
    assert bool(degree > 1 and parallel) == bool(imitation)


@ab.declare(state="stateless")
def by_process(pair: tuple[int, int]) -> tuple[int, int]:
    return pair[0], os.getpid()


@pytest.mark.spark
def test_a_round_has_as_many_processes_as_it_is_told(monkeypatch):
    monkeypatch.setattr(end_of_stream, "WORTH_S", 0)
    pairs = ab.from_iterable([(n, 0) for n in range(60)])
    out = pairs.iterate(lambda s: s.map(by_process), rounds=2).to_list()

    ab.run(out, on="spark", degree=2, verify="off")

    assert list(range(60)) == [number for number, _ in out.items]
    processes = {process for _, process in out.items}
    assert 2 == len(processes - {os.getpid()})


def test_rounds_that_take_long_are_tried_on_all_cores(monkeypatch, imitation):
    monkeypatch.setattr(end_of_stream, "WORTH_S", 1e-12)
    out = ab.from_iterable([1, 2, 3]).iterate(lambda s: s.map(abs), rounds=2).to_list()

    ab.run(out, on="spark", degree=2)

    assert 1 == len(imitation)
    assert [1, 2, 3] == out.items


def test_rounds_that_take_no_time_stay_in_one_process(monkeypatch, imitation):
    monkeypatch.setattr(end_of_stream, "WORTH_S", 60)
    out = ab.from_iterable([1, 2, 3]).iterate(lambda s: s.map(abs), rounds=4).to_list()

    ab.run(out, on="spark", degree=2)

    assert [] == imitation
    assert [1, 2, 3] == out.items


@pytest.mark.parametrize("on", ["sequential", "spark"])
@pytest.mark.parametrize("resilient", [False, True])
def test_a_failure_in_a_round_is_that_of_one_thread(on, resilient, imitation):
    out = ab.from_iterable([5, 4, 3, 2]).iterate(
        lambda s: s.map(halve, name="halve"), rounds=1, name="rounds"
    )
    lost = []
    degree = {"degree": 2} if on == "spark" else {}

    if resilient:
        ab.run(out.to_list(), on=on, on_error=ab.dead_letter(lost.append), **degree)
        assert ["rounds"] == [failure.operator for failure in lost]
    else:
        with pytest.raises(
            OperatorError, match=r"(?s)operator 'halve'.*ZeroDivisionError"
        ):
            ab.run(out.to_list(), on=on, **degree)


@pytest.mark.parametrize("round_", needs.quick(1, [2, 1, 3]))
def test_a_job_that_is_killed_in_its_rounds_runs_them_again(
    round_, monkeypatch, tmp_path
):
    def run(folder, **options):
        stream = ab.from_iterable(list(range(40)), int)
        sums = stream.iterate(
            lambda s: s.map(lambda n: n + 1).scan(lambda t, n: (t + n, t + n), 0),
            rounds=3,
        )
        ab.run(sums.write_jsonl(tmp_path / folder), **options)

    monkeypatch.setattr(end_of_stream, "WORTH_S", 0)

    def kill(self):
        if next(left) == 0:
            raise Killed
        begin(self)

    begin, left = Epochs.begin_anew, iter(range(round_ - 1, -1, -1))
    run("one.jsonl", on="sequential")
    options = {
        "on": "spark",
        "degree": 2,
        "epoch_items": 15,
        "checkpoint": tmp_path / "c",
    }
    with imitated(monkeypatch, Cluster(undisturbed), tmp_path / "hosts"):
        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(Epochs, "begin_anew", kill)
            run("two.jsonl", **options)
        assert not (tmp_path / "two.jsonl").exists()

        run("two.jsonl", **options)

    expected = (tmp_path / "one.jsonl").read_text()
    assert expected == (tmp_path / "two.jsonl").read_text()
    assert "" != expected


def test_explain_names_what_is_parallel_in_a_round():
    stream = ab.from_iterable(list("ab")).iterate(lambda s: s.map(str.upper), rounds=2)

    text = ab.explain(stream.to_list(), on="spark")

    assert "iterate: map of its body runs in parallel, in each round" in text


# ---------------------------------------------------------------- windows side by side


def of_windows(body, **options):
    marked = ab.from_iterable(events(3, 90), Event).punctuate(is_rare)
    return marked.iterate(body, rounds=2, **options)


@pytest.mark.spark
def test_the_rounds_of_windows_run_in_several_processes():
    pairs = ab.from_iterable([(n, 0) for n in range(60)])
    marked = pairs.punctuate(lambda pair: pair[0] % 5 == 0)
    out = marked.iterate(lambda s: s.map(by_process), rounds=2).to_list()

    ab.run(out, on="spark", degree=2, verify="off")

    assert list(range(60)) == [number for number, _ in out.items]
    windows = [{process for _, process in out.items[1:][at : at + 5]} for at in (0, 40)]
    assert [1, 1] == list(map(len, windows))
    assert windows[0] != windows[1]


def test_the_rounds_of_windows_are_in_a_region():
    made = ab.compile(of_windows(BODIES["a map"]).to_list(), on="spark")

    assert ("iterate",) in [region.operators for region in made.plan.regions]
    assert ["iterate.windows", "to_list"] == [s.operator for s in made.plan.sequential]
    text = made.explain()
    assert "iterate: each replica runs the rounds of whole windows" in text
    assert "in each round of the window that the end closes" in " ".join(text.split())


def is_odd(number: int) -> bool:
    return number % 2 == 1


def add_one(number: int) -> int:
    return number + 1


def in_windows_twice(stream: ab.Stream) -> ab.Stream:
    """Two rounds of two rounds each, both in windows."""
    inner = stream.punctuate(is_odd).iterate(lambda s: s.map(add_one), rounds=2)
    return inner.map(add_one)


@pytest.mark.parametrize("degree", [1, 2])
def test_rounds_in_windows_may_be_nested(degree, imitation):
    marked = ab.from_iterable(range(40)).punctuate(lambda number: number % 7 == 0)
    out = marked.iterate(in_windows_twice, rounds=2).to_list()

    ab.run(out, on="spark", degree=degree, epoch_items=9)

    assert [number + 6 for number in range(40)] == out.items
    assert bool(imitation) == (degree > 1)


def test_rounds_with_effects_stay_with_the_items_of_their_windows():
    asked = []
    out = of_windows(BODIES["a map"], until=asked.append)

    made = ab.compile(out.to_list(), on="spark")

    assert "iterate.windows" not in made.graph.names


def test_a_name_that_the_user_has_given_is_left_to_the_user():
    out = of_windows(BODIES["a map"]).map(abs, name="iterate.windows").to_list()

    assert "iterate.windows_" in ab.compile(out, on="spark").graph.names


@pytest.mark.parametrize("epoch_items", needs.quick(1, [7, 1, 50]))
@pytest.mark.parametrize("body", needs.quick(1, list(BODIES.values())))
def test_a_job_that_resumes_between_windows_gives_what_one_thread_gives(
    body, epoch_items
):
    one, two, expected = (of_windows(body).to_list() for _ in range(3))
    ab.run(expected, on="sequential")

    (given,) = run_resumed([one], [two], on="spark", degree=2, epoch_items=epoch_items)

    assert expected.items == given


def test_blocks_behind_rounds_do_not_count_punctuations():
    expected, out = (
        of_windows(BODIES["a map"]).block(sum_block, pop=2, push=1).to_list()
        for _ in range(2)
    )
    ab.run(expected, on="sequential")

    assert [expected.items] == run_imitated([out], on="spark", degree=2, epoch_items=7)


@pytest.mark.parametrize("until", [None, lambda items: items[0] / 0 > 1])
def test_the_failures_of_windows_are_those_of_one_thread(until):
    def find_failures(run, **options):
        numbers = ab.from_iterable([n * 7 % 23 for n in range(41)], int)
        marked = numbers.punctuate(lambda n: n % 5 == 0)
        body = lambda s: s.map(lambda n: n // (n - 7))
        out = marked.iterate(body, rounds=1, until=until, name="rounds").to_list()
        lost = []
        run([out], on_error=ab.dead_letter(lost.append), **options)
        found = [(one.operator, one.item, one.where, one.has_item) for one in lost]
        return out.items, found

    expected = find_failures(run_on, on="sequential")

    assert expected == find_failures(run_imitated, on="spark", degree=2)
    assert expected[1]


def test_a_job_goes_on_with_the_windows_of_an_earlier_release(monkeypatch):
    one, two, expected = (of_windows(BODIES["a map"]).to_list() for _ in range(3))
    ab.run(expected, on="sequential")
    plans = []
    compile_with = job.compile_with

    def compile_as_before(rules, *others):
        if not plans:
            rules = replace(rules, whole_rounds=frozenset({"iterate"}))
        plans.append(compile_with(rules, *others))
        return plans[-1]

    monkeypatch.setattr(job, "compile_with", compile_as_before)

    (given,) = run_resumed([one], [two], on="spark", degree=2, epoch_items=7)

    assert expected.items == given
    assert [False, False] == ["iterate.windows" in made.graph.names for made in plans]
