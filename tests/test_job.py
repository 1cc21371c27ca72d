"""Arguments of `run` that cannot be used: an error of ours, before anything runs."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.errors import ArgumentError, CheckpointError

UNUSABLE = {
    "a checkpoint on the local engine": (
        {"on": "local", "checkpoint": "kept"},
        "kept on='spark' only; got on='local' and checkpoint='kept'",
    ),
    "a degree of 0": ({"on": "local", "degree": 0}, "degree must be .*; got 0"),
    "a degree as text": ({"on": "local", "degree": "2"}, "degree must be .*; got '2'"),
    "an epoch of no items": ({"epoch_items": 0}, "epoch_items must be .*; got 0"),
    "buckets by the hundred": (
        {"buckets": 100},
        "a power of two from 1 to .*; got 100",
    ),
    "another engine": ({"on": "flink"}, "on must be .*; got 'flink'"),
    "another policy": ({"on": "local", "on_error": "log"}, "on_error must be .*'log'"),
    "a degree beside a latency goal": (
        {"on": "local", "degree": 2, "goal": ab.latency("1 s")},
        "leave one of them out",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), UNUSABLE.values(), ids=UNUSABLE)
def test_an_argument_that_cannot_be_used(arguments, text):
    with pytest.raises(ArgumentError, match=text) as caught:
        ab.run(ab.from_iterable([1]).to_list(), **arguments)

    assert isinstance(caught.value, ab.errors.AnabranchError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("url", ["hdfs://name/kept", "hdfs:/kept", "gs:kept", ""])
def test_a_checkpoint_must_be_a_directory_or_in_a_store(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CheckpointError, match="must be a directory or in a store"):
        ab.run(ab.from_iterable([1]).to_list(), checkpoint=url)

    assert [] == list(tmp_path.iterdir())
