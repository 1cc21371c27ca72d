"""Gates hold the flow up, and let it on in between."""

from __future__ import annotations

import threading

from anabranch.engines.local.source_thread import Gate


def in_thread(target):
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def test_nothing_passes_a_closed_gate():
    gate, passed = Gate(), threading.Event()
    gate.close()

    def pass_through():
        with gate:
            passed.set()

    thread = in_thread(pass_through)
    assert not passed.is_set()
    gate.open()

    assert passed.wait(10)
    thread.join(10)


def test_closing_waits_for_what_is_passing():
    gate, inside, leave = Gate(), threading.Event(), threading.Event()
    closed = threading.Event()

    def pass_through():
        with gate:
            inside.set()
            leave.wait(10)

    def close():
        gate.close()
        closed.set()

    in_thread(pass_through)
    assert inside.wait(10)
    in_thread(close)
    assert not closed.is_set()
    leave.set()

    assert closed.wait(10)


def test_who_waited_passes_before_the_gate_is_closed_again():
    gate, passed = Gate(), []
    gate.close()
    count = 20

    def keep_passing():
        for n in range(count):
            with gate:
                passed.append(n)

    thread = in_thread(keep_passing)
    while len(passed) < count and thread.is_alive():
        gate.open()
        gate.close()
    gate.open()
    thread.join(10)

    assert list(range(count)) == passed
