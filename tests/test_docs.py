"""Every example in the documentation is executed, and every public name is documented."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import sys
import types
from collections import defaultdict
from pathlib import Path

import pytest

import anabranch as ab

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
FENCE = re.compile(r"^```.*$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_give_what_they_show(page, tmp_path, monkeypatch):
    """
    Fences are blanked out, since an expected output ends at an empty line.
    """
    monkeypatch.chdir(tmp_path)
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    examples = doctest.DocTestParser().get_doctest(
        text, {"__name__": "__main__"}, page.name, str(page), 0
    )
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)

    failed, _ = runner.run(examples, out=report.append)

    assert 0 == failed, "".join(report)


def test_the_page_on_semantics_has_examples():
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")

    assert 40 < text.count(">>> ")


CHANGES = (
    "a source",
    "a sink",
    "a file format",
    "a session window",
    "an async operator",
    "an ordering",
    "an analysis rule",
    "an engine",
    "a PySpark upgrade",
    "a checkpoint format",
    "a policy",
    "a metric on the dashboard",
    "a CLI option",
    "a benchmark",
    "an error text",
)
NAMED_PATH = re.compile(r"`([\w/-]+(?:/|\.\w+))`")


@pytest.fixture
def rows_of_changes():
    """The cells of each row about a change in CONTRIBUTING."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## Which files a change touches")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[2:]]


def test_the_files_that_a_change_touches_are_listed_for_fifteen_changes(
    rows_of_changes,
):
    assert CHANGES == tuple(change for change, _, _ in rows_of_changes)


@pytest.mark.parametrize("change", CHANGES)
def test_the_files_that_a_change_touches_are_there(rows_of_changes, change):
    (cells,) = (cells for cells in rows_of_changes if cells[0] == change)
    named = NAMED_PATH.findall(cells[1]) + NAMED_PATH.findall(cells[2])
    folders = (ROOT, ROOT / "src" / "anabranch")

    assert named
    assert [] == [
        name for name in named if not any((f / name).exists() for f in folders)
    ]


def rows_about(page, sink):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    return [row for row in rows if f"`{sink}`" in row.split("|")[1]]


@pytest.mark.parametrize(
    ("sink", "once"),
    [
        ("to_kafka", True),
        ("write_postgres", True),
        ("to_socket", False),
        ("to_spark", False),
        ("for_each", False),
    ],
)
def test_the_pages_agree_on_whether_an_epoch_comes_again(sink, once):
    (connector,) = (
        r for r in rows_about("connectors.md", sink) if "again" in r or once
    )
    (checkpoint,) = rows_about("checkpoints.md", sink)

    assert once == (" once" in connector)
    assert once == ("at least once" not in checkpoint)


DIRECTIVE = re.compile(
    r"^::: (\S+)\n(?:    options:\n      members: \[(.*)\]\n)?", re.MULTILINE
)


@pytest.mark.parametrize("name", ab.__all__)
def test_the_reference_has_every_public_name(name):
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    members = defaultdict(set)
    for module, listed in DIRECTIVE.findall(text + "\n"):
        members[module] |= set(listed.split(", ")) if listed else {"all of it"}
    public = getattr(ab, name)
    module = getattr(public, "__module__", f"anabranch.{name}")

    assert module in members or f"anabranch.{name}" in members
    assert {"all of it", getattr(public, "__name__", name)} & members[module] or (
        f"anabranch.{name}" in members
    )


def test_the_reference_names_modules_as_they_are_imported():
    """
    What the site cannot collect ends its build: `anabranch.testing.__init__` is the
    module `anabranch.testing`, and a listed member is defined or given there.
    """
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    directives = DIRECTIVE.findall(text + "\n")

    assert directives
    for module, listed in directives:
        assert not module.endswith(".__init__")
        for member in filter(None, listed.split(", ")):
            assert hasattr(importlib.import_module(module), member)


def test_the_program_of_the_tutorial_is_a_whole_file(tmp_path, monkeypatch):
    """
    A newcomer copies it into an empty file.
    """
    text = (ROOT / "docs" / "tutorial.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "readings.csv").write_text("device,celsius\nA,20\nA,21\n")
    made = types.ModuleType("means")
    monkeypatch.setitem(sys.modules, "means", made)

    exec(program, vars(made))
    ab.run(made.program, on="sequential")

    assert ["A", 20.5] == json.loads((tmp_path / "means.jsonl").read_text())
