"""Patterns over tweets against a look at the whole list of them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from itertools import groupby

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app


@pytest.fixture(scope="module")
def event_patterns():
    return load_app("event_patterns")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return load_app("text_features").sample_file(tmp_path_factory.mktemp("sample"))


def matches(sink, on="sequential"):
    ab.run(sink, on=on)
    return [(match.name, match.last_ms, match.tweets) for match in sink.items]


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def five_alike(rows):
    """
    Author by author; then sorted back into the order of all tweets.
    """
    found = []
    for name in {row["name"] for row in rows}:
        own = [place for place, row in enumerate(rows) if row["name"] == name]
        texts = [rows[place]["text"].lower() for place in own]
        tags = [frozenset(re.findall(r"(?<!\w)#(\w+)", text)) for text in texts]
        ends = range(4, len(own))
        same = [end for end in ends if len({*tags[end - 4 : end + 1]}) == 1]
        found += [(own[end], name, 5) for end in same if tags[end]]
    return [(name, int(rows[place]["ts_ms"]), n) for place, name, n in sorted(found)]


@pytest.mark.parametrize("on", ENGINES)
def test_five_alike_in_the_sample_are_those_by_author(event_patterns, sample, on):
    wanted = five_alike(rows_of(sample))

    assert wanted
    assert wanted == matches(event_patterns.program(sample), on)


def test_tweets_in_a_row_are_those_of_groupby(event_patterns, sample, tmp_path):
    rows = [row for row in rows_of(sample) if row["name"] in ("user1", "user2")]
    few = tmp_path / "few.csv"
    with few.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)

    runs = [(name, list(run)) for name, run in groupby(rows, lambda row: row["name"])]
    wanted = [(n, int(r[-1]["ts_ms"]), len(r)) for n, r in runs if len(r) >= 5]
    assert wanted
    assert wanted == matches(event_patterns.in_a_row(few))


def test_real_authors_with_five_in_a_row_are_the_known_two(event_patterns, data):
    sink = event_patterns.in_a_row(data / "tweets" / "airline_stream.csv")

    found = [(name, tweets) for name, _, tweets in matches(sink)]

    assert [("kaitlynrosati", 5), ("rossj987", 6)] == found


@pytest.mark.long
def test_real_authors_with_five_alike_are_those_by_author(event_patterns, data):
    path = data / "tweets" / "airline_stream.csv"
    rows = rows_of(path)
    often = {
        name for name, times in Counter(r["name"] for r in rows).items() if times > 4
    }

    wanted = five_alike([row for row in rows if row["name"] in often])

    assert {"livvyports16", "daknadler"} == {name for name, _, _ in wanted}
    assert wanted == matches(event_patterns.program(path))
