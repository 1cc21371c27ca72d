from __future__ import annotations

import datetime as dt

import pytest

import anabranch as ab
from anabranch.control.goals import Latency, seconds_of
from anabranch.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "seconds"),
    {
        "200 ms": 0.2,
        "1s": 1.0,
        "1.5 s": 1.5,
        "2 min": 120.0,
        "50us": 5e-5,
        "2 h": 7200.0,
        "1 d": 86400.0,
        dt.timedelta(minutes=3): 180.0,
    }.items(),
)
def test_durations(text, seconds):
    assert seconds == pytest.approx(seconds_of(text))


@pytest.mark.parametrize("text", ["200", "fast", "-1 s", "1 hour", "0 ms", -2, 0])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="a duration"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"quantile": 99}, "quantile must lie between 0 and 1"),
        ({"policy": "magic"}, "policy must be"),
        ({"threshold": 20}, "threshold must be a share"),
        ({"scaling": 0}, "scaling must be at least 1"),
        ({"replicas": 0}, "replicas must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        ab.latency("1 s", **wrong)


def test_the_settings_of_the_paper():
    goal = ab.latency("180 ms", policy="reactive", threshold=0.1, scaling=2, step="1 s")

    assert Latency(0.18, 0.99, "reactive", 0.1, 2, 1.0) == goal


def test_a_degree_leaves_nothing_to_choose():
    with pytest.raises(ValueError, match="leave one of them out"):
        ab.run(
            ab.from_iterable([1]).to_list(),
            on="local",
            degree=2,
            goal=ab.latency("1 s"),
        )


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"alpha": 0.0}, "alpha must be a share"),
        ({"beta": 1.5}, "beta must be a share"),
        ({"replicas": 0}, "replicas must be at least 1"),
    ],
)
def test_settings_of_throughput_that_make_no_sense_are_refused(settings, words):
    with pytest.raises(ArgumentError, match=words):
        ab.throughput(**settings)


def test_the_papers_settings_are_the_users():
    settings = ab.throughput(alpha=0.3, beta=0.9, replicas=8).settings

    assert (0.3, 0.9, 8) == (settings.alpha, settings.beta, settings.most_replicas)
