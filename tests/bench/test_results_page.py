"""The page of results says what is met and what is missed."""

from __future__ import annotations

import json

import pytest

CLAIM = {
    "what": "two over one",
    "measured": 1.7,
    "low": 1.6,
    "high": 1.8,
    "unit": "times",
    "paper": "2 (Fig. 7)",
    "at_least": None,
    "at_most": None,
    "remark": "",
}


def record(bench, claims, tables=()):
    return {
        "bench": bench,
        "name": bench,
        "arguments": [],
        "when": "2026-11-16T00:00:00+00:00",
        "quick": False,
        "cores": 2,
        "claims": claims,
        "tables": list(tables),
        "results": {},
    }


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"at_least": 1.8}, "at least 1.8: **missed**"),
        ({"at_least": 1.7}, "at least 1.7: met"),
        ({"at_most": 1.6}, "at most 1.6: **missed**"),
        ({"at_most": 1.7}, "at most 1.7: met"),
        ({}, ""),
    ],
)
def test_whether_a_target_is_met_is_computed(target, said):
    from results_page import row

    cells = row({**CLAIM, **target})

    assert ["two over one", "2 (Fig. 7)", "1.7", "1.6 to 1.8", said, ""] == cells


def test_the_page_has_every_record_under_its_heading(tmp_path):
    from results_page import write_page

    table = {"title": "speedup", "head": ["n", "x"], "rows": [[2, 1.904]]}
    records = [
        record("safe_fig7", [{**CLAIM, "at_least": 1.8}], [table]),
        record("spark_order", [{**CLAIM, "what": "order", "at_least": 1.0}]),
    ]
    for one in records:
        (tmp_path / f"{one['bench']}-x.json").write_text(json.dumps(one))
    (tmp_path / "kill-printed.txt").write_text("0 differences\n")
    (tmp_path / "safe_fig7-printed.txt").write_text("has a record\n")
    (tmp_path / "spark_order-3.txt").write_text("half\nFAILED (exit status 1)\n")
    page = tmp_path / "page.md"

    write_page(page, tmp_path, tmp_path, ["kill", "peers", "safe_fig7"])

    text = page.read_text()
    assert "Of 2 claims with a target 1 are missed." in text
    assert text.index("## Safe data parallelism") < text.index("| 2 | 1.9 |")
    assert text.index("| 2 | 1.9 |") < text.index("## The Spark engine")
    assert "`anabranch bench kill` printed:\n\n```text\n0 differences" in text
    assert "has a record" not in text
    assert text.endswith("## Not run for this page\n\n`peers`.\n")
    assert "`anabranch bench spark_order 3` printed:\n\n```text\nhalf\nFAILED" in text
