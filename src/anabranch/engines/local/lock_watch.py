"""Has the interpreter's lock handed over sooner, where threads let go of it anyway.

A thread that wants the lock asks its holder for it only after an interval, 5 ms in
CPython. Where operators call compiled code that lets go of the lock, two threads take
turns thousands of times a second, each short enough that the one that waits is not
awake before the lock is taken again. Asking sooner ends that. Threads of plain Python
hold the lock all the time: for them every turn is lost time, and the interval stays as
it is. So a watch finds out how often the lock is taken, for a moment now and then, the
way the profiler does.
"""

from __future__ import annotations

import sys
import threading
import time

from anabranch.runtime.profile import RUSAGE_THREAD, voluntary_switches

PROMPT_S = 0.0002
EVERY_S = 2.0
LOOKS = 50
PAUSE_S = 0.002  # between two looks
SELDOM = 0.8  # taken for less of the time: threads are to ask sooner
OFTEN = 0.9  # taken for more: as usual again


class LockWatch:
    """The watch of one program; it looks as long as there are several threads."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._over = False
        self._several = False
        self._prompt = False  # as it was found last
        self._thread: threading.Thread | None = None

    def attend(self, threads: int) -> None:
        """Take note of how many threads the program has from now on."""
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
        """Watch no more; the interval is what it was."""
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
    """The interval of the interpreter, which all programs in a process share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanting: set[object] = set()
        self._before_s = 0.0

    def prompt(self, program: object) -> None:
        """Make it short, for the sake of a program."""
        with self._lock:
            if not self._wanting:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(PROMPT_S, self._before_s))
            self._wanting.add(program)

    def usual(self, program: object) -> None:
        """Make it what it was before, unless another program wants it short."""
        with self._lock:
            if program in self._wanting:
                self._wanting.discard(program)
                if not self._wanting:
                    sys.setswitchinterval(self._before_s)


interval = Interval()


def lock_share(looks: int = LOOKS) -> float:
    """Return in which share of the looks another thread held the interpreter's lock.

    >>> 0.0 <= lock_share(looks=2) <= 1.0
    True
    """
    taken, waited = 0, voluntary_switches()
    for _ in range(looks):
        time.sleep(PAUSE_S)
        # To sleep is one switch; any further one is a wait for the lock.
        before, waited = waited, voluntary_switches()
        taken += waited > before + 1
    return taken / looks
