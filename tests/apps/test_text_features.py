"""Features of tweets against Twitter's conformance cases and a walk over characters."""

from __future__ import annotations

import ast
import csv
import re
from collections import Counter

import pytest

import anabranch as ab
from tests.apps.loading import ENGINES, load_app

LINES = re.DOTALL | re.MULTILINE


@pytest.fixture(scope="module")
def text_features():
    return load_app("text_features")


@pytest.fixture(scope="module")
def sample(text_features, tmp_path_factory):
    return text_features.sample_file(tmp_path_factory.mktemp("sample"))


def expected(text):
    """
    By white space: in the sample every tag, mention and page is a piece of its own.
    """
    for piece in text.lower().split():
        if piece.startswith("http") or piece == "42":
            continue
        if piece.startswith("#"):
            yield "tag", piece[1:]
        elif piece in ("@airany!", "rt@me"):
            yield "mention", piece.strip("!").partition("@")[2]
            if piece == "rt@me":
                yield "word", "rt"
        elif piece == "a@b":
            yield from (("word", "a"), ("word", "b"))
        else:
            yield "word", piece.strip(",")


@pytest.mark.parametrize("on", ENGINES)
def test_features_of_the_sample_are_those_of_its_pieces(text_features, sample, on):
    rows = list(csv.DictReader(sample.read_text().splitlines()))
    sink = text_features.program(sample)

    ab.run(sink, on=on)

    wanted = {
        (int(row["tweet_id"]), kind, text, len(text), times)
        for row in rows
        for (kind, text), times in Counter(expected(row["text"])).items()
    }
    assert wanted == set(map(tuple, sink.items))
    assert len(wanted) == len(sink.items)
    assert sorted(f.tweet_id for f in sink.items) == [f.tweet_id for f in sink.items]


def cases(path, section):
    """
    Yield (text, expected) of a section of the YAML file, whose values are one-liners.
    """
    text = path.read_text(encoding="utf-8")
    body = re.search(rf"^  {section}:\n(.*?)(?=^  \w+:\n|\Z)", text, LINES)
    for case in re.split(r"^    - description:", body[1], flags=LINES)[1:]:
        given = re.search(r"^      text: ([^\n]*?)\s*$", case, LINES)[1]
        wanted = re.search(r"^      expected: (\[.*?\])\s*$", case, LINES)[1]
        quoted = given[1:-1].replace("''", "'") if given[0] == "'" else None
        yield quoted or ast.literal_eval(given), ast.literal_eval(wanted)


@pytest.mark.parametrize(
    ("section", "function", "number"),
    [
        ("hashtags", "hashtags", 65),
        ("hashtags_from_astral", "hashtags", 3),
        ("mentions", "mentions", 23),
    ],
)
def test_tags_and_mentions_conform(text_features, data, section, function, number):
    extract = getattr(text_features, function)
    found = list(cases(data / "tweets" / "twitter_text_extract.yml", section))

    assert number == len(found)
    assert [wanted for _, wanted in found] == [extract(text) for text, _ in found]
