"""The summary: both ends of each output, whatever its form."""

from __future__ import annotations

import pytest

import anabranch as ab
from anabranch.cli.run import summarise


def summary_of(sink, show=2):
    job = ab.run(sink, on="sequential")
    return [line.strip() for line in summarise(job, "sequential", show)][1:]


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def numbers(count):
    return ab.from_iterable(list(range(count)), int)


def test_a_list_is_shown_at_both_ends():
    assert [
        "read 7 items from from_iterable",
        "to_list: 7 items",
        *("0", "1", "... 3 more", "5", "6"),
    ] == summary_of(numbers(7).to_list())


def test_a_header_is_shown_but_not_counted():
    assert ["wrote n.csv: 5 items", "value", "0", "1", "... 1 more", "3", "4"] == (
        summary_of(numbers(5).write_csv("n.csv"))[1:]
    )


def test_one_header_is_shown_of_several_parts(tmp_path):
    """
    Workers write a header into each part.
    """
    sink = numbers(2).write_csv("parts")
    job = ab.run(sink, on="sequential")
    (tmp_path / "parts" / "part-00001.csv").write_text("value\n2\n")

    lines = [line.strip() for line in summarise(job, "spark", 5)]

    assert ["value", "0", "1", "2"] == lines[-4:]


def test_json_lines_have_no_header():
    assert ["wrote n.jsonl: 3 items", "0", "1", "2"] == (
        summary_of(numbers(3).write_jsonl("n.jsonl"))[1:]
    )


def test_what_cannot_be_shown_is_counted():
    assert ["wrote n.parquet: 3 items"] == (
        summary_of(numbers(3).write_parquet("n.parquet"))[1:]
    )


def test_one_item_is_no_items():
    assert "read 1 item from from_iterable" == summary_of(numbers(1).to_list())[0]
