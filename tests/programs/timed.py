"""The functions and classes of generated programs that follow a clock."""

from __future__ import annotations

import anabranch as ab
from tests.programs.functions import PRIME, Event


def shake(e: Event) -> Event:
    """Put a stream out of order: an event is up to 12 earlier than it was."""
    return e._replace(ts=e.ts - e.value % 13)


def half(e: Event) -> int:
    """Give the key of an event: which half its value is in, whatever its zone."""
    return 0 if e.value < PRIME // 20 else 1


SHIFTS = {0: 5, 2: 11}  # by zone; there is none for 1


def shift_by(e: Event, shift: int) -> Event:
    return e._replace(value=(e.value + shift) % PRIME)


def jump(e: Event) -> Event:
    """Put a stream far out of order, now and then."""
    return e._replace(ts=e.ts - 50) if e.value % 11 == 0 else e


class Alarm(ab.Operator):
    """Counts events and says so five after each of them."""

    def setup(self):
        self.n = 0
        self.latest = None

    def process(self, e):
        self.n += 1
        self.latest = e
        self.wake_at(e.ts + 5)
        return [e] if self.n % 3 == 0 else []

    def on_time(self, time):
        yield self.latest._replace(ts=time, value=self.n % PRIME)


class Echoes(ab.Operator):
    """Wakes up again and again, at times that the clock has passed too."""

    def setup(self):
        self.rounds = 0
        self.latest = None

    def process(self, e):
        self.latest = e
        self.rounds = 2
        self.wake_at(e.ts - 20)
        self.wake_at(e.ts + 30, at_end=False)
        return []

    def on_time(self, time):
        if self.rounds:
            self.rounds -= 1
            self.wake_at(time + 8)
        yield self.latest._replace(ts=time, value=self.rounds)

    def finish(self):
        if self.latest is not None:
            yield self.latest
