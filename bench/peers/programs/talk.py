"""How the bench talks with a peer's program; the same for all of them.

    PROGRAM run JOB SOURCE TARGET    run one job and end
    PROGRAM serve                    run the jobs that are asked for on stdin
    PROGRAM live PORT TARGET         running VWAP of the trades that come from a port;
                                     when each result was seen goes to TARGET

No library beyond Python's own: it is imported in the environments of all peers.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

ANSWER = "@peer "  # before an answer, to tell it from what libraries print
JOBS = ("chain", "vwap", "window", "heavy")
Job = Callable[[str, str], None]  # source, target


def main(jobs: Mapping[str, Job], live: Callable[[int, str], None]) -> None:
    """Do what the command line asks for."""
    match sys.argv[1:]:
        case ["run", job, source, target]:
            jobs[job](source, target)
        case ["serve"]:
            for line in sys.stdin:
                job, source, target = json.loads(line)
                began_s = time.perf_counter()
                jobs[job](source, target)
                print(f"\n{ANSWER}{time.perf_counter() - began_s}", flush=True)
        case ["live", port, target]:
            live(int(port), target)
        case _:
            sys.exit(__doc__)


def began(target: str) -> None:
    """Note that the work begins: what was before is start-up."""
    with Path(f"{target}.began").open("a", encoding="ascii") as file:
        file.write(f"{time.time()}\n")


class Seen:
    """Notes when results were seen. The `ts` of a live trade is when it was sent."""

    def __init__(self, target: str) -> None:
        self._target = target

    @functools.cached_property
    def _file(self) -> TextIO:  # opened where results are, which may be elsewhere
        return Path(self._target).open("a", encoding="ascii")

    def note(self, *sent_ns: int) -> None:
        """Note that the results of trades are here now."""
        now_ns = time.time_ns()
        self._file.write("".join(f"{sent},{now_ns}\n" for sent in sent_ns))
        self._file.flush()
