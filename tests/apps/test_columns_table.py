"""The table of what runs in columns says what the plans of the golden set say.

`python -m tests.apps.test_columns_table` prints the table and the reasons of refusals.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest

import anabranch as ab
from anabranch.runtime.columns.column_part import ColumnPart
from anabranch.runtime.columns.program_segments import ProgramSegments
from tests.apps.loading import load_app

ROOT = Path(__file__).parents[2]
NO_FUNCTION = re.compile(r"operators of the kind \w+ are not compiled")
NO_TUPLES = "tuple type with plain attributes"


def list_operators(text):
    """Return what a record says of the operators of each plan, by engine."""
    section, found = "", {"spark": [], "local": []}
    for line in text.splitlines():
        if line.startswith("== "):
            section = line.removeprefix("== ").removeprefix("plan on ")
        elif section in found and line.startswith("operators: "):
            found[section].append(json.loads(line.removeprefix("operators: ")))
    return found


def is_computing(operator):
    """Tell whether an operator computes with a function on items of known types."""
    why = operator["why"]
    return bool(why) and not NO_FUNCTION.search(why) and NO_TUPLES not in why


def count_operators(text):
    """Return how many operators run user code, compute on typed items, are in columns."""
    found = list_operators(text)
    spark = [one for one in found["spark"] if one["why"]]
    columns = [
        sum(one["runs"] == "columns" for one in found[on]) for on in ("spark", "local")
    ]
    return (len(spark), sum(map(is_computing, spark)), *columns)


def read_records():
    records = (ROOT / "tests" / "golden" / "apps").glob("*.txt")
    return {p.stem.removesuffix(".program"): p.read_text() for p in sorted(records)}


def count_all():
    counts = {name: count_operators(text) for name, text in read_records().items()}
    counts = {name: found for name, found in counts.items() if found[0]}
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))
    return counts


def list_refusals():
    """Return how often each reason keeps an operator out of columns on Spark."""
    return Counter(
        re.sub(r"\S+ \([^()]*\) |\w+_\d+|\(\S+:\d+\)", "", one["why"])
        for text in read_records().values()
        for one in list_operators(text)["spark"]
        if one["why"] and one["runs"] == "python"
    )


def test_the_table_is_true():
    text = (ROOT / "docs" / "apps.md").read_text().partition("Which operators run")[2]
    rows = re.findall(
        r"^\| ([a-z_.]+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE
    )

    assert count_all() == {name: tuple(map(int, row)) for name, *row in rows}


APPS = ("vwap", "nexmark", "nexmark_clock", "lois", "linear_road")


@pytest.mark.long
@pytest.mark.parametrize(
    "on", ["local", pytest.param("spark", marks=pytest.mark.spark)]
)
@pytest.mark.parametrize("name", APPS)
def test_what_is_said_to_run_in_columns_does(name, on, monkeypatch, tmp_path):
    monkeypatch.setenv("ANABRANCH_COMPILE", "at once")
    monkeypatch.setenv("ANABRANCH_DATA", str(tmp_path / "no real data"))
    monkeypatch.setattr(ProgramSegments, "fewest", 1)
    monkeypatch.setattr(ColumnPart, "fewest", 1)
    app = load_app(name)

    one, two = app.program(), app.program()
    ab.run(*one, on="sequential")
    job = ab.run(*two, on=on)

    for expected, actual in zip(one, two, strict=True):
        assert list(map(repr, expected.items)) == list(map(repr, actual.items))
    shares = job.metrics().in_columns
    planned = {op.name for op in job.plan.operators if op.runs == "columns"}
    assert planned >= set(shares)
    assert 0.8 * len(planned) <= sum(share > 0.5 for share in shares.values())


if __name__ == "__main__":
    for name, row in count_all().items():
        print(f"| {name} | {' | '.join(map(str, row))} |")  # noqa: T201 - a tool
    for reason, times in list_refusals().most_common():
        print(f"{times:4} {reason}")  # noqa: T201 - a tool
