"""The window punctuation: a mark that travels in a stream between its items."""

from __future__ import annotations

from enum import Enum


class Punctuation(Enum):
    """Marks in a stream that are not items."""

    WINDOW = "window"


WINDOW = Punctuation.WINDOW
