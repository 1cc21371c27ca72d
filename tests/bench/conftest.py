"""Benchmarks are scripts: their folders are put on the path while they are tested."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"
SHARED = {path.stem for path in [*BENCH.glob("*.py"), *(BENCH / "peers").glob("*.py")]}


@pytest.fixture(autouse=True)
def bench_modules(monkeypatch):
    """Let tests import them; nobody else finds them afterwards."""
    for folder in (BENCH, BENCH / "peers"):
        monkeypatch.syspath_prepend(str(folder))
    yield
    for name in SHARED:
        sys.modules.pop(name, None)
