"""Garbage collection around what the driver does for thousands of replicas."""

from __future__ import annotations

import gc
import weakref

import pytest

from anabranch.epochs import task
from anabranch.epochs.task import pause_collection


class Node:
    """An object that a test can see go."""


@pytest.fixture
def collections(monkeypatch):
    """The generations that are collected, as in a process of a user."""
    found = []

    def note(phase, info):
        if phase == "start":
            found.append(info["generation"])

    monkeypatch.setattr(task, "_MANY_OBJECTS", 1000)
    limits = gc.get_threshold()
    gc.unfreeze()  # what the tests themselves have loaded
    gc.collect()
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)
    gc.set_threshold(*limits)
    gc.freeze()


def make_many():
    return [[number] for number in range(2000)]


def test_a_pause_with_many_new_objects_ends_without_a_collection(collections):
    with pause_collection():
        kept = make_many()
        collections.clear()
    more = [[number] for number in range(100)]

    assert (len(kept), len(more)) == (2000, 100)
    assert collections == []


def test_old_garbage_is_collected_from_time_to_time(collections):
    node = Node()
    node.itself = node
    there = weakref.ref(node)
    with pause_collection():
        kept = [make_many()]
    del node
    collections.clear()

    for _ in range(task._WHOLE_EVERY):
        with pause_collection():
            kept.append(make_many())

    assert there() is None
    assert collections.count(2) == 1


def test_frozen_objects_stay_so(collections):
    gc.freeze()
    with pause_collection():
        kept = make_many()

    assert gc.get_freeze_count() > 0
    assert kept
