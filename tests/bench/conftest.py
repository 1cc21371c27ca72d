"""Benchmarks are scripts: their folders are put on the path while they are tested."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(autouse=True)
def bench_modules(monkeypatch):
    """Let tests import them; nobody else finds them afterwards."""
    for folder in (BENCH, BENCH / "peers"):
        monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        where = getattr(sys.modules[name], "__file__", None) or ""
        if where.startswith((str(BENCH), str(BENCH.parent / "apps"))):
            del sys.modules[name]
