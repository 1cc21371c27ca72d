"""Five tweets running by one author with the same tags, and authors who hold the floor.

`program` finds whoever uses the very same tags in five of their own tweets running; the
tweets of others may lie between. Authors are apart, so this runs in parallel by author.
`event_patterns.py:in_a_row` finds whoever writes five or more tweets running with nobody
between; that depends on the order of all tweets, so it is for one worker. The first is
the pattern of the complex event processing kernel of the paper on safe data parallelism.

It reads tweets to airlines from the folder `tweets` of the real data, and generated
ones where there is none.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab
from text_features import Tweet, hashtags, input_file

FIVE = 5


class Tagged(NamedTuple):
    """What the patterns look at."""

    ts_ms: int
    name: str
    tags: str


class Match(NamedTuple):
    """Five or more tweets of an author."""

    name: str
    tweets: int
    first_ms: int
    last_ms: int
    tags: str


def parse(tweet: Tweet) -> Tagged:
    """Return a tweet with its tags in one form, whatever their order and case."""
    tags = {tag.lower() for tag in hashtags(tweet.text)}
    return Tagged(tweet.ts_ms, tweet.name, " ".join(sorted(tags)))


def five_alike(tweets: list[Tagged]) -> Match:
    """Return the last tweets of an author; with 0 tweets if they are no match."""
    first, last = tweets[0], tweets[-1]
    alike = len(tweets) == FIVE and all(one.tags == last.tags != "" for one in tweets)
    return Match(last.name, FIVE if alike else 0, first.ts_ms, last.ts_ms, last.tags)


class InARow(ab.Operator):
    """Holds the tweets of an author until another one writes."""

    def setup(self) -> None:
        """Start without a tweet."""
        self.running: list[Tagged] = []

    def process(self, tweet: Tagged) -> Iterator[Match]:
        """Add a tweet; if it is by another author, yield what was long enough."""
        if self.running and self.running[-1].name != tweet.name:
            yield from self.finish()
            self.running = []
        self.running.append(tweet)

    def finish(self) -> Iterator[Match]:
        """Yield what is long enough at the end."""
        if len(self.running) >= FIVE:
            first, last = self.running[0], self.running[-1]
            yield Match(
                last.name, len(self.running), first.ts_ms, last.ts_ms, last.tags
            )


def program(tweets: Path | None = None) -> ab.Result:
    """Return a match for every tweet that is the fifth alike of its author."""
    by_author = tagged(tweets).key_by("name")
    ends = by_author.window(count=FIVE, every=1).aggregate(five_alike, name="match")
    return ends.filter(lambda match: match.tweets > 0, name="matched").to_list(
        name="matches"
    )


def in_a_row(tweets: Path | None = None) -> ab.Result:
    """Return a match for every five or more tweets running by one author."""
    return tagged(tweets).apply(InARow, name="in_a_row").to_list(name="matches")


def tagged(tweets: Path | None) -> ab.Stream:
    """Return the tweets with their tags."""
    read = ab.read_csv(str(tweets or input_file()), Tweet, name="tweets")
    return read.map(parse, name="parse")
