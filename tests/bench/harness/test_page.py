"""The page of results says what is met and what is missed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from anabranch.cli.bench import benchmarks
from bench.autopipe.fig7 import claim_lost
from bench.harness.page import find_lacking, has_target, row, write_page
from bench.harness.runs import GROUPS, RUNS
from bench.safe.fig10 import believable, claim_of

BENCH = Path(__file__).resolve().parents[3] / "bench"
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
        "commit": "0123456789ab",
        "quick": False,
        "cores": 2,
        "claims": claims,
        "tables": list(tables),
        "results": {},
    }


def test_what_is_recorded_is_no_longer_lacking():
    recorded = [{"bench": "autopipe/fig6", "arguments": ["spark"]}]
    named = "`autopipe/fig6 spark`"

    before = [one.what for one in find_lacking("autopipe", [])]
    after = [one.what for one in find_lacking("autopipe", recorded)]
    other = find_lacking("autopipe", [{"bench": "autopipe/fig6", "arguments": []}])

    assert 1 == sum(named in what for what in before)
    assert [what for what in before if named not in what] == after
    assert len(before) == len(other)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ({"at_least": 1.8}, "at least 1.8: **missed**"),
        ({"at_least": 1.7}, "at least 1.7: met"),
        ({"at_most": 1.6}, "at most 1.6: **missed**"),
        ({"at_most": 1.7}, "at most 1.7: met"),
        ({}, "none"),
    ],
)
def test_whether_a_target_is_met_is_computed(target, said):
    cells = row({**CLAIM, **target})

    assert ["two over one", "2 (Fig. 7)", "1.7", "1.6 to 1.8", said, ""] == cells


def test_every_record_has_its_day_and_its_commit():
    kept = [json.loads(path.read_text()) for path in BENCH.glob("records/**/*.json")]

    assert [] == [
        one["name"]
        for one in kept
        if not re.match(r"\d{4}-\d\d-\d\d", one["when"])
        or not re.match(r"[0-9a-f]{12}\b", one["commit"])
    ]


def test_the_page_has_every_record_under_its_heading(tmp_path):
    table = {"title": "speedup", "head": ["n", "x"], "rows": [[2, 1.904]]}
    records = [
        record("safe/fig7", [{**CLAIM, "at_least": 1.8}], [table]),
        record("spark/order", [{**CLAIM, "what": "order", "at_least": 1.0}]),
    ]
    for one in records:
        path = tmp_path / f"{one['bench']}-x.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(one))
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/kill-printed.txt").write_text("0 differences\n")
    (tmp_path / "safe/fig7-printed.txt").write_text("has a record\n")
    (tmp_path / "spark/order-3.txt").write_text("half\nFAILED (exit status 1)\n")
    page = tmp_path / "page.md"

    write_page(page, tmp_path, tmp_path, ["checkpoint/kill", "peers", "safe/fig7"])

    text = page.read_text()
    assert "Of 2 claims with a target 1 are missed. " in text
    assert text.index("## Safe data parallelism") < text.index("| 2 | 1.9 |")
    assert text.index("| 2 | 1.9 |") < text.index("## The Spark engine")
    assert (
        "`anabranch bench checkpoint/kill` printed:\n\n```text\n0 differences" in text
    )
    assert "has a record" not in text
    assert text.endswith(
        "## Not run for this page\n\n"
        "| benchmark | measured |\n| --- | --- |\n| `peers` | not measured |\n"
    )
    assert "`anabranch bench spark/order 3` printed:\n\n```text\nhalf\nFAILED" in text


def test_what_is_not_measured_is_a_row_and_no_target_is_met_by_it():
    claim = {**CLAIM, "measured": None, "low": None, "high": None, "remark": "no cores"}

    cells = ["two over one", "2 (Fig. 7)", "not measured", "", "none", "no cores"]
    assert cells == row(claim)
    assert not has_target({**claim, "at_least": 1.0})
    assert "at least 1: not decided" == row({**claim, "at_least": 1.0})[4]


@pytest.mark.parametrize(("seen", "largest"), [(1.9, 99.0), (1.5, None)])
def test_a_model_that_is_off_where_it_can_be_checked_is_not_extrapolated(seen, largest):
    rows = [
        [2, seen, 1.9, 2.0, 2.0, None],
        [10, None, 9.0, 9.9, 9.8, None],
        [100, None, 50.0, 99.0, 85.0, "93"],
    ]

    assert largest == claim_of("stateful", rows).measured
    assert largest == believable(rows)[-1][3]


def test_a_program_that_is_faster_while_it_is_watched_says_nothing_about_its_loss():
    assert claim_lost("lost", -14.2, -11.4, -1.7).measured is None
    assert (3.1, 1.0) == (
        claim_lost("lost", 0.6, 3.1, 4.7).measured,
        claim_lost("lost", 0.6, 3.1, 4.7).at_most,
    )


def test_every_folder_of_benchmarks_has_a_heading():
    folders = {name.partition("/")[0] for name in benchmarks(BENCH)} - {"all"}

    assert set() == folders - set(GROUPS)


def test_every_benchmark_that_is_run_with_arguments_is_there():
    assert set() == {run.bench for run in RUNS} - set(benchmarks(BENCH))
