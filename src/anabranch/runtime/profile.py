"""A sampling profiler: where threads are, about a hundred times a second.

Nothing is done for an item: the sampler looks at the frames of the threads, and the
line tables of the fused programs tell which operators they are in. How busy a thread is
is not counted but read from its CPU clock, so that a thread that waits for items, for
the interpreter's lock or for the world does not count as one that works.

The sampler needs that lock as well. So it sees calls that release it more often than
other code: under the lock, these are also what another thread could do meanwhile.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple, TypeAlias

from anabranch.metrics.samples import Route, ThreadSamples
from anabranch.runtime.program import Program

RATE_HZ = 100.0

# Ports, gates, events and queues all wait here.
WAIT = threading.Condition.wait.__code__

# Far longer than a look takes. Not longer still: should the sampler lose the lock just
# before a look begins, it takes so long until it can have it back.
UNDISTURBED_S = 0.05

# The file of a program and the lines at which a thread's frames stand in it, innermost
# first; or the operators themselves.
Seen: TypeAlias = tuple[str, tuple[int, ...]] | Route


@dataclass(frozen=True)
class Watched:
    """A thread to look at, and what is known about where it can be.

    `begin` is the operator that it begins with. A thread may run several programs;
    `before` tells for each of them (by its file name) which operators of the thread
    lead there. `elsewhere` tells where a thread is by code outside all programs, such
    as that of a sink.
    """

    thread: threading.Thread
    begin: str
    programs: Sequence[Program]
    before: Mapping[str, Route] = field(default_factory=dict)
    elsewhere: Mapping[CodeType, Callable[[FrameType], Route]] = field(
        default_factory=dict
    )


class Sampler:
    """Looks at threads from `start` to `stop`; it costs nothing before and after.

    It watches the threads that there are; a change of the program wants another one.
    """

    def __init__(self, threads: Sequence[Watched], rate_hz: float = RATE_HZ) -> None:
        self._watched = threads
        self._period_s = 1 / rate_hz
        self._seen: list[dict[Seen, float]] = [{} for _ in threads]
        self._last_s = [0.0] * len(threads)  # what their clocks said at the last look
        self._waiting = [0] * len(threads)
        self._programs = [
            {part.filename: part for p in one.programs for part in p.parts}
            for one in threads
        ]
        self.looks = 0
        self.cpu_s = 0.0  # what the sampler itself has used, once it has stopped
        self._clocks: list[Clock | None] = []
        self._began_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._clocks = [cpu_clock(one.thread) for one in self._watched]
        self._last_s = [on_core_s(one.thread) for one in self._watched]
        self._began_s = time.perf_counter()
        self._thread.start()

    def stop(self) -> tuple[ThreadSamples, ...]:
        """Look no more, and return what was seen of the threads that are still there."""
        self._over.set()
        self._thread.join()
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
                    at_work=self._routes(number),
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
        self.cpu_s = time.thread_time()

    def _look(self) -> None:
        with undisturbed():
            self._look_at(sys._current_frames())  # noqa: SLF001 - the only way
        self.looks += 1

    def _look_at(self, frames: Mapping[int, FrameType]) -> None:
        for number, one in enumerate(self._watched):
            frame = frames.get(one.thread.ident or 0)
            if frame is None:
                continue
            now_s = on_core_s(one.thread)
            if frame.f_code is WAIT:
                self._waiting[number] += 1
            else:
                # A thread that was not let onto a core has not worked where it stands.
                place, seen = self._at(number, frame), self._seen[number]
                seen[place] = seen.get(place, 0.0) + now_s - self._last_s[number]
            self._last_s[number] = now_s

    def _at(self, number: int, innermost: FrameType) -> Seen:
        """Note where a thread is, quickly; what that means is found out at the end."""
        programs, elsewhere = self._programs[number], self._watched[number].elsewhere
        frame: FrameType | None = innermost
        while frame is not None:
            code = frame.f_code
            filename = code.co_filename
            if filename in programs:
                lines = []
                while frame is not None and frame.f_code.co_filename == filename:
                    lines.append(frame.f_lineno)
                    frame = frame.f_back
                return filename, tuple(lines)
            if code in elsewhere:
                return elsewhere[code](frame)
            frame = frame.f_back
        return (self._watched[number].begin,)

    def _routes(self, number: int) -> dict[Route, float]:
        routes: dict[Route, float] = {}
        before = self._watched[number].before
        for seen, time_s in self._seen[number].items():
            match seen:
                case (str() as filename, tuple() as lines):
                    path = self._programs[number][filename].path_of(lines)
                    route = before.get(filename, ()) + path
                case _:
                    route = tuple(map(str, seen))
            routes[route] = routes.get(route, 0.0) + time_s
        return routes


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


def on_core_s(thread: threading.Thread) -> float:
    """Return how long a thread has been on a core, quickly; 0 if it is gone.

    The number is the kernel's name for the clock of a thread; elsewhere than on Linux
    all time counts.
    """
    if not sys.platform.startswith("linux"):
        return time.perf_counter()
    try:
        return time.clock_gettime((~(thread.native_id or 0) << 3) | 6)
    except OSError:
        return 0.0


def _plain_clock(thread: threading.Thread) -> Clock | None:
    """Return the clock of a thread where the kernel keeps no such books."""
    if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        clock = time.pthread_getcpuclockid(thread.ident)
        return Clock(time.clock_gettime(clock), 0.0)
    except OSError:
        return None


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Let no other thread run until the end of the block.

    Frames must not be walked while their thread goes on: CPython 3.11 then hands out
    references to frames that are gone. Whoever waits for the interpreter's lock asks
    for it only after this interval, and a collection, which may run a finalizer that
    lets go of the lock, does not begin.
    """
    before_s, collecting = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(UNDISTURBED_S)
    gc.disable()
    try:
        yield
    finally:
        sys.setswitchinterval(before_s)
        if collecting:
            gc.enable()
