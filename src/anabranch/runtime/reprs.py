"""Values in messages. Showing a value never fails, whatever its `repr` does."""

from __future__ import annotations

import reprlib
from typing import Any

_MOST_BITS = 1 << 11  # of an int: Python refuses to show the digits of a very long one


def show(value: Any) -> str:
    """Return the `repr` of a value, or what it is if it has none.

    >>> show("a"), show(1 << 100_000)
    ("'a'", '<int of 100001 bits>')
    """
    try:
        return repr(value)
    except Exception as error:  # noqa: BLE001 - it may be the user's code
        return _describe(value, error)


def shorten(value: Any) -> str:
    """Return the beginning of the `repr` of a value.

    >>> shorten(range(9)), shorten([1 << 100_000])
    ('range(0, 9)', '[<int of 100001 bits>]')
    """
    return _short.repr(value)


def _describe(value: Any, error: Exception) -> str:
    if isinstance(value, int):
        return f"<int of {value.bit_length()} bits>"
    return f"<{type(value).__name__} without a repr: {type(error).__name__}>"


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > _MOST_BITS:
            return _describe(x, ValueError())
        return super().repr_int(x, level)


_short = _Short()
_short.maxstring = _short.maxother = 200
_short.maxtuple = _short.maxlist = 20
