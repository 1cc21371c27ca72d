"""Sends on what sources have gathered, when they are away for too long.

A source that reads quickly sends on what it gathers by itself, hundreds of times a
second. To be woken each time would cost more than it is worth: a thread that wakes up
wants the interpreter's lock. So the flusher looks at such a source now and then, the
more seldom the longer it has found nothing to do, and sleeps when nothing moves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import Protocol

from anabranch.runtime.ports import AbortedError

HELD_S = 0.002  # how long an item may wait for the next one
SELDOM = 4  # times that long between two looks at a source that never was late


class Gathering(Protocol):
    """A source that gathers what it reads."""

    read: int

    @property
    def holds(self) -> bool:
        """Whether it has gathered items that are not sent on yet."""

    def flush_if_late(self, now_s: float) -> bool:
        """Send on what has waited for too long; tell whether there was something."""


class Flusher:
    """The thread that looks; one for all sources of a program."""

    def __init__(self, fail: Callable[[BaseException], None]) -> None:
        self._fail = fail
        self._moving: dict[Gathering, int] = {}  # with what was read at the last look
        self._changed = threading.Condition()
        self._pause_s = HELD_S
        self._over = False
        self._thread = threading.Thread(target=self._run, name="flusher", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def look_after(self, source: Gathering) -> None:
        """Take note that a source holds items."""
        with self._changed:
            if source in self._moving:
                return
            if not self._moving or self._pause_s > HELD_S:
                self._changed.notify()
            self._moving[source] = source.read

    def _run(self) -> None:
        try:
            while (sources := self._wait()) is not None:
                late = [source.flush_if_late(perf_counter()) for source in sources]
                longer_s = min(2 * self._pause_s, SELDOM * HELD_S)
                self._pause_s = HELD_S if any(late) else longer_s
        except AbortedError:
            return
        except BaseException as error:  # noqa: BLE001 - handed to whoever waits
            self._fail(error)

    def _wait(self) -> list[Gathering] | None:
        """Wait until something may be late; None when it is over."""
        with self._changed:
            self._moving = {
                source: source.read
                for source, before in self._moving.items()
                if source.holds or source.read != before
            }
            while not self._over:
                if not self._changed.wait(self._pause_s if self._moving else None):
                    return list(self._moving)
                self._pause_s = HELD_S  # somebody is new
            return None
