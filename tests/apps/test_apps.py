"""What holds for every application: it stands alone, and the docs show it."""

from __future__ import annotations

import ast

import pytest

import anabranch as ab
from anabranch.cli.console import load_sinks
from tests.apps.loading import APPS
from tests.needs import OPENCV, why_left_out

NAMES = sorted(path.stem for path in APPS.glob("*.py"))
DOCS = APPS.parent / "docs"


@pytest.mark.parametrize("name", NAMES)
def test_it_gives_answers_from_a_sample_where_there_is_no_real_data(
    name, tmp_path, monkeypatch
):
    if name == "lane_detection":
        pytest.importorskip("cv2", reason=why_left_out(OPENCV))
    monkeypatch.setenv("ANABRANCH_DATA", str(tmp_path / "nowhere"))
    monkeypatch.chdir(tmp_path)

    job = ab.run(*load_sinks(str(APPS / f"{name}.py")), on="sequential")

    assert all(job.metrics().delivered.values())


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_computes_and_from_what(name):
    doc = ast.get_docstring(ast.parse((APPS / f"{name}.py").read_text()))

    first, *rest = doc.splitlines()
    assert first.endswith(".")
    assert any(line.startswith(("It reads", "The picture is")) for line in rest)


@pytest.mark.parametrize("name", NAMES)
def test_the_docs_have_a_section_and_a_picture(name):
    text = (DOCS / "apps.md").read_text()

    assert f"(../apps/{name}.py)" in text
    assert f"](pictures/{name}.svg)" in text
    assert (DOCS / "pictures" / f"{name}.svg").read_text().startswith("<svg")
