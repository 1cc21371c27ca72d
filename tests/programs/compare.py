"""Compare engines on many generated programs that part and meet:

    python -m tests.programs.compare local 10000
    python -m tests.programs.compare spark 1000 --first 500
    python -m tests.programs.compare imitation 1000

Each program runs on local at degrees 1 to 4. On Spark it runs at one of the degrees 1 to
3 with epochs of 1, 7 or 100 items; nine programs in a row have all nine pairs. The imitation
of Spark in this process runs the same, without a JVM. Each program
that differs is printed with its seed; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import anabranch as ab
from anabranch.engines.spark.session import open_session
from anabranch.language.drafts import Result
from tests.engines.spark.imitation import Cluster, imitated, undisturbed
from tests.programs.generate import assert_same, program

LOCAL_DEGREES = (1, 2, 3, 4)
SPARK_DEGREES = (1, 2, 3)
SPARK_EPOCHS = (1, 7, 100)

Run = Callable[[list[Result]], object]


def runs_of(engine: str, seed: int) -> Iterator[tuple[str, Run]]:
    """Return the ways in which the program of a seed runs, each with its name."""
    if engine == "local":
        for degree in LOCAL_DEGREES:
            yield f"degree {degree}", partial(run_local, degree)
        return
    degree = SPARK_DEGREES[seed % 3]
    items = SPARK_EPOCHS[seed // 3 % 3]
    run = run_spark if engine == "spark" else run_imitated
    yield f"degree {degree}, epochs of {items}", partial(run, degree, items)


def run_local(degree: int, sinks: list[Result]) -> None:
    ab.run(*sinks, on="local", degree=degree)


def run_spark(degree: int, items: int, sinks: list[Result]) -> None:
    ab.run(*sinks, on="spark", degree=degree, epoch_items=items)


def run_imitated(degree: int, items: int, sinks: list[Result]) -> None:
    with (
        TemporaryDirectory() as folder,
        imitated(pytest.MonkeyPatch(), Cluster(undisturbed), Path(folder)),
    ):
        run_spark(degree, items, sinks)


def compare(engine: str, seed: int) -> list[str]:
    """Return how an engine differs from the sequential one on the program of a seed."""
    found = []
    for name, run in runs_of(engine, seed):
        try:
            assert_same(program(seed, graphs=True), run)
        except Exception:  # noqa: BLE001 - whatever it is, it is a difference
            found.append(f"seed {seed}, {name}\n{traceback.format_exc()}")
    return found


def tell(text: str) -> None:
    """Print at once, since whoever waits looks at a file."""
    print(text, flush=True)  # noqa: T201 - it is a command


def main() -> int:
    """Compare the programs that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("engine", choices=("local", "spark", "imitation"))
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    asked = parser.parse_args()
    session = open_session("local[2]") if asked.engine == "spark" else None
    began_s, differ = time.monotonic(), 0
    seeds = range(asked.first, asked.first + asked.programs)
    for done, seed in enumerate(seeds, start=1):
        found = compare(asked.engine, seed)
        differ += bool(found)
        if found:
            tell("\n".join(found))
        if done % 100 == 0 or done == len(seeds):
            took_s = time.monotonic() - began_s
            tell(f"{done} programs, {differ} differ, {took_s:.0f} s")
    if session is not None:
        session.stop()
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
