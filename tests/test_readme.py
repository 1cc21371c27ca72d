"""The README shows a program and what `explain` says of it: both are real."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from anabranch.cli.main import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def fence(language):
    return README.partition(f"```{language}\n")[2].partition("```")[0]


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    sys.modules.pop("vwap", None)
    Path("vwap.py").write_text(fence("python"))
    yield "vwap.py"
    sys.modules.pop("vwap", None)  # an application has that name, too


def test_the_explanation_is_what_explain_says(program, capsys):
    command, _, shown = fence("console").partition("\n")

    assert "$ anabranch explain vwap.py" == command
    assert 0 == main(command.split()[2:])
    assert capsys.readouterr().out == shown


def test_the_program_runs(program):
    """
    A window of 100 trades at 2.0, one at 1.0 (no record) and one at 3.0.
    """
    rows = [f"{n},A,{(2.0, 1.0, 3.0)[n // 100]},5" for n in range(300)]
    Path("trades.csv").write_text("\n".join(["ts,symbol,price,volume", *rows]))

    assert 0 == main(["run", program, "--on", "sequential"])
    assert "ts,symbol,vwap\n99,A,2.0\n299,A,3.0\n" == "".join(
        part.read_text() for part in sorted(Path("records").glob("part-*"))
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    inside = [target for target in targets if "://" not in target]

    assert [] == [one for one in inside if not (page.parent / one).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_are_named_exist(page):
    """
    A path with a folder is one of the package, of the project, or a benchmark.
    """
    named = re.findall(r"`([\w.]+/[\w./]*)`", page.read_text(encoding="utf-8"))
    roots = [ROOT, ROOT / "src" / "anabranch"]

    assert [] == [
        name
        for name in named
        if not name.startswith((".", "out"))
        and not any((r / name).exists() for r in roots)
        and not (ROOT / "bench" / f"{name}.py").exists()
    ]
