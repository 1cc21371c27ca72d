"""What limits a run, in words, from its record."""

from __future__ import annotations

import pytest

from anabranch.metrics.limit import find_limit


def sample(read=100, backlog=None, shares=None, **busy):
    load = {
        name: {"element": name, "replicas": 1, "skew": 1.0, "busy": share}
        for name, share in busy.items()
    }
    found = {"at_s": 1.0, "read": read, "delivered": 0, "load": load}
    if backlog is not None:
        found["backlog"] = backlog
    return found | ({} if shares is None else {"shares": shares})


def epoch(**phases):
    return {"number": 1, "began_s": 0.0, "items": 5, "phases": phases}


SPARK, LOCAL = {"on": "spark"}, {"on": "local"}
CASES = {
    "nothing is known before the first look": (LOCAL, [], [], None),
    "Spark starts": (SPARK, [sample(read=0)], [], "Starting"),
    "a source that has given nothing": (LOCAL, [sample(read=0)], [], "The input"),
    "operators that wait for items": (
        LOCAL,
        [sample(backlog=0, parse=0.1)],
        [],
        "Waiting for input",
    ),
    "the busiest operator": (
        LOCAL,
        [sample(backlog=3, parse=0.2, score=0.9)],
        [],
        "score is the bottleneck",
    ),
    "epochs that mostly commit": (
        SPARK,
        [sample(score=0.2)],
        [epoch(run=1.0, commit=1.0)],
        "Committing",
    ),
    "epochs that mostly look for rows": (
        SPARK,
        [sample(score=0.2)],
        [epoch(read=3.0, run=1.0, commit=0.1)],
        "Finding the input",
    ),
    "epochs on Spark follow one another": (
        SPARK,
        [sample(score=0.3, write=0.1)],
        [epoch(read=0.1, run=2.0, commit=0.1)],
        "score is the bottleneck",
    ),
}


@pytest.mark.parametrize(
    ("program", "samples", "epochs", "what"), CASES.values(), ids=CASES
)
def test_what_limits(program, samples, epochs, what):
    found = find_limit(program, samples, epochs)

    assert what == (None if found is None else found["what"])


def test_the_time_before_the_first_items_does_not_count():
    samples = [sample(read=0, score=0.0)] * 9 + [sample(backlog=0, score=0.9)]

    found = find_limit(LOCAL, samples, [], "finished")

    assert "it works 90% of the time" == found["why"]


def test_a_sequential_operator_is_named_with_its_reason():
    program = {
        "on": "local",
        "sequential": [{"operator": "best", "why": "keeps a sum"}],
    }

    found = find_limit(program, [sample(best=0.9)], [])

    assert found["why"].endswith("best runs on one thread: keeps a sum")


def test_all_cores_at_work_are_the_limit():
    busy = sample(score=0.95)
    busy["load"]["score"]["replicas"] = 2

    assert (
        "The cores of this machine"
        == find_limit({"on": "spark", "cores": 2}, [busy], [])["what"]
    )


def test_a_run_that_failed_has_its_error_instead():
    assert find_limit(LOCAL, [sample(score=0.9)], [], "failed") is None


def test_the_busiest_of_several_replicas_is_the_limit_not_their_mean():
    """Seven keys keep 7 of 14 replicas busy: the rest is idle, and no input is late."""
    uneven = {"element": "filter", "replicas": 14, "skew": 2.05, "busy": 0.46}
    load = {"filter": uneven, "slow": uneven}
    shares = {"filter": 0.01, "slow": 0.44}
    last = {"at_s": 7.0, "read": 9, "delivered": 9, "backlog": 0}

    limit = find_limit(LOCAL, [last | {"load": load, "shares": shares}], [], "finished")

    assert limit == {
        "what": "slow is the bottleneck",
        "why": "it takes 98% of the time of its 14 replicas, and they are busy 46% of "
        "the time; its busiest replica has 2.0 times the mean work, 94% of the time",
    }


def test_under_skew_the_limit_names_the_hot_keys():
    """Twelve of fourteen replicas are idle: only the keys say why."""
    load = {"slow": {"element": "slow", "replicas": 14, "skew": 7.0, "busy": 0.14}}
    program = LOCAL | {"operator_list": [{"name": "slow", "region": "r0"}]}
    hot = {"r0": ["'A'", "'B'"], "r1": ["'C'"]}
    last = {"at_s": 7.0, "read": 9, "delivered": 9, "load": load, "hot_keys": hot}

    limit = find_limit(program, [last], [])

    assert limit is not None
    assert limit["why"].endswith("98% of the time; hot keys 'A' and 'B'")
