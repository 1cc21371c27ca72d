"""A sampling profiler for the one thread of a process: it looks at itself.

Another thread that looks must be woken up and must wait for the interpreter's lock. A
timer of the process's time on a core needs neither: the main thread is interrupted
between two instructions and notes where it was.
"""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType

from anabranch.metrics.samples import ThreadSamples
from anabranch.runtime.profile import RATE_HZ, Watched


def can_look_at_itself() -> bool:
    """Tell whether this thread is one that a timer interrupts, and nobody uses it."""
    return (
        threading.current_thread() is threading.main_thread()
        and hasattr(signal, "setitimer")
        and signal.getsignal(signal.SIGPROF) in {signal.SIG_DFL, signal.SIG_IGN}
    )


class OwnSampler:
    """Looks at the main thread, from `start` to `stop`, which it must call itself."""

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
        """Begin to look."""
        self._clock = self._watched.clock()
        self._began_s, self._last_s = time.perf_counter(), time.thread_time()
        signal.signal(signal.SIGPROF, self._look)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, self._period_s, self._period_s)

    def stop(self) -> tuple[ThreadSamples, ...]:
        """Look no more, and return what was seen."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        elapsed_s = time.perf_counter() - self._began_s
        before, after = self._clock, self._watched.clock()
        # Not as it was: by default, a last signal on its way would end the process.
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
