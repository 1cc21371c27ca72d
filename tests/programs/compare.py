"""Compare engines on many generated programs, in one process:

    python -m tests.programs.compare local 10000
    python -m tests.programs.compare spark 1000 --first 500
    python -m tests.programs.compare imitation 1000
    python -m tests.programs.compare local 5000 --of timed
    python -m tests.programs.compare meaning 5000 --of timed

`--of` says which programs: `graphs`, that part and meet; `timed`, with clocks and what
follows them, out of order; `fragile`, with clocks and operators that refuse items;
`marked`, full of punctuations; `any`, of all steps. Each runs on local at degrees 1 to 4, or with `--one` at one of them by turns.
On Spark it runs at one of the degrees 1 to
3 with epochs of 1, 7 or 100 items; nine programs in a row have all nine pairs. The imitation
of Spark in this process runs the same, without a JVM. `resumed` is the imitation with a
checkpoint: each job is cut off before its third epoch and goes on at another degree.
`parts` is the imitation with sinks that tasks write in parts.
`meaning` is the second implementation of the semantics, `breadth_first`. Each program
that differs is printed with its seed; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cloudpickle
import pytest

import anabranch as ab
from anabranch import job
from anabranch.compiler.compile import Compilation
from anabranch.compiler.options import Rules
from anabranch.engines.local import run as local_run
from anabranch.engines.spark.session import open_session
from anabranch.epochs.loop import Epochs
from anabranch.language.drafts import Result, build_graph
from tests.engines.spark.imitation import Cluster, imitated, undisturbed
from tests.programs.breadth_first import run_breadth_first
from tests.programs.generate import (
    Program,
    first_difference,
    program,
    run_sequential,
)

LOCAL_DEGREES = (1, 2, 3, 4)
SPARK_DEGREES = (1, 2, 3)
SPARK_EPOCHS = (1, 7, 100)
TELL_S = 30  # between two lines of progress
PROGRAMS = {
    "graphs": {"graphs": True},
    "timed": {"timed": True},
    "fragile": {"timed": True, "failing": True},
    "marked": {"marked": True},
    "any": {},
}

Run = Callable[[list[Result]], list[list[object]]]


def runs_of(
    engine: str, seed: int, one: bool, generated: Program
) -> Iterator[tuple[str, Run]]:
    """Return the ways in which the program of a seed runs, each with its name."""
    options = {"on_error": "skip"} if generated.failing else {}
    if engine == "meaning":
        yield "breadth first", run_by_meaning
        return
    if engine == "local":
        for degree in LOCAL_DEGREES[seed % 4 :][:1] if one else LOCAL_DEGREES:
            local = {"on": "local", "degree": degree, **options}
            run = run_with_rounds if degree == 2 and seed % 4 == 0 else run_on
            yield f"degree {degree}", partial(run, **local)
        return
    degree, items = SPARK_DEGREES[seed % 3], SPARK_EPOCHS[seed // 3 % 3]
    spark = {"on": "spark", "degree": degree, "epoch_items": items, **options}
    name = f"degree {degree}, epochs of {items}"
    if engine == "parts":
        yield name, partial(run_in_parts, generated, **spark)
    elif engine == "resumed":
        yield name, partial(run_resumed, generated.build(), **spark)
    else:
        yield name, partial(run_on if engine == "spark" else run_imitated, **spark)


def run_by_meaning(sinks: list[Result]) -> list[list[object]]:
    return list(run_breadth_first(build_graph(sinks)).values())


def run_on(sinks: list[Result], **options: object) -> list[list[object]]:
    ab.run(*sinks, **options)
    return [sink.items for sink in sinks]


def run_with_rounds(sinks: list[Result], **options: object) -> list[list[object]]:
    """Run a program on local whose rounds run on all replicas, however short."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_run, "WORTH_S", 0)
        return run_on(sinks, **options)


def run_imitated(sinks: list[Result], **options: object) -> list[list[object]]:
    with imitate():
        return run_on(sinks, **options)


@contextlib.contextmanager
def imitate() -> Iterator[None]:
    with (
        TemporaryDirectory() as folder,
        imitated(pytest.MonkeyPatch(), Cluster(undisturbed), Path(folder)),
    ):
        yield


class KeptParts(ab.Sink):
    """A list that tasks write in parts."""

    def __init__(self) -> None:
        self.items: list[object] = []

    def write_part(self, part: ab.SinkPart, items: Sequence[object]) -> str:
        return base64.b64encode(cloudpickle.dumps(list(items))).decode()

    def commit_parts(self, epoch: int, parts: Sequence[str]) -> None:
        for part in parts:
            self.items += pickle.loads(base64.b64decode(part))


def run_in_parts(
    generated: Program, _: list[Result], **options: object
) -> list[list[object]]:
    """Run a program with sinks in parts instead of lists."""
    head, _, ends = generated.text.rpartition("sinks = ")
    text = f"{head}sinks = {ends.replace('.to_list()', '.write(KeptParts())')}"
    opening = "from tests.programs.compare import KeptParts\n"
    sinks = Program(opening + text, generated.failing).build()
    with imitate():
        ab.run(*sinks, **options)
    return [sink.draft.kind.sink.items for sink in sinks]


class CutOffError(Exception):
    """Ends a run between two epochs."""


def run_resumed(
    before: list[Result], sinks: list[Result], *, degree: int, **options: object
) -> list[list[object]]:
    """Return what two runs give together, the first of which is cut off."""
    run_epoch = Epochs.run

    def run_until_cut_off(epochs: Epochs, pieces: object) -> None:
        if epochs.stamp.epoch == 2:
            raise CutOffError
        run_epoch(epochs, pieces)

    with (
        TemporaryDirectory() as folder,
        imitated(pytest.MonkeyPatch(), Cluster(undisturbed), Path(folder)),
    ):
        options["checkpoint"] = Path(folder) / "checkpoint"
        Epochs.run = run_until_cut_off
        try:
            return run_on(before, degree=degree, **options)
        except CutOffError:
            Epochs.run = run_epoch
            rest = run_on(sinks, degree=degree % 3 + 1, **options)
        finally:
            Epochs.run = run_epoch
    # a job that was cut off does not show its items, but its lists have them
    early = [one.draft.kind.items for one in before]
    return [one + two for one, two in zip(early, rest, strict=True)]


@contextlib.contextmanager
def compile_once() -> Iterator[None]:
    """Compile a program once for all its runs: the degree is no part of its plan."""
    made: dict[tuple[int, ...], Compilation] = {}
    compile_with = job.compile_with

    def recall(rules: Rules, sinks: Sequence[Result], *others: Any) -> Compilation:
        known = tuple(map(id, sinks))
        if known not in made:
            made[known] = compile_with(rules, sinks, *others)
        return made[known]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "compile_with", recall)
        yield


def compare(engine: str, seed: int, of: str = "graphs", one: bool = False) -> list[str]:
    """Return how an engine differs from the sequential one on the program of a seed."""
    found = []
    generated = program(seed, **PROGRAMS[of])
    try:
        wanted = run_sequential(generated)
    except Exception:  # noqa: BLE001 - a program that is no good
        return [f"seed {seed}, sequential\n{traceback.format_exc()}\n{generated}"]
    sinks = generated.build()
    with compile_once():
        for name, run in runs_of(engine, seed, one, generated):
            why = find_difference(wanted, sinks, run)
            if why:
                found.append(f"seed {seed}, {name}\n{why}\n{generated}")
    return found


def find_difference(wanted: list[list[object]], sinks: list[Result], run: Run) -> str:
    """Return how the lists that a run gives differ from those that it should give."""
    for sink in sinks:
        sink.items.clear()
    try:
        given = run(sinks)
    except Exception:  # noqa: BLE001 - whatever it is, it is a difference
        return traceback.format_exc()
    why = ""
    for number, (left, right) in enumerate(zip(wanted, given, strict=True)):
        difference = first_difference(left, right)
        why += f"sinks[{number}]: {difference}\n" if difference else ""
    return why


def tell(text: str) -> None:
    """Print at once, since whoever waits looks at a file."""
    print(text, flush=True)  # noqa: T201 - it is a command


def main() -> int:
    """Compare the programs that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    engines = ("local", "spark", "imitation", "resumed", "parts", "meaning")
    parser.add_argument("engine", choices=engines)
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="seed of the first one")
    parser.add_argument(
        "--of", choices=PROGRAMS, default="graphs", help="which programs"
    )
    parser.add_argument("--one", action="store_true", help="one degree of local each")
    asked = parser.parse_args()
    session = open_session("local[2]") if asked.engine == "spark" else None
    began_s, told_s, differ = time.monotonic(), 0.0, 0
    seeds = range(asked.first, asked.first + asked.programs)
    for done, seed in enumerate(seeds, start=1):
        found = compare(asked.engine, seed, asked.of, asked.one)
        differ += bool(found)
        if found:
            tell("\n".join(found))
        took_s = time.monotonic() - began_s
        if took_s >= told_s + TELL_S or done == len(seeds):
            told_s = took_s
            tell(f"{done} programs, {differ} differ, {took_s:.0f} s")
    if session is not None:
        session.stop()
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
