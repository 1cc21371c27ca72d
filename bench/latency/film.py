"""The film of the latency paper: how long its frames take, and the paper's machine.

The paper's machine has 12 cores of two threads each, this one has two cores: so the
figures of the paper are made by a simulator, with the same policies, and beside them
stands what this machine does itself. The simulator's frames take as long as those of a
real film do here (its oscillations are real), scaled so that a frame takes 45 ms, with
which it has about the latencies of the paper's figures.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.cli.console import load_module
from bench.latency.simulated_queue import Machine, SimulatedQueue

ROOT = Path(__file__).resolve().parents[2]
PAPERS_MACHINE = Machine(cores=12, threads=2)
FRAME_S = 0.045
WINDOW = 3  # frames on their way for each replica
FILM_S = 60.0


def lane_detection() -> Any:
    """Return the application; its replicas take the cores, not OpenCV's own threads."""
    app = load_module(ROOT / "apps" / "lane_detection.py")
    app.cv2.setNumThreads(1)
    return app


def film() -> Path | None:
    """Return the real film, if it is at hand."""
    app = lane_detection()
    found: Path | None = app.real_file("lane", "solidWhiteRight.mp4")
    return found


def frame_times() -> list[float]:
    """Return how long each frame of the film takes here, on a core, in one thread."""
    app = lane_detection()
    found = []
    for frame in app.frames(film()):
        began_s = time.thread_time()
        app.lane(app.stretches(app.edges(frame)))
        found.append(time.thread_time() - began_s)
    return found


def simulated_film(
    times_s: Sequence[float], degree: int = 1, seed: int = 0
) -> SimulatedQueue:
    """Return the paper's experiment: a film that is read as fast as there is room."""
    smooth = [
        statistics.median(times_s[max(0, n - 2) : n + 3]) for n in range(len(times_s))
    ]
    scale = FRAME_S / statistics.fmean(smooth)
    return SimulatedQueue(
        [one * scale for one in smooth for _ in range(20)],  # slow, as in a long film
        PAPERS_MACHINE,
        closed=WINDOW,
        others_busy=2,
        seconds=FILM_S,
        degree=degree,
        noise=0.05,
        seed=seed,
    )


def repeated(times_s: Sequence[float]) -> Any:
    """Return numbers, again and again."""
    return itertools.cycle(times_s)
