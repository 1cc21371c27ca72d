"""Who waits for epochs gets those that began after a change, and none twice."""

from __future__ import annotations

import threading

from anabranch.epochs.log import EpochLog
from anabranch.epochs.task import Report


class Epochs:
    """What runs epochs, as the log sees it."""

    profiled = False
    commit_s = 0.0
    reports = (Report(0, 0, {"read": 10}), Report(0, 1, {"read": 5}))


def passes(log: EpochLog) -> None:
    log.begin()
    with log.epoch(Epochs()):
        pass


def test_epochs_after_a_number_are_found_even_if_they_are_over():
    log = EpochLog()
    for _ in range(3):
        passes(log)

    found = log.next(2, threading.Event(), after=1)

    assert [2, 3] == [seen.started for seen in found]
    assert [15, 15] == [seen.items for seen in found]


def test_every_epoch_is_counted_also_one_that_nothing_is_compared_with():
    log = EpochLog()
    passes(log)
    with log.epoch(Epochs(), usual=False):
        pass

    assert [15, 15] == list(log.items)
    assert 2 == len(log.seconds)


def test_without_a_number_only_those_count_that_begin_from_now_on():
    log, over = EpochLog(), threading.Event()
    passes(log)
    log.begin()  # under way
    found = []
    waiting = threading.Thread(target=lambda: found.extend(log.next(1, over)))
    waiting.start()
    while waiting.is_alive():
        with log.epoch(Epochs()):
            pass
        log.begin()
        waiting.join(0.01)

    assert found[0].started > 2


def test_nobody_waits_for_epochs_that_do_not_come():
    over = threading.Event()
    over.set()

    assert EpochLog().next(1, over) is None
