"""How tests load an application, and on which engines they run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.cli.console import load_module

APPS = Path(__file__).parents[2] / "apps"
ENGINES = [
    "sequential",
    "local",
    pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long]),
]


def load_app(name):
    return load_module(APPS / f"{name}.py")
