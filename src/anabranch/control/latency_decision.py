"""What a latency policy decides, and what it may decide about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Degrees = Mapping[str, int]  # region -> replicas


@dataclass(frozen=True)
class Room:
    """On so many cores, with so many stages that are not replicated.

    `replicas` is the most in all where the user has said so.
    """

    cores: int
    others: int = 2
    replicas: int | None = None

    @property
    def for_regulator(self) -> int:
        """The most replicas for the paper's regulator: cores minus the other stages.

        >>> Room(cores=12).for_regulator, Room(cores=2).for_regulator
        (10, 1)
        """
        return self.replicas or max(1, self.cores - self.others)

    def beside(self, busy: float) -> int:
        """Return the most replicas that fit beside others that keep cores busy.

        >>> Room(cores=4).beside(0.3), Room(cores=4).beside(0.8), Room(1).beside(0.4)
        (4, 3, 1)
        """
        return self.replicas or max(1, round(self.cores - busy))


@dataclass(frozen=True)
class Decision:
    """A change: what, why, and to how many replicas; on Spark how much to admit.

    One that `changes` nothing only has something to say.
    """

    what: str
    why: str
    degrees: Degrees = field(default_factory=dict)
    epoch_items: int | None = None

    @property
    def changes(self) -> bool:
        """Whether there is something to put into effect."""
        return bool(self.degrees) or self.epoch_items is not None


def in_words(degrees: Degrees) -> str:
    """Return degrees as text.

    >>> in_words({"r0": 2, "r1": 1})
    '2 replicas of r0, 1 replica of r1'
    """
    return ", ".join(
        f"{n} replica{'s' if n != 1 else ''} of {name}" for name, n in degrees.items()
    )


def ms(seconds: float) -> str:
    """Return a duration as text.

    >>> ms(0.0123), ms(12.0)
    ('12.3 ms', '12000 ms')
    """
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds * 1000:.0f} ms"
