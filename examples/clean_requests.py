"""Drop repeated requests, and say which team each one belongs to.

A client that gets no answer sends its request again under the same id. The first one
counts. Which ids were seen is kept per host, so that hosts are cleaned in parallel.

    anabranch run examples/clean_requests.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab

DATA = Path(__file__).parent / "data" / "requests.jsonl"
TEAMS = {"cart": "checkout", "item": "catalogue", "login": "accounts"}


class Request(NamedTuple):
    """A line of the log of a web server."""

    id: str
    host: str
    path: str
    status: int


class Owned(NamedTuple):
    """A request with the team that answers for it."""

    id: str
    host: str
    path: str
    status: int
    team: str


class First(ab.Operator):
    """Passes on the first request of each id."""

    def setup(self) -> None:
        """Begin with no request seen."""
        self.seen: set[str] = set()

    def process(self, request: Request) -> Iterator[Request]:
        """Yield a request if its id is new."""
        if request.id not in self.seen:
            self.seen.add(request.id)
            yield request


def add_team(request: Request) -> Owned:
    """Look the team up by the first part of the path."""
    part = request.path.strip("/").partition("/")[0]
    return Owned(*request, team=TEAMS.get(part, "front"))


def clean(requests: ab.Stream) -> ab.Stream:
    """Return each request once, with its team."""
    return requests.key_by("host").apply(First, name="first").map(add_team)


program = clean(ab.read_jsonl(DATA, Request)).write_jsonl("requests.jsonl")
