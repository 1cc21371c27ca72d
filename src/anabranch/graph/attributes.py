"""The attributes of a tuple type, and what to say when one is not there."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def there_is(name: str, names: Iterable[str], noun: str = "attribute") -> str:
    """Return what there is instead of `name`, with the likeliest meant one first.

    >>> there_is("simbol", ["ts", "symbol"])
    "did you mean 'symbol'? The attributes are ts, symbol"
    >>> there_is("x", [], "column")
    'there are no columns'
    """
    known = list(names)
    if not known:
        return f"there are no {noun}s"
    listed = f"he {noun}s are {', '.join(known)}"
    close = _closest(name, known)
    return f"t{listed}" if close is None else f"did you mean {close!r}? T{listed}"


def _closest(name: str, known: list[str]) -> str | None:
    lowered = {other.lower().strip(): other for other in reversed(known)}
    close = difflib.get_close_matches(name.lower().strip(), lowered, n=1)
    return lowered[close[0]] if close else None
