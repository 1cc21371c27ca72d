"""Sampling profilers: where a program's threads are, about a hundred times a second.

There is no cost per item: the sampler inspects the frames of the threads, and the line
tables of the fused programs give the operators. The utilization of a thread is read
from its CPU clock, so that a thread waiting for items, for the interpreter lock or for
I/O does not count as busy.

The sampler needs that lock as well, so it over-represents calls that release it: these
are also the calls during which another thread could run. The share of samples that had
to wait for the lock is the share of time that it was held.

A process with one thread samples itself. Another thread would have to be woken and wait
for the lock; a timer of the process's CPU time needs neither: it interrupts the main
thread between two instructions, which then records its position.
"""

from __future__ import annotations

import gc
import random
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, MappingProxyType
from typing import NamedTuple, TypeAlias

from anabranch.graph.graph import Edge, Graph, Input
from anabranch.metrics.load import ThreadSamples
from anabranch.metrics.pipeline import Route
from anabranch.operators.custom import Scan
from anabranch.operators.stateless import Map
from anabranch.runtime.ports import Inlet
from anabranch.runtime.program import Program

# The file of a program and the lines of a thread's frames in it, innermost first; or
# the operators themselves.
Seen: TypeAlias = tuple[str, tuple[int, ...]] | Route


class Places:
    """The places at which one thread was sampled, and for how long.

    Recording is quick; places are resolved at the end.
    """

    def __init__(
        self,
        begin: str,
        programs: Sequence[Program],
        before: Mapping[str, Route],
        elsewhere: Mapping[CodeType, Callable[[FrameType], Route]],
    ) -> None:
        self._begin = begin
        self._programs = {part.filename: part for p in programs for part in p.parts}
        self._before = before
        self._elsewhere = elsewhere
        self._seen: dict[Seen, float] = {}
        self._looks: dict[Seen, int] = {}

    def note(self, innermost: FrameType, seconds: float) -> None:
        """Record that the thread is at a frame, after `seconds`."""
        place, seen, looks = self._at(innermost), self._seen, self._looks
        seen[place] = seen.get(place, 0.0) + seconds
        looks[place] = looks.get(place, 0) + 1

    def routes(self) -> dict[Route, float]:
        """Return the thread's time per path of operators."""
        routes: dict[Route, float] = {}
        for seen, time_s in self._seen.items():
            route = self._route(seen)
            routes[route] = routes.get(route, 0.0) + time_s
        return routes

    def looks(self) -> dict[Route, int]:
        """Return the number of samples per path of operators, on a core or not."""
        routes: dict[Route, int] = {}
        for seen, count in self._looks.items():
            route = self._route(seen)
            routes[route] = routes.get(route, 0) + count
        return routes

    def _route(self, seen: Seen) -> Route:
        match seen:
            case (str() as filename, tuple() as lines):
                path: Route = self._programs[filename].path_of(lines)
                return self._before.get(filename, ()) + path
        return tuple(map(str, seen))

    def _at(self, innermost: FrameType) -> Seen:
        programs, elsewhere = self._programs, self._elsewhere
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
        return (self._begin,)


RATE_HZ = 100.0
LEAST_HZ = 50.0
BUDGET = 0.005  # of a core, for the sampler's own thread
_SEEN = 5  # samples, to tell what one costs

RUSAGE_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)  # on Linux

# Ports, gates, events and queues all wait here.
WAIT = threading.Condition.wait.__code__
FULL = Inlet.await_room.__code__  # for room in the buffer of the next thread

# Far longer than a sample takes. Not longer still: should the sampler lose the lock
# just before a sample, it takes this long to get it back.
UNDISTURBED_S = 0.05


@dataclass(frozen=True)
class Watched:
    """A thread to sample, and what is known about its code.

    `begin` is the first operator of the thread. A thread may run several programs;
    `before` gives, by file name, the operators of the thread that lead to each.
    `elsewhere` maps code outside all programs, such as that of a sink. `task` is the
    kernel's id of the thread if the thread itself does not know it: before Python 3.13,
    a forked thread has the id of its parent. A thread that `reads` belongs to a source.
    """

    thread: threading.Thread
    begin: str
    programs: Sequence[Program]
    before: Mapping[str, Route] = field(default_factory=dict)
    elsewhere: Mapping[CodeType, Callable[[FrameType], Route]] = field(
        default_factory=dict
    )
    task: int | None = None
    reads: bool = False

    def clock(self) -> Clock | None:
        """Return the thread's clock readings; None if it is gone."""
        return cpu_clock(self.thread, self.task)

    def places(self) -> Places:
        """Return an empty record for the thread's samples."""
        return Places(self.begin, self.programs, self.before, self.elsewhere)


class Sampler:
    """Samples threads from `start` to `stop`; no cost before and after.

    It watches the present threads; after a change of the program, make a new one.
    Without a rate it takes up to 100 samples a second, and down to 50 if it would
    otherwise use more than half a percent of a core.
    """

    def __init__(
        self, threads: Sequence[Watched], rate_hz: float | None = None
    ) -> None:
        self._watched = threads
        self._period_s = 1 / (rate_hz or RATE_HZ)
        self._adapts = rate_hz is None
        self._places = [one.places() for one in threads]
        self._last_s = [0.0] * len(threads)  # their clock readings at the last sample
        self._waiting = [0] * len(threads)
        self._full = [0] * len(threads)
        self.looks = 0
        self.cpu_s = 0.0  # CPU time of the sampler itself, once it has stopped
        self._clocks: list[Clock | None] = []
        self._threads: list[tuple[int, int]] = []  # their idents and clocks
        self._began_s = 0.0
        self._over = False
        self._locked = 0  # samples for which the lock was held
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Start sampling."""
        self._clocks = [one.clock() for one in self._watched]
        self._threads = [
            (one.thread.ident or 0, clock_of(one.task or one.thread.native_id or 0))
            for one in self._watched
        ]
        self._last_s = [on_core_s(clock_id) for _, clock_id in self._threads]
        self._began_s = time.perf_counter()
        self._thread.start()

    def stop(self) -> tuple[ThreadSamples, ...]:
        """Stop; return the samples of the threads that still exist."""
        self._over = True
        self._thread.join()
        elapsed_s = time.perf_counter() - self._began_s
        found = []
        for number, one in enumerate(self._watched):
            before, after = self._clocks[number], one.clock()
            if before is None or after is None:
                continue
            found.append(
                ThreadSamples(
                    begin=one.begin,
                    elapsed_s=elapsed_s,
                    cpu_s=after.cpu_s - before.cpu_s,
                    at_work=self._places[number].routes(),
                    waiting=self._waiting[number],
                    denied_s=after.denied_s - before.denied_s,
                    locked=self._locked / max(1, self.looks),
                    looks=self.looks,
                    sampler_s=self.cpu_s,
                    stood=self._stood(number),
                    full=self._full[number],
                )
            )
        return tuple(found)

    def _stood(self, number: int) -> dict[Route, int]:
        """Return the samples per path of a thread; a source may just have no items."""
        looks, one = self._places[number].looks(), self._watched[number]
        return {r: n for r, n in looks.items() if not (one.reads and r == (one.begin,))}

    def _run(self) -> None:
        # A sample is short and follows a pause that evicted the caches: every call
        # saved counts.
        clock, pause, waits = time.perf_counter, time.sleep, voluntary_switches
        chance = random.Random().random
        undisturbed, look, period_s = Undisturbed(), self._look, self._period_s
        waited, due_s, adapts = waits(), clock(), self._adapts
        while True:
            now_s = clock()
            # A late sample is not made up for: two in a row would see the same. Samples
            # at equal intervals would see a periodic program at few places.
            due_s = max(due_s + period_s * (0.5 + chance()), now_s)
            pause(due_s - now_s)
            if self._over:
                break
            # Sleeping is one switch; any further one is a wait for the lock.
            before, waited = waited, waits()
            self._locked += waited > before + 1
            with undisturbed:
                look(sys._current_frames())  # noqa: SLF001 - the only way
            self.looks += 1
            if adapts and self.looks % _SEEN == 0:
                period_s = find_period_s(time.thread_time() / self.looks)
        self.cpu_s = time.thread_time()

    def _look(self, frames: Mapping[int, FrameType]) -> None:
        for number, (ident, clock_id) in enumerate(self._threads):
            frame = frames.get(ident)
            if frame is None:
                continue
            if frame.f_code is WAIT:  # its work until here counts at the next place
                self._waiting[number] += 1
                behind = frame.f_back
                if behind is not None and behind.f_code is FULL:
                    self._full[number] += 1
            else:
                # A thread that was ready but not running has not worked at its
                # position.
                now_s = on_core_s(clock_id)
                self._places[number].note(frame, now_s - self._last_s[number])
                self._last_s[number] = now_s


def find_period_s(each_s: float) -> float:
    """Return the time between samples that cost `each_s` of CPU time each.

    >>> [round(find_period_s(each_s), 4) for each_s in (20e-6, 75e-6, 1e-3)]
    [0.01, 0.015, 0.02]
    """
    return min(max(1 / RATE_HZ, each_s / BUDGET), 1 / LEAST_HZ)


class Clock(NamedTuple):
    """A thread's time on a core, and its time waiting for one."""

    cpu_s: float
    denied_s: float


def cpu_clock(thread: threading.Thread, task: int | None = None) -> Clock | None:
    """Return the clock of a thread, whose id may be given; None if it is gone.

    `time.pthread_getcpuclockid` must not be called for an ended thread, which cannot be
    ruled out; the kernel's accounting files can be read at any time.
    """
    task = task or thread.native_id
    if task is None or not thread.is_alive():
        return None
    books = Path(f"/proc/self/task/{task}/schedstat")
    try:
        cpu_ns, denied_ns, _ = books.read_bytes().split()
    except OSError:
        ended = Path("/proc/self/task").exists() and not books.parent.exists()
        return None if ended else _plain_clock(thread)
    return Clock(int(cpu_ns) / 1e9, int(denied_ns) / 1e9)


def clock_of(task: int) -> int:
    """Return the clock id of a thread: on Linux its CPU time clock."""
    if not sys.platform.startswith("linux"):
        return time.CLOCK_MONOTONIC
    return (~task << 3) | 6  # as the kernel names it


def on_core_s(clock_id: int) -> float:
    """Return the reading of a clock, quickly; 0 if its thread is gone."""
    try:
        return time.clock_gettime(clock_id)
    except OSError:
        return 0.0


def _plain_clock(thread: threading.Thread) -> Clock | None:
    """Return the clock of a thread if the kernel has no accounting files."""
    if thread.ident is None or not hasattr(time, "pthread_getcpuclockid"):
        return None
    try:
        clock = time.pthread_getcpuclockid(thread.ident)
        return Clock(time.clock_gettime(clock), 0.0)
    except OSError:
        return None


def voluntary_switches() -> int:
    """Return the voluntary context switches of this thread; 0 if not counted."""
    if RUSAGE_THREAD is None:
        return 0
    return resource.getrusage(RUSAGE_THREAD).ru_nvcsw


class Undisturbed:
    """Prevents other threads from running until the end of the block.

    Frames must not be walked while their thread runs: CPython 3.11 then returns
    references to freed frames. Threads waiting for the interpreter lock request it only
    after this interval, and garbage collection, which may run a finalizer that releases
    the lock, is disabled.

    One thread at a time: two would overwrite each other's saved interval.
    """

    _turn = threading.Lock()

    def __enter__(self) -> None:
        self._turn.acquire()
        self._before_s, self._collecting = sys.getswitchinterval(), gc.isenabled()
        sys.setswitchinterval(UNDISTURBED_S)
        gc.disable()

    def __exit__(self, *_: object) -> None:
        sys.setswitchinterval(self._before_s)
        if self._collecting:
            gc.enable()
        self._turn.release()


def can_look_at_itself() -> bool:
    """Tell whether a timer can interrupt this thread, and is free."""
    return (
        threading.current_thread() is threading.main_thread()
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGPROF) in {signal.SIG_DFL, signal.SIG_IGN}
    )


class OwnSampler:
    """Samples the main thread, which calls `start` and `stop` itself."""

    def __init__(self, watched: Watched, rate_hz: float = RATE_HZ) -> None:
        self._watched = watched
        self._period_s = 1 / rate_hz
        self._places = watched.places()
        self._last_s = 0.0
        self._began_s = 0.0
        self._clock = watched.clock()
        self._looks = 0
        self._own_s = 0.0

    def start(self) -> None:
        """Start sampling."""
        self._clock = self._watched.clock()
        self._began_s, self._last_s = time.perf_counter(), time.thread_time()
        signal.signal(signal.SIGPROF, self._look)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, self._period_s, self._period_s)

    def stop(self) -> tuple[ThreadSamples, ...]:
        """Stop; return the samples."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        elapsed_s = time.perf_counter() - self._began_s
        before, after = self._clock, self._watched.clock()
        # Not the previous one: by default, a last pending signal would end the process.
        signal.signal(signal.SIGPROF, signal.SIG_IGN)
        if before is None or after is None:
            return ()
        return (
            ThreadSamples(
                begin=self._watched.begin,
                elapsed_s=elapsed_s,
                cpu_s=after.cpu_s - before.cpu_s,
                at_work=self._places.routes(),
                denied_s=after.denied_s - before.denied_s,
                looks=self._looks,
                sampler_s=self._own_s,
            ),
        )

    def _look(self, _: int, frame: FrameType | None) -> None:
        now_s = time.thread_time()
        if frame is not None:
            self._places.note(frame, now_s - self._last_s)
        self._last_s = now_s
        self._looks += 1
        self._own_s += time.thread_time() - now_s


def in_edges(graph: Graph, name: str) -> list[Edge]:
    """Return the streams that lead to an operator, by port."""
    return [
        Edge(output, Input(name, port))
        for port, output in enumerate(graph[name].inputs)
    ]


def fill_rates(
    graph: Graph,
    operators: Sequence[str],
    rates: dict[Edge, float],
    came: float,
    shares: Mapping[Edge, float] = MappingProxyType({}),
) -> None:
    """Add the rates of the streams of an element, which `came` items per second enter.

    Streams that lead to known ones through maps alone have the same rate, since maps
    preserve the number of items. Others have their share of the items, if it is known;
    else an operator is assumed to give one output per item.
    """
    for operator in reversed(operators):
        (*out,) = (rates[e] for e in graph.out_edges(operator) if e in rates)
        into = in_edges(graph, operator)
        if isinstance(graph[operator].kind, Map | Scan) and out:
            rates.setdefault(into[0], out[0])
    for operator in operators:
        taken = [rates[e] for e in in_edges(graph, operator) if e in rates]
        for edge in graph.out_edges(operator):
            given = sum(taken) if taken else came
            rates.setdefault(edge, came * shares[edge] if edge in shares else given)
