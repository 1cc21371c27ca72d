"""Processes get numbers by their homes, so that states are found where they were."""

from __future__ import annotations

import queue
import threading

from anabranch.epochs.resident.hub import Hub
from anabranch.epochs.resident.link import connect
from anabranch.epochs.resident.process import Hello, Peers

HOST = "127.0.0.1"


def introduce(homes, before=()):
    """Have a process of each home come; return the number that each of them gets."""
    hub = Hub(HOST, len(homes), before)
    told = queue.SimpleQueue()

    def come(task, home):
        link = connect((HOST, hub.port), hub.secret)
        link.send(Hello(task, (HOST, 1000 + task), home))
        for data, _ in link.frames():
            if isinstance(data, Peers):
                told.put((task, data))
                break
        link.close()

    for task, home in enumerate(homes):
        threading.Thread(target=come, args=(task, home), daemon=True).start()
    found = dict(told.get(timeout=30) for _ in homes)
    hub.close()
    numbers = [found[task].own for task in range(len(homes))]
    for task, number in enumerate(numbers):
        assert all(
            (HOST, 1000 + task) == peers.addresses[number] for peers in found.values()
        )
    return numbers, hub.homes


def test_the_first_processes_are_numbered_as_they_are():
    assert ([0, 1, 2], ("a", "b", "a")) == introduce(["a", "b", "a"])


def test_processes_take_over_from_those_that_were_at_their_home():
    homes = ["c", "a", "new", "b"]

    assert ([2, 0, 3, 1], ("a", "b", "c", "new")) == introduce(
        homes, ["a", "b", "c", "d"]
    )


def test_a_host_with_several_processes_has_several_numbers():
    homes = ["b", "b", "a", "a"]

    assert ([1, 3, 0, 2], ("a", "b", "a", "b")) == introduce(
        homes, ["a", "b", "a", "b"]
    )


def test_fewer_processes_than_before_are_numbered_without_a_hole():
    numbers, _ = introduce(["d", "c"], ["a", "b", "c", "d"])

    assert [0, 1] == sorted(numbers)
