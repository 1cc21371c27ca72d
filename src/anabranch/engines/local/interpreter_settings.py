"""Interpreter settings while a program runs: garbage collection and the lock.

CPython runs the cyclic garbage collector whenever 700 more objects have been created
than freed. A stream program creates and keeps many items, hardly any of them in a
cycle: in one of the applications a third of the time went into collections that found
nothing, in others 2 to 7%. In that case collections become rarer; one that finds
something makes them as frequent as before, so that garbage does not pile up.

A thread that wants the interpreter lock requests it from its holder only after an
interval, 5 ms in CPython. If operators call compiled code that releases the lock, two
threads alternate thousands of times a second, each for so short a time that the waiting
thread wakes up too late. A shorter interval ends that. Threads of plain Python hold the
lock all the time: for them every switch is lost time, and the interval stays as it is.
So a watch samples from time to time how often the lock is held, as the profiler does.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

from anabranch.runtime.profile import RUSAGE_THREAD, voluntary_switches

RARER = 10  # times as many new objects between two collections
WINDOW_S = 0.2
MUCH = 0.02  # of the time
NOTHING = 0.01  # of the objects that may be new when a collection begins

Tell = Callable[[str, str, str], object]  # what was done, why, with what effect


class GarbageWatch:
    """Adapts the collector for one program; if several run in a process, for the
    first.
    """

    _turn = threading.Lock()

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._state = threading.Lock()
        self._watching = self._over = False
        self._usual = gc.get_threshold()
        # share of the time, until collections became rarer
        self._before: float | None = None
        self._told = False
        self._began_s = 0.0
        self._renew()

    def start(self) -> None:
        """Start watching, unless it is over, or another program does."""
        with self._state:
            if self._over or self._watching or not self._turn.acquire(blocking=False):
                return
            self._watching = True
            self._usual = gc.get_threshold()
            self._renew()
            gc.callbacks.append(self._on)

    def stop(self) -> None:
        """Stop watching and restore the collector."""
        with self._state:
            self._over = True
            if self._watching:
                self._watching = False
                gc.callbacks.remove(self._on)
                self._as_usual()
                self._turn.release()

    def _renew(self) -> None:
        self._since_s, self._spent_s = perf_counter(), 0.0
        self._looks, self._found = 0, 0

    def _on(self, phase: str, info: Mapping[str, Any]) -> None:
        """Record a collection; Python calls this before and after each."""
        now_s = perf_counter()
        if phase == "start":
            self._began_s = now_s
            return
        found = info["collected"] + info["uncollectable"]
        self._spent_s += now_s - self._began_s
        self._looks += 1
        self._found += found
        seen_enough = now_s - self._since_s >= WINDOW_S
        if self._before is None:
            if seen_enough:
                self._decide(now_s)
        elif found > NOTHING * RARER * self._usual[0]:
            # The first of the rarer collections also finds leftovers of the start.
            if self._looks > 1 and self._as_usual():
                if not self._told:
                    self._tell_effect(now_s)
                self._tell("look for garbage as often as before", "there was some", "")
        elif seen_enough and not self._told:
            self._tell_effect(now_s)

    def _decide(self, now_s: float) -> None:
        share = self._spent_s / (now_s - self._since_s)
        in_vain = self._found <= NOTHING * self._usual[0] * self._looks
        self._renew()
        if share > MUCH and in_vain:
            self._before = share
            first, *others = self._usual
            gc.set_threshold(RARER * first, *others)

    def _tell_effect(self, now_s: float) -> None:
        self._told = True
        after = self._spent_s / (now_s - self._since_s)
        self._tell(
            f"look for garbage after {RARER * self._usual[0]:,} new objects",
            f"looking took {self._before:.0%} of the time and found nothing",
            f"{after:.0%} of the time",
        )

    def _as_usual(self) -> bool:
        """Undo our settings, unless someone else has changed them."""
        first, *others = self._usual
        rarer = gc.get_threshold() == (RARER * first, *others)
        if rarer:
            gc.set_threshold(*self._usual)
        return rarer


PROMPT_S = 0.0002
EVERY_S = 2.0
LOOKS = 50
PAUSE_S = 0.002  # between two samples
SELDOM = 0.8  # held for less of the time: shorten the interval
OFTEN = 0.9  # held for more: restore it


class LockWatch:
    """Adapts the lock interval for one program, while it has several threads."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._over = False
        self._several = False
        self._prompt = False  # as it was found last
        self._thread: threading.Thread | None = None

    def attend(self, threads: int) -> None:
        """Set the number of threads the program has from now on."""
        with self._news:
            self._several = threads > 1 and RUSAGE_THREAD is not None
            self._news.notify()
            self._apply()
            if self._several and self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="lock watch", daemon=True
                )
                self._thread.start()

    def stop(self) -> None:
        """Stop watching and restore the interval."""
        with self._news:
            self._over, self._several = True, False
            self._news.notify()
            self._apply()

    def _run(self) -> None:
        while True:
            with self._news:
                while not (self._several or self._over):
                    self._news.wait()
                if self._over:
                    return
            taken = lock_share()
            with self._news:
                self._prompt = taken < (OFTEN if self._prompt else SELDOM)
                self._apply()
                if not self._over:
                    self._news.wait(EVERY_S)

    def _apply(self) -> None:
        if self._several and self._prompt:
            interval.prompt(self)
        else:
            interval.usual(self)


class Interval:
    """The interpreter's switch interval, shared by all programs in a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanting: set[object] = set()
        self._before_s = 0.0

    def prompt(self, program: object) -> None:
        """Shorten it on behalf of a program."""
        with self._lock:
            if not self._wanting:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(PROMPT_S, self._before_s))
            self._wanting.add(program)

    def usual(self, program: object) -> None:
        """Restore it, unless another program wants it short."""
        with self._lock:
            if program in self._wanting:
                self._wanting.discard(program)
                if not self._wanting:
                    sys.setswitchinterval(self._before_s)


interval = Interval()


def lock_share(looks: int = LOOKS) -> float:
    """Return the share of samples in which another thread held the interpreter lock.

    >>> 0.0 <= lock_share(looks=2) <= 1.0
    True
    """
    taken, waited = 0, voluntary_switches()
    for _ in range(looks):
        time.sleep(PAUSE_S)
        # Sleeping is one switch; any further one is a wait for the lock.
        before, waited = waited, voluntary_switches()
        taken += waited > before + 1
    return taken / looks
