"""A run as lines, and the lines as a story: what is told, once, and rightly."""

from __future__ import annotations

import pytest

from anabranch.metrics.job_metrics import ElementCounters, LatencyStep, Metrics
from anabranch.metrics.run_record import (
    MOST_SAMPLES,
    JobSnapshot,
    Story,
    backlog_of,
    lines_of,
    quantile_ms,
    rates,
    thin,
)


def look(at_s=1.0, status="running", changes=(), error=None, **metrics):
    return JobSnapshot(status, measured(at_s, status, **metrics), changes, error)


def measured(at_s=1.0, status="running", engine="sequential", **metrics):
    return Metrics(engine, status, at_s, **metrics)


def waiting(*items):
    return ElementCounters(len(items), items, waiting=items, limit=items)


def step(backlog):
    return LatencyStep(1.0, 1.0, 1.0, 1, 1.0, backlog, {})


def told(*lines):
    story = Story()
    for line in lines:
        story.add(line)
    return story


def change(what, effect=""):
    return {"at_s": 1.0, "what": what, "why": "because", "effect": effect}


def test_counts_are_those_of_all_sources_and_sinks():
    (line,) = lines_of(look(read={"a": 2, "b": 3}, delivered={"c": 4, "d": 0}))

    assert {
        "at_s": 1.0,
        "read": 5,
        "delivered": 4,
        "items_of": {"a": 2, "b": 3, "c": 4, "d": 0},
    } == line["sample"]


def test_a_latency_is_that_of_the_items_since_the_last_look():
    """
    So far 100 fast items; since then, 9 of 1 ms and one of 50 ms.
    """
    before = look(latency_counts=[(1.0, 100)])
    now = look(2.0, latency_counts=[(1.0, 109), (50.0, 1)])

    sample = lines_of(now, before)[0]["sample"]

    assert (10, 1.0, 50.0) == (sample["items"], sample["p50_ms"], sample["p99_ms"])


def test_without_new_items_there_is_no_latency():
    counts = [(1.0, 100)]

    (line,) = lines_of(look(2.0, latency_counts=counts), look(latency_counts=counts))

    assert "p99_ms" not in line["sample"]


def test_a_change_is_told_once_and_again_when_its_effect_is_known():
    one, two, known = change("first"), change("second"), change("first", "faster")
    looks = [
        look(changes=[one]),
        look(changes=[one]),
        look(changes=[known, two]),
    ]

    lines = [lines_of(now, then) for then, now in zip([None, *looks], looks)]  # noqa: B905

    assert [
        [{"place": 0, **one}],
        [],
        [{"place": 0, **known}, {"place": 1, **two}],
    ] == [[line["change"] for line in found if "change" in line] for found in lines]
    flat = [line for found in lines for line in found]
    assert ["faster", ""] == [one["effect"] for one in told(*flat).to_dict()["changes"]]


ENDS = {"finished": None, "stopped": None, "failed": "OperatorError: broken"}


@pytest.mark.parametrize(("status", "error"), ENDS.items(), ids=ENDS)
def test_the_end_of_a_run_is_told_with_its_error(status, error):
    story = told(*lines_of(look(status=status, error=error)))

    assert (status, error) == (story.status, story.error)


def test_a_run_without_an_end_is_running():
    assert "running" == told(*lines_of(look())).status


BACKLOGS = {
    "of the sources": ({"backlog": 7, "elements": {"a": waiting(1)}}, 7),
    "of the last control step": ({"steps": (step(1.0), step(3.6))}, 4),
    "between threads": ({"elements": {"a": waiting(1, 2)}, "engine": "local"}, 3),
    "not known": ({}, None),
}


@pytest.mark.parametrize(("metrics", "backlog"), BACKLOGS.values(), ids=BACKLOGS)
def test_the_backlog_is_the_best_known(metrics, backlog):
    assert backlog == backlog_of(measured(**metrics))


def test_what_an_engine_does_not_measure_is_not_told():
    (line,) = lines_of(look())

    assert {"at_s", "read", "delivered"} == set(line["sample"])


def test_each_engine_has_its_own_measurements_in_a_sample():
    local = look(
        engine="local", degrees={"r0": 2}, ports=("m[0]",), elements={"m": waiting(3)}
    )
    spark = look(engine="spark", degrees={"r0": 2}, epochs=4, cuts=("m",))

    both = [lines_of(one)[0]["sample"] for one in (local, spark)]

    always = {"at_s": 1.0, "read": 0, "delivered": 0, "degrees": {"r0": 2}}
    assert [
        {**always, "ports": ["m[0]"], "waiting": {"m": 3}, "backlog": 3},
        {**always, "epochs": 4, "cuts": ["m"]},
    ] == both


def test_throughput_is_from_sample_to_sample():
    samples = [{"at_s": s, "read": n} for s, n in ((0.0, 0), (2.0, 10), (3.0, 40))]

    assert [[2.0, 5.0], [3.0, 30.0]] == rates(samples, "read")


def test_two_samples_of_one_moment_make_no_rate():
    assert [] == rates([{"at_s": 1.0, "read": 0}, {"at_s": 1.0, "read": 5}], "read")


def test_between_two_epochs_throughput_does_not_drop_to_nothing():
    samples = [
        {"at_s": float(s), "read": 100 * epochs, "epochs": epochs}
        for s, epochs in enumerate((0, 0, 1, 1, 2))
    ]

    assert [[2.0, 50.0], [4.0, 50.0]] == rates(samples, "read")


def test_a_long_run_keeps_its_length_its_counts_and_its_worst_latency():
    story = Story()
    for second in range(10 * MOST_SAMPLES):
        worst = 900.0 if second == 77 else 5.0
        sample = {"at_s": float(second), "read": 3 * second, "delivered": second}
        story.add(
            {"sample": {**sample, "items": 1, "p50_ms": 4.0, "p99_ms": worst}},
        )

    assert len(story.samples) <= MOST_SAMPLES
    assert 10 * MOST_SAMPLES - 1 == story.samples[-1]["at_s"]
    assert 900.0 == max(one["p99_ms"] for one in story.samples)
    assert {3.0} == {rate for _, rate in rates(story.samples, "read")}


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_latest_sample_is_never_put_together_with_another(count):
    samples = [{"at_s": float(n), "read": n} for n in range(count)]

    assert samples[-1] == thin(samples)[-1]


def test_no_items_have_no_quantile():
    assert 0.0 == quantile_ms([], 0.99)


def test_a_line_of_a_later_version_is_passed_over():
    story = told({"program": {"on": "local"}}, {"weather": {"rain": 1}})

    assert ("local", 2) == (story.program["on"], story.lines)
