"""The attributes of a tuple type, and what to say when one is not there."""

from __future__ import annotations

import difflib
import numbers
import types
import typing
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from anabranch.graph.types import SCALARS, fields_of


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


def lacks(tuple_type: Any, name: str) -> bool:
    """Tell whether items of a type have no such attribute; False if nobody knows.

    >>> lacks(int, "symbol"), lacks(int, "real"), lacks(None, "symbol")
    (True, False, False)
    """
    first, _, rest = name.partition(".")
    fields = fields_of(tuple_type)
    if fields is None:
        return tuple_type in SCALARS and not hasattr(tuple_type, first)
    if first in fields:
        return rest != "" and lacks(fields[first], rest)
    return not hasattr(tuple_type, first)  # a property serves as well


def attribute_type(tuple_type: Any, name: str) -> Any | None:
    """Return the type of an attribute; None if nobody knows it."""
    first, _, rest = name.partition(".")
    found = (fields_of(tuple_type) or {}).get(first)
    if rest:
        return attribute_type(found, rest)
    return None if found is Any else found


def is_number(attribute: Any) -> bool:
    """Tell whether values of a type are numbers; True if nobody knows.

    >>> is_number(float | None), is_number(str), is_number(None)
    (True, False, True)
    """
    members = _members(attribute)
    if members is None:
        return True
    return any(issubclass(member, numbers.Number) for member in members)


def may_be(given: Any, needed: Any) -> bool:
    """Tell whether a value of type `given` may serve where `needed` is asked for.

    True if nobody knows. An int serves as a float; of a union one member is enough.

    >>> may_be(int, float), may_be(str, int), may_be(int | None, int)
    (True, False, True)
    """
    some, wanted = _members(given), _members(needed)
    if some is None or wanted is None:
        return True
    return any(_serves(one, two) for one in some for two in wanted)


def _serves(given: type, needed: type) -> bool:
    if issubclass(given, numbers.Number) and issubclass(needed, numbers.Number):
        return True
    try:
        return issubclass(given, needed) or issubclass(needed, given)
    except TypeError:  # a protocol that does not let itself be asked
        return True


def _members(annotation: Any) -> list[type] | None:
    """Return the classes of a type or union; None if it is not made of classes."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [_members(part) for part in get_args(annotation)]
        if any(part is None for part in parts):
            return None
        return [member for part in parts for member in part or ()]
    known = get_origin(annotation) or annotation
    if not isinstance(known, type) or known in (object, Any):
        return None
    return [known]
