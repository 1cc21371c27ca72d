"""The table of what runs in columns says what the plans of the golden set say."""

import json
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def count_operators(text):
    """Return how many operators of a record compute, and how many do so in columns."""
    section, found = "", Counter()
    for line in text.splitlines():
        if line.startswith("== "):
            section = line.removeprefix("== ")
        elif section.startswith("plan on") and line.startswith("operators: "):
            operator = json.loads(line.removeprefix("operators: "))
            if operator["why"]:
                found[section] += 1
                found[section, operator["runs"]] += 1
    columns = [found[f"plan on {on}", "columns"] for on in ("spark", "local")]
    return (found["plan on spark"], *columns)


def test_the_table_is_true():
    records = (ROOT / "tests" / "golden" / "apps").glob("*.txt")
    counts = {
        p.stem.removesuffix(".program"): count_operators(p.read_text()) for p in records
    }
    counts = {name: found for name, found in counts.items() if found[0]}
    counts["all"] = tuple(map(sum, zip(*counts.values(), strict=True)))
    text = (ROOT / "docs" / "apps.md").read_text().partition("Which operators run")[2]
    rows = re.findall(
        r"^\| ([a-z_.]+) \| (\d+) \| (\d+) \| (\d+) \|$", text, re.MULTILINE
    )

    assert counts == {name: tuple(map(int, row)) for name, *row in rows}
    assert counts["all"][1] > 0
