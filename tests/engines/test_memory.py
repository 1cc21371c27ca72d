"""Memory runs out: in a source, in an operator, in a writer, or in the engine itself.

The job stops with one line that says what to do, whatever `on_error` says, and leaves no
output that looks complete.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NamedTuple

import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.connectors.files.writer import CsvWriter
from anabranch.engines.sinks import Sinks
from anabranch.errors import AnabranchError, EngineError

ENGINES = ["sequential", "local"]
ITEMS = 3000


class Item(NamedTuple):
    number: int


NUMBERS = [Item(number) for number in range(ITEMS)]


def give_some():
    yield from NUMBERS
    raise MemoryError


def spend(item: Item) -> Item:
    if item.number == ITEMS // 2:
        raise MemoryError
    return item


def keep(item: Item) -> Item:
    return item


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("on_error", ["stop", "skip"])
def test_a_source_that_runs_out_of_memory_is_named(on, on_error, tmp_path):
    out = tmp_path / "out.csv"
    program = ab.generate(give_some, Item, name="numbers").map(keep).write_csv(out)

    with pytest.raises(EngineError) as told:
        ab.run(program, on=on, on_error=on_error)

    assert "source 'numbers'" in str(told.value)
    assert f"after {ITEMS} of them" in str(told.value)
    assert "allow the process more" in str(told.value)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("on", ENGINES)
def test_an_operator_that_runs_out_of_memory_is_named(on, tmp_path):
    items = ab.from_iterable(NUMBERS, Item).map(spend, name="spend")

    with pytest.raises(
        EngineError, match=r"operator 'spend' .* allow the process more"
    ):
        ab.run(items.write_csv(tmp_path / "out.csv"), on=on, on_error="skip")
    assert [] == list(tmp_path.iterdir())


def raise_memory_error(*_):
    raise MemoryError


def raise_arrow_memory_error(*_):
    raise pa.ArrowMemoryError


LACKS = {
    "engine": (Sinks, "flush_all", raise_memory_error),
    "writer": (CsvWriter, "_write_out", raise_arrow_memory_error),
}


@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("where", LACKS)
def test_an_engine_that_runs_out_of_memory_says_so(on, where, tmp_path, monkeypatch):
    monkeypatch.setattr(*LACKS[where])
    items = ab.from_iterable(NUMBERS, Item).map(keep)

    with pytest.raises(AnabranchError, match=r"enough memory.* allow the process more"):
        ab.run(items.write_csv(tmp_path / "out.csv"), on=on)
    assert [] == list(tmp_path.iterdir())


PROGRAM = """\
import os
import resource
from typing import NamedTuple

import anabranch as ab


class Item(NamedTuple):
    number: int
    key: int
    text: str


def make():
    return (Item(n, n % 7, "x" * 400 + str(n)) for n in range(150_000))


@ab.declare(state="stateless")
def limit(item: Item) -> Item:
    if item.number == 1000:
        with open("/proc/self/statm") as pages:
            used = int(pages.read().split()[0]) * resource.getpagesize()
        more = int(os.environ["MORE"]) << 20
        resource.setrlimit(resource.RLIMIT_AS, (used + more, used + more))
    return item


def count(items: list[Item]) -> int:
    return len(items)


items = ab.generate(make, Item).map(limit)
program = items.key_by("key").window(count=10**9).aggregate(count).write_csv("out.csv")
"""


@pytest.mark.long
@pytest.mark.parametrize("on", ENGINES)
@pytest.mark.parametrize("more", [1, 4, 8])
def test_a_process_with_a_limit_says_that_it_is_reached(on, more, tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = ["-m", "anabranch", "run", "program.py", "--on", on]
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "MORE": str(more)},
        timeout=900,
    )

    assert 1 == done.returncode
    assert "enough memory" in done.stderr
    assert "allow the process more" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.csv").exists()
