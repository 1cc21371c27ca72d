"""The jobs as two plain Python processes over half of the input each.

Nothing is carried from one half to the other: what needs state comes out wrong. It is
what two cores could give.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

import talk
from bench.harness import trades


def run(job: str, source: str, target: str) -> None:
    talk.began(target)
    with Path(source).open() as file:
        rows = sum(1 for _ in file) - 1
    middle = trades.find_row(Path(source), rows // 2)
    Path(target).mkdir()
    processes = [
        subprocess.Popen(
            [sys.executable, trades.__file__, job, source, str(start), str(count), out]
        )
        for start, count, out in (
            (0, rows // 2, f"{target}/0.csv"),
            (middle, rows - rows // 2, f"{target}/1.csv"),
        )
    ]
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit("one of the two processes failed")


def live(_port: int, _target: str) -> None:
    sys.exit("two processes over halves have no live input")


if __name__ == "__main__":
    talk.main({job: partial(run, job) for job in talk.JOBS}, live)
