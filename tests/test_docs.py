"""Every example in the documentation is executed."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

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
