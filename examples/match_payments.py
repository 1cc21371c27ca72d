"""Match orders with their payments, and tell which ones differ.

Orders and payments come from two systems, each in the order of its own time. Merged by
time they are one stream; what is known of an order is kept per order until it is paid.

    anabranch run examples/match_payments.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import anabranch as ab

DATA = Path(__file__).parent / "data"


class Order(NamedTuple):
    """Somebody owes money."""

    ts: int
    order: str
    cents: int


class Payment(NamedTuple):
    """Somebody has paid."""

    ts: int
    order: str
    cents: int


class Event(NamedTuple):
    """Either of them, in one stream."""

    ts: int
    order: str
    owed: int
    paid: int


class Settled(NamedTuple):
    """An order that was paid: how long it took, and what is missing."""

    order: str
    seconds: int
    missing: int


class Match(ab.Operator):
    """Waits for the payment of one order; at the end, tells that it never came."""

    def setup(self) -> None:
        """Begin without an order."""
        self.order: Event | None = None

    def process(self, event: Event) -> Iterator[Settled]:
        """Keep the order; compare the payment with it."""
        if event.owed:
            self.order = event
        elif self.order is not None:
            seconds, missing = event.ts - self.order.ts, self.order.owed - event.paid
            yield Settled(event.order, seconds, missing)
            self.order = None

    def finish(self) -> Iterator[Settled]:
        """Tell that nobody has paid."""
        if self.order is not None:
            yield Settled(self.order.order, -1, self.order.owed)


def match(orders: ab.Stream, payments: ab.Stream) -> ab.Stream:
    """Return what became of each order."""
    owed = orders.map(lambda o: Event(o.ts, o.order, o.cents, 0), name="owed")
    paid = payments.map(lambda p: Event(p.ts, p.order, 0, p.cents), name="paid")
    return ab.merge(owed, paid, by="ts").key_by("order").apply(Match, name="match")


program = match(
    ab.read_csv(DATA / "orders.csv", Order), ab.read_csv(DATA / "payments.csv", Payment)
).write_csv("settled.csv")
