"""What the benchmarks of latency goals share: the paper's machine, tables and plots.

The paper's machine has 12 cores of two threads each, this one has two cores: so the
figures of the paper are made by a simulator, with the same policies, and beside them
stands what this machine does itself. The simulator's frames take as long as those of a
real film do here (its oscillations are real), scaled so that a frame takes 45 ms, with
which it has about the latencies of the paper's figures.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anabranch.cli.programs import load_module
from anabranch.control.latency_simulate import Machine, SimulatedQueue
from timing import Table, record

ROOT = Path(__file__).resolve().parents[1]
OUT = Path("out")
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


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table; numbers with two digits behind the point."""
    cells = [
        [f"{cell:.2f}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in [head, *rows]
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    _shown.append(Table(title, list(head), cells[1:]))
    print(title)
    for row in cells:
        print("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)))
    print()


def keep(name: str, results: Mapping[str, Any]) -> None:
    """Write results to out/NAME.json."""
    OUT.mkdir(exist_ok=True)
    text = json.dumps(results, indent=2)
    (OUT / f"{name}.json").write_text(text, encoding="utf-8")
    record(name, tables=_shown)
    _shown.clear()


_shown: list[Table] = []  # for the record


def plot(
    name: str,
    panels: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]],
) -> None:
    """Draw panels of lines, one above the other, to out/NAME.svg."""
    import matplotlib as mpl  # noqa: PLC0415 - only who plots pays for it

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    OUT.mkdir(exist_ok=True)
    figure, all_axes = plt.subplots(
        len(panels), 1, figsize=(8, 2.6 * len(panels)), squeeze=False
    )
    for axes, (title, lines) in zip(all_axes[:, 0], panels.items(), strict=True):
        for label, (xs, ys) in lines.items():
            style = "--" if label.startswith("bound") else "-"
            axes.plot(xs, ys, style, label=label, linewidth=1)
        axes.set_ylabel(title)
        axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(OUT / f"{name}.svg")
    print(f"drew {OUT / name}.svg")


def asked(word: str) -> bool:
    """Tell whether the command line has a word."""
    return word in sys.argv[1:]


def repeated(times_s: Sequence[float]) -> Any:
    """Return numbers, again and again."""
    return itertools.cycle(times_s)
