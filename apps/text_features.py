"""Words, tags and mentions of tweets, with their lengths and how often each is used.

A tweet gives a feature for everything in it: one operator without state, whose number
of outputs nobody knows beforehand. This is the kernel with the natural language engine
of the paper on safe data parallelism. Tags and mentions are found by Twitter's rules in
all scripts, which its own conformance cases check; what is left of the text, without
addresses of pages, is words.

It reads tweets to airlines from the folder `tweets` of the real data, and generated
ones where there is none.
"""

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from samples import SAMPLES, csv_sample, real_file

# Letters of many scripts take marks, which are no part of \w; tags take both. Unicode has
# marks in planes 0, 1 and 14; to look at all planes would take eight times as long.
MARKS = "".join(
    char
    for char in map(chr, (*range(0x20000), *range(0xE0000, 0xE1000)))
    if unicodedata.category(char).startswith("M")
)
JOINERS = (
    "\u200c\u200d\ua67e\u05be\u05f3\u05f4\uff5e\u301c\u309b\u309c\u30a0\u30fb\u3003"
    "\u0f0b\u0f0c\u00b7"
)
INSIDE = rf"[\w{MARKS}{JOINERS}]"
TAG = re.compile(
    rf"(?<![\w&/])[#\uff03](?![\ufe0f\u20e3])(?={INSIDE}*[^\W\d_])({INSIDE}++)"
    r"(?![#\uff03]|://)"
)
MENTION = re.compile(
    r"(?:(?<![\w!#$%&*@\uff20])|(?<=\brt))[@\uff20]([a-z0-9_]{1,20})"
    r"(?![@\uff20a-z0-9_\u00c0-\u024f]|://)",
    re.ASCII | re.IGNORECASE,
)
PAGE = re.compile(r"https?://\S+")
WORD = re.compile(rf"[^\W\d_](?:[\w{MARKS}'\u2019]*[\w{MARKS}])?")


class Tweet(NamedTuple):
    """One tweet; the attributes have the names of the columns of the file."""

    ts_ms: int
    tweet_id: int
    name: str
    text: str


class Feature(NamedTuple):
    """Something in a tweet."""

    tweet_id: int
    kind: str
    text: str
    length: int
    times: int


def hashtags(text: str) -> list[str]:
    """Return the tags of a text without their signs, in order."""
    return TAG.findall(text)


def mentions(text: str) -> list[str]:
    """Return the names that a text mentions, in order."""
    return MENTION.findall(text)


def words(text: str) -> list[str]:
    """Return the words of a text that are neither tags nor mentions nor pages."""
    for pattern in (PAGE, TAG, MENTION):
        text = pattern.sub(" ", text)
    return WORD.findall(text)


def features(tweet: Tweet) -> Iterator[Feature]:
    """Yield everything in a tweet once, in the order in which it is first used."""
    found = [("tag", tag) for tag in hashtags(tweet.text)]
    found += [("mention", name) for name in mentions(tweet.text)]
    found += [("word", word) for word in words(tweet.text)]
    lowered = Counter((kind, text.lower()) for kind, text in found)
    for (kind, text), times in lowered.items():
        yield Feature(tweet.tweet_id, kind, text, len(text), times)


def program(tweets: Path | None = None) -> ab.Result:
    """Return the features of all tweets."""
    read = ab.read_csv(str(tweets or input_file()), Tweet, name="tweets")
    return read.flat_map(features, name="features").to_list(name="found")


def input_file() -> Path:
    """Return the tweets, real ones where they are at hand."""
    return real_file("tweets", "airline_stream.csv") or sample_file()


def sample_file(folder: Path = SAMPLES, tweets: int = 1200, seed: int = 21) -> Path:
    """Write tweets of eight people, who at times say the same for a while."""
    chance = random.Random(seed)
    said = ["the", "plane", "is", "late", "it's", "cold,", "don't", "café", "42", "a"]
    tags = {number: ["#late"] for number in range(8)}
    rows = []
    for number in range(tweets):
        author = chance.randrange(8)
        if chance.random() < 0.3:
            tags[author] = chance.choices(["#late", "#Lost", "#fail2"], k=author % 3)
        text = chance.choices(said, k=chance.randrange(3, 12)) + tags[author]
        chance.shuffle(text)
        text.append(chance.choice(["", "@AirAny!", "http://t.co/x#y", "a@b", "RT@me"]))
        row = (1_424_000_000_000 + number * 1000, 9000 + number, f"user{author}")
        rows.append((*row, " ".join(text)))
    return csv_sample("tweets.csv", Tweet._fields, rows, folder)
