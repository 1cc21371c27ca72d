"""Types of rows that several tests of reading use."""

from dataclasses import dataclass
from typing import NamedTuple


class Trade(NamedTuple):
    symbol: str
    price: float
    volume: int


@dataclass(frozen=True)
class Point:
    """
    A constructor of the user's that refuses some values.
    """

    x: int
    y: int = 0

    def __post_init__(self):
        if self.x < 0:
            msg = "x is negative"
            raise ValueError(msg)
