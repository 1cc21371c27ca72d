"""Rounds of an `iterate` run in the tasks of all replicas, with the results of one thread."""

from __future__ import annotations

import contextlib
import os

import pytest

import anabranch as ab
from anabranch.engines.spark import rounds
from anabranch.engines.spark.loop import Epochs
from anabranch.errors import OperatorError
from tests import needs
from tests.engines.local.test_rounds import BODIES, halve, of_stream
from tests.engines.spark.imitation import Cluster, Killed, imitated
from tests.engines.spark.test_clocks import undisturbed


@pytest.fixture
def imitation(monkeypatch, tmp_path):
    """Run the jobs of a test on an imitation of Spark; count the rounds in tasks."""
    monkeypatch.setattr(rounds, "WORTH_S", 0)  # whatever a round takes
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
    monkeypatch.setattr(rounds, "WORTH_S", 0)
    pairs = ab.from_iterable([(n, 0) for n in range(60)])
    out = pairs.iterate(lambda s: s.map(by_process), rounds=2).to_list()

    ab.run(out, on="spark", degree=2, verify="off")

    assert list(range(60)) == [number for number, _ in out.items]
    processes = {process for _, process in out.items}
    assert 2 == len(processes - {os.getpid()})


def test_rounds_that_take_long_are_tried_on_all_cores(monkeypatch, imitation):
    monkeypatch.setattr(rounds, "WORTH_S", 1e-12)
    out = ab.from_iterable([1, 2, 3]).iterate(lambda s: s.map(abs), rounds=2).to_list()

    ab.run(out, on="spark", degree=2)

    assert 1 == len(imitation)
    assert [1, 2, 3] == out.items


def test_rounds_that_take_no_time_stay_in_one_process(monkeypatch, imitation):
    monkeypatch.setattr(rounds, "WORTH_S", 60)
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

    monkeypatch.setattr(rounds, "WORTH_S", 0)

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
