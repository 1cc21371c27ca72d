"""When a cache gives the same result in every process.

`lru_cache` takes arguments for the same that are equal, although they may not be alike:
1, 1.0 and True, 0.0 and -0.0. Which one was computed depends on what came first. And what
is in a cache is shared by all calls: an iterator there is used up by the first.
"""

from __future__ import annotations

import datetime as dt
import enum
import re
import uuid
from collections.abc import Iterable
from typing import Any, Final

from anabranch.graph.types import fields_of
from anabranch.python.classes import classes_of
from anabranch.python.objects import class_attribute, is_users_class
from anabranch.python.universe import Universe
from anabranch.python.values import (
    Bound,
    Closure,
    Fresh,
    Input,
    Method,
    Plain,
    Root,
    Scalar,
    Value,
)

_ALIKE: Final = (
    str,
    bytes,
    int,
    type(None),
    dt.date,
    dt.timedelta,
    uuid.UUID,
    re.Pattern,
)
_ANY_TYPE = "its argument may be of any type; annotate it"


def why_not_alike(root: Root, universe: Universe) -> str | None:
    """Return why equal arguments of a cached function may differ, or None.

    >>> from anabranch.python.universe import Universe
    >>> why_not_alike(Plain(str), Universe([])) is None
    True
    >>> why_not_alike(Plain(float), Universe([]))
    'floats may be equal and not alike, as 0.0 and -0.0'
    """
    match root:
        case Bound() | Method() | Closure():
            return None
        case Fresh(_, kind) if kind is tuple:
            return None  # its parts are looked at
        case Plain(kind):
            classes: Iterable[type] | None = [Scalar if kind is None else kind]
        case _:
            classes = classes_of(root, universe)
    if classes is None:
        return _ANY_TYPE
    return next(filter(None, map(_why_not_alike, classes)), None)


def _why_not_alike(kind: Any) -> str | None:
    if kind is Scalar:
        return _ANY_TYPE
    if not isinstance(kind, type) or kind in _ALIKE or _is_told_apart(kind):
        return None
    if is_users_class(kind) and not issubclass(kind, int | str | float):
        return _why_not_alike_record(kind)
    example = ", as 0.0 and -0.0" if kind is float else ""
    return f"{kind.__name__}s may be equal and not alike{example}"


def _is_told_apart(kind: type) -> bool:
    """Tell whether equal objects of a type are one, or cannot be arguments."""
    if kind.__hash__ is None or class_attribute(kind, "__eq__") is object.__eq__:
        return True
    if kind in (tuple, frozenset):
        return True  # their parts are looked at
    is_member = issubclass(kind, enum.Enum) and not issubclass(kind, int | str)
    return is_member or issubclass(kind, type)


def _why_not_alike_record(cls: type) -> str | None:
    fields = fields_of(cls)
    code = getattr(class_attribute(cls, "__eq__"), "__code__", None)
    written = code is not None and not code.co_filename.startswith("<")
    if fields is None or written:
        return f"{cls.__name__}s may be equal and not alike"
    return next(filter(None, map(_why_not_alike, fields.values())), None)


def used_up(value: Value) -> bool:
    """Tell whether a value may be an iterator, which gives its elements only once."""
    kinds = (root.type for root in value if isinstance(root, Fresh | Input))
    return any(isinstance(each, type) and hasattr(each, "__next__") for each in kinds)
