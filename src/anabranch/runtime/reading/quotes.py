"""Which bytes of a CSV file stand in quoted fields.

A double quote opens a quoted field only at the start of a field, and inside one a
doubled quote is a quote; anywhere else it is an ordinary character. These are the rules
of Python's `csv` module and of Arrow's reader.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Toggles: TypeAlias = NDArray[np.int64]  # offsets at which quoting begins or ends

_QUOTE, _NEWLINE = ord('"'), ord("\n")


def toggles_of(data: bytes, delimiter: str) -> Toggles:
    """Return where quoting begins and ends; `data` begins where a row begins.

    A byte is quoted if an odd number of toggles stand before it.

    >>> toggles_of(b'a,"b,c",d', ",").tolist()
    [2, 6]
    """
    if data.count(b"\r") == data.count(b"\r\n"):
        content = np.frombuffer(data, np.uint8)
        quotes = np.flatnonzero(content == _QUOTE)
        if _well_placed(content, quotes, ord(delimiter)):
            return quotes
    hidden = _hidden(delimiter.encode()).finditer(data)
    spans = [offset for m in hidden for offset in (m.start(), m.end() - 1)]
    return np.array(spans, np.int64)


def _well_placed(content: NDArray[np.uint8], quotes: Toggles, delimiter: int) -> bool:
    """Tell whether each quote toggles: every other one must stand where one may open.

    It may open at the start of a field, or right behind the one that closed: the two
    are a doubled quote then, and what follows is quoted still.
    """
    openers = quotes[::2]
    if openers.size and openers[0] == 0:
        openers = openers[1:]
    before = content[openers - 1]
    placed = (before == delimiter) | (before == _NEWLINE) | (before == _QUOTE)
    return bool(placed.all())


@lru_cache(maxsize=64)
def _hidden(delimiter: bytes) -> re.Pattern[bytes]:
    """Compile: a quoted field, at the start of a field; or what a stray return hides.

    `*+` takes all it can for good: without it an unclosed field that holds a doubled
    quote would match up to the first half of it. After a carriage return that ends no
    line the `csv` module gives up the rest of the line, quotes and all.
    """
    field = rb'"[^"]*+(?:""[^"]*+)*+"?'
    start = rb"(?:\A|(?<=[\n%s]))" % re.escape(delimiter)
    stray = rb"\r(?!\r*(?:\n|\Z))[^\n]*+"
    return re.compile(start + field + b"|" + stray)
