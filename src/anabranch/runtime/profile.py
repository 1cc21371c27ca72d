"""A sampling profiler: where threads are, about a hundred times a second.

Nothing is done for an item: the sampler looks at the frames of the threads, and the
line tables of the fused programs tell which operators they are in. How busy a thread is
is not counted but read from its CPU clock, so that a thread that waits for items, for
the interpreter's lock or for the world does not count as one that works.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from anabranch.metrics.samples import Route, ThreadSamples
from anabranch.runtime.program import Program

RATE_HZ = 100.0

# Ports, gates, events and queues all wait here.
WAIT = threading.Condition.wait.__code__

# A thread that runs Python gives the interpreter's lock away at a place of its own
# choosing, or after this long. Were it longer, the sampler would mostly see the calls
# that release the lock by themselves.
SWITCH_S = 0.0002


@dataclass(frozen=True)
class Watched:
    """A thread to look at, and what is known about where it can be.

    `begin` is the operator that it begins with. A thread may run several programs;
    `before` tells for each of them (by its file name) which operators of the thread
    lead there. `elsewhere` recognises frames outside all programs, such as a sink's.
    """

    thread: threading.Thread
    begin: str
    programs: Sequence[Program]
    before: Mapping[str, Route] = field(default_factory=dict)
    elsewhere: Callable[[FrameType], Route | None] = lambda _: None


class Sampler:
    """Looks at threads from `start` to `stop`; it costs nothing before and after.

    It watches the threads that there are; a change of the program wants another one.
    """

    def __init__(self, threads: Sequence[Watched], rate_hz: float = RATE_HZ) -> None:
        self._watched = threads
        self._period_s = 1 / rate_hz
        self._seen: list[Counter[Route]] = [Counter() for _ in threads]
        self._waiting = [0] * len(threads)
        self._programs = [{p.filename: p for p in one.programs} for one in threads]
        self.looks = 0
        self._clocks: list[Clock | None] = []
        self._began_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._clocks = [cpu_clock(one.thread) for one in self._watched]
        self._began_s = time.perf_counter()
        _finer_switching.enter()
        self._thread.start()

    def stop(self) -> tuple[ThreadSamples, ...]:
        """Look no more, and return what was seen of the threads that are still there."""
        self._over.set()
        self._thread.join()
        _finer_switching.leave()
        elapsed_s = time.perf_counter() - self._began_s
        found = []
        for number, one in enumerate(self._watched):
            before, after = self._clocks[number], cpu_clock(one.thread)
            if before is None or after is None:
                continue
            found.append(
                ThreadSamples(
                    begin=one.begin,
                    elapsed_s=elapsed_s,
                    cpu_s=after.cpu_s - before.cpu_s,
                    at_work=dict(self._seen[number]),
                    waiting=self._waiting[number],
                    denied_s=after.denied_s - before.denied_s,
                )
            )
        return tuple(found)

    def _run(self) -> None:
        due_s = time.perf_counter() + self._period_s
        while not self._over.wait(max(0.0, due_s - time.perf_counter())):
            self._look()
            # A look that came late is not made up for: two in a row see the same.
            due_s = max(due_s + self._period_s, time.perf_counter())

    def _look(self) -> None:
        frames = sys._current_frames()  # noqa: SLF001 - the only way to see them
        for number, one in enumerate(self._watched):
            frame = frames.get(one.thread.ident or 0)
            if frame is None:
                continue
            if frame.f_code is WAIT:
                self._waiting[number] += 1
            else:
                self._seen[number][self._place(number, frame)] += 1
        self.looks += 1

    def _place(self, number: int, innermost: FrameType) -> Route:
        one, programs = self._watched[number], self._programs[number]
        frame: FrameType | None = innermost
        while frame is not None:
            filename = frame.f_code.co_filename
            if filename in programs:
                before = one.before.get(filename, ())
                return before + programs[filename].path_at(frame)
            known = one.elsewhere(frame)
            if known is not None:
                return known
            frame = frame.f_back
        return (one.begin,)


class Clock(NamedTuple):
    """How long a thread has been on a core, and ready without being let onto one."""

    cpu_s: float
    denied_s: float


def cpu_clock(thread: threading.Thread) -> Clock | None:
    """Return the clock of a thread; None if it is gone.

    `time.pthread_getcpuclockid` must not be asked about a thread that has ended, which
    nobody can know for sure; the kernel's books can be read at any time.
    """
    if thread.native_id is None or not thread.is_alive():
        return None
    books = Path(f"/proc/self/task/{thread.native_id}/schedstat")
    try:
        cpu_ns, denied_ns, _ = books.read_bytes().split()
    except OSError:
        return _plain_clock(thread)
    return Clock(int(cpu_ns) / 1e9, int(denied_ns) / 1e9)


def _plain_clock(thread: threading.Thread) -> Clock | None:
    """Return the clock of a thread where the kernel keeps no such books."""
    if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        clock = time.pthread_getcpuclockid(thread.ident)
        return Clock(time.clock_gettime(clock), 0.0)
    except OSError:
        return None


class _FinerSwitching:
    """Has threads take turns more often while any sampler is at work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._samplers = 0
        self._before_s = 0.0

    def enter(self) -> None:
        with self._lock:
            if self._samplers == 0:
                self._before_s = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH_S, self._before_s))
            self._samplers += 1

    def leave(self) -> None:
        with self._lock:
            self._samplers -= 1
            if self._samplers == 0:
                sys.setswitchinterval(self._before_s)


_finer_switching = _FinerSwitching()
