"""`docs/follow-a-tuple.md` names the files that a traced run passes.

The program of the page runs on the local engine, and on the Spark engine over an
imitation of Spark in this process. A profiler notes each file of ours of which a function
is called, in the order in which they are first called.
"""

from __future__ import annotations

import gc
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

import anabranch as ab
from tests.engines.spark.imitation import Cluster, imitated

ROOT = Path(__file__).resolve().parents[1]
CODE = ROOT / "src" / "anabranch"
PAGE = ROOT / "docs" / "follow-a-tuple.md"
NAMED_FILE = re.compile(r"`([a-z0-9_/]+\.py)`")
BEFORE = "Before the first row"
SECTIONS = {
    "sequential": "On the sequential engine",
    "local": "On the local engine",
    "spark": "On Spark",
}
SPINE = (
    "job.py",
    "language/drafts.py",
    "language/validate.py",
    "python/analyze.py",
    "compiler/compile.py",
    "compiler/make_plan.py",
    "engines/spark/engine.py",
    "epochs/epoch_run.py",
    "epochs/intake/intake.py",
    "epochs/loop.py",
    "epochs/epoch_stages.py",
    "engines/spark/worker.py",
    "epochs/task_runner.py",
    "epochs/unit/runner.py",
    "epochs/commit.py",
)


class Trade(NamedTuple):
    ts_us: int
    SYMBOL: str
    PRICE: float
    SIZE: int


class Price(NamedTuple):
    ts_us: int
    symbol: str
    vwap: float


def vwap(trades: list[Trade]) -> Price:
    volume = sum(trade.SIZE for trade in trades)
    money = sum(trade.PRICE * trade.SIZE for trade in trades)
    return Price(trades[-1].ts_us, trades[-1].SYMBOL, money / volume)


def program(folder: Path) -> ab.Result:
    """Return the program of the page; 3 of 80 trades have been cancelled."""
    rows = [f"{n},{'ABC'[n % 3]},{n}.5,{0 if n in (7, 8, 9) else 2}" for n in range(80)]
    head = "ts_us,SYMBOL,PRICE,SIZE"
    (folder / "trades.csv").write_text("\n".join([head, *rows, ""]))
    trades = ab.read_csv(str(folder / "trades.csv"), Trade, name="trades")
    kept = trades.filter(lambda trade: trade.SIZE > 0)
    prices = kept.key_by("SYMBOL").window(count=10).aggregate(vwap)
    return prices.write_csv(str(folder / "prices"))


def trace(run: Callable[[], object]) -> list[str]:
    """Return the files of ours that a call passes, in the order of their first call."""
    prefix = f"{CODE}/"
    passed: dict[str, None] = {}
    for name in ab.__all__:
        getattr(ab, name)  # is loaded when it is first used, which is no part of a run

    def note(frame, event, _):
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(prefix):
            passed.setdefault(file.removeprefix(prefix))

    gc.collect()  # what earlier tests have left ends now, not within the trace
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(passed)


def run_attempt(cluster: Cluster, number: int, body):
    """Run a task in one attempt."""
    attempt = cluster.attempt(number, body)
    if attempt.error is not None:
        raise attempt.error
    return attempt.gave


def run_on_imitation(folder: Path) -> None:
    """Run the program on Spark twice: with two channels, and as the controller has it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        imitated(patch, Cluster(run_attempt), folder),
    ):
        kept = folder / "checkpoint"
        ab.run(program(folder), on="spark", degree=2, checkpoint=kept)
        shutil.rmtree(folder / "prices")
        ab.run(program(folder), on="spark")


RUNS: dict[str, Callable[[Path], object]] = {
    "sequential": lambda folder: ab.run(program(folder), on="sequential"),
    "local": lambda folder: ab.run(program(folder), on="local", degree=2),
    "spark": run_on_imitation,
}


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return {
        on: trace(partial(run, tmp_path_factory.mktemp(on))) for on, run in RUNS.items()
    }


@pytest.fixture(scope="module")
def named():
    """The files that each section of the page names, in order."""
    _, *sections = re.split(
        r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    return {
        section.partition("\n")[0]: list(dict.fromkeys(NAMED_FILE.findall(section)))
        for section in sections
    }


def folders_of(files: Iterable[str]) -> set[str]:
    return {file.rpartition("/")[0] for file in files}


def test_the_page_has_a_section_for_each_engine(named):
    assert [BEFORE, *SECTIONS.values()] == list(named)


@pytest.mark.parametrize("on", SECTIONS)
def test_a_run_passes_every_file_that_the_page_names(traces, named, on):
    files = [*named[BEFORE], *named[SECTIONS[on]]]

    assert [] == [file for file in files if file not in traces[on]]


@pytest.mark.parametrize("on", SECTIONS)
def test_the_page_names_every_folder_that_a_run_passes(traces, named, on):
    files = [*named[BEFORE], *named[SECTIONS[on]]]

    by_time = {"runtime/columns"}  # if compiling kernels proves worth it in time
    assert set() == folders_of(traces[on]) - folders_of(files) - by_time


@pytest.mark.parametrize("on", SECTIONS)
def test_the_page_names_files_in_the_order_in_which_a_program_is_compiled(
    traces, named, on
):
    place = {file: number for number, file in enumerate(traces[on])}

    assert sorted(named[BEFORE], key=place.__getitem__) == named[BEFORE]


def test_the_page_names_the_whole_spine(named):
    assert set() == set(SPINE) - {*named[BEFORE], *named[SECTIONS["spark"]]}


def test_a_trace_has_the_files_in_the_order_of_their_first_call():
    passed = trace(lambda: ab.compile(ab.from_iterable([1]).map(abs).to_list()))

    assert "language/sources.py" == passed[0]
    assert passed.index("compiler/compile.py") < passed.index("compiler/make_plan.py")
    assert "engines/sequential.py" not in passed
