"""Operators that refuse some items, for programs that go on without what failed."""

from __future__ import annotations

from collections.abc import Iterator

import anabranch as ab
from tests.programs.functions import Event, total


class RefusedError(Exception):
    """Raised by the functions below, on some items."""


def refuse(e: Event) -> None:
    if e.value % 11 == 3:
        raise RefusedError(e.value)


def fragile_map(e: Event) -> Event:
    refuse(e)
    return e._replace(value=e.value + 1)


def fragile_parts(e: Event) -> Iterator[Event]:
    yield e
    refuse(e)
    yield e._replace(zone=0)


def fragile_step(n: int, e: Event) -> tuple[int, Event]:
    refuse(e)
    return n + 1, e._replace(value=n)


def fragile_total(items: list[Event]) -> Event:
    refuse(items[-1])
    return total(items)


class Fragile(ab.Operator):
    """Counts the items that it refuses too."""

    def setup(self) -> None:
        self.n = 0

    def process(self, item: Event) -> Iterator[Event]:
        self.n += 1
        refuse(item)
        yield item._replace(value=self.n)
