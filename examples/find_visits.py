"""Put the clicks of each user together into visits.

A visit ends when its user has been quiet for half an hour. Clicks arrive up to three
minutes late; the clock of the stream waits for them, and closes visits of users who never
come back.

    anabranch run examples/find_visits.py
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import anabranch as ab

DATA = Path(__file__).parent / "data" / "clicks.jsonl"


class Click(NamedTuple):
    """A line of the log of a web shop."""

    at: datetime
    user: str
    page: str


class Visit(NamedTuple):
    """What one user did without a longer pause."""

    user: str
    began: datetime
    minutes: float
    pages: int
    paid: bool


def summarise(clicks: list[Click]) -> Visit:
    """Return a visit from its clicks, which come in the order of arrival."""
    began = min(click.at for click in clicks)
    ended = max(click.at for click in clicks)
    paid = any(click.page == "/pay" for click in clicks)
    minutes = (ended - began).total_seconds() / 60
    return Visit(clicks[0].user, began, minutes, len(clicks), paid)


def find_visits(clicks: ab.Stream) -> ab.Stream:
    """Return the visits, in the order in which they end."""
    timed = clicks.event_time("at", lateness="3 min", late="error")
    sessions = timed.key_by("user").window(gap="30 min")
    return sessions.aggregate(summarise, name="visit")


program = find_visits(ab.read_jsonl(DATA, Click)).write_jsonl("visits.jsonl")
