"""Of which classes a value may be, and what its annotation says about its parts."""

from __future__ import annotations

import collections
import enum
import inspect
import types
import typing
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from anabranch.analysis.objects import (
    is_instance_of_users,
    is_scalar_type,
    is_users_class,
    runs_code,
)
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import Fresh, Input, Known, Plain, Root, Shared
from anabranch.graph.types import fields_of

_UNIONS = (typing.Union, types.UnionType)
_HOMOGENEOUS = (
    *(list, set, frozenset, tuple, collections.deque, collections.abc.Sequence),
    *(collections.abc.Iterable, collections.abc.Iterator, collections.abc.Collection),
)
_MAPPINGS = (dict, collections.abc.Mapping, collections.defaultdict)


def class_of(root: Root) -> type | None:
    """Return the class of the user's that a value is an instance of, if it is known."""
    match root:
        case Fresh(_, kind) | Input(kind):
            return kind if is_users_class(kind) else None
        case Known(obj=obj) if is_instance_of_users(obj):
            return type(obj)
    return None


def classes_of(  # noqa: PLR0911 - one return for each kind
    root: Root, universe: Universe
) -> frozenset[type] | None:
    """Return every class that a value may be an instance of; None if any is possible.

    An annotation allows for subclasses, which the user may have written.
    """
    match root:
        case Fresh(_, kind) if not is_users_class(kind):
            return frozenset([kind]) if isinstance(kind, type) else None
        case Fresh(_, kind):  # `_replace` gives what the class of the item is
            return _with_subclasses(kind, universe)
        case Input(kind):
            return _annotated_classes(kind, universe)
        case Known(obj=obj):
            return frozenset([type(obj)])
        case Shared():
            return None
        case Plain(kind) if is_users_class(kind):
            return frozenset([kind])  # type: ignore[list-item]
    return frozenset()


def _annotated_classes(kind: Any, universe: Universe) -> frozenset[type] | None:
    origin = get_origin(kind) or kind
    if origin in _UNIONS:
        found = [_annotated_classes(each, universe) for each in get_args(kind)]
        if any(each is None for each in found):
            return None
        return frozenset().union(*(each or frozenset() for each in found))
    if not isinstance(origin, type) or origin is object or _is_abstract(origin):
        return None
    return _with_subclasses(origin, universe)


def _is_abstract(cls: type) -> bool:
    is_protocol = getattr(cls, "_is_protocol", False)
    in_library = cls.__module__ in ("collections.abc", "typing", "numbers")
    return is_protocol or in_library or inspect.isabstract(cls)


def _with_subclasses(cls: type, universe: Universe) -> frozenset[type]:
    return frozenset([cls, *universe.subclasses_of(cls)])


def member_of(cls: type) -> Root:
    """Return some member of an enum; one with methods is not changed either."""
    return Input(cls) if runs_code(cls) else Plain(cls)


def typed(kind: Any) -> Root:
    """Return the part of an input that has an annotation."""
    if is_scalar_type(kind):
        return Plain(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return member_of(kind)
    if getattr(kind, "_is_protocol", False):  # says what there is, not what it does
        return Input()
    if get_origin(kind) in _UNIONS and all(map(is_scalar_type, get_args(kind))):
        return Plain()
    return Input(kind)


def parts_of_annotation(kind: Any, universe: Universe) -> Iterable[Root]:
    """Return what can be reached in one step from an input with this annotation.

    >>> sorted(map(str, parts_of_annotation(dict[str, int], Universe([]))))
    ["Plain(type=<class 'int'>)", "Plain(type=<class 'str'>)"]
    """
    origin = get_origin(kind)
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    if args and (origin in _UNIONS or origin in (*_HOMOGENEOUS, *_MAPPINGS)):
        return [typed(arg) for arg in args]
    found: list[Root] = []
    for cls in _annotated_classes(kind, universe) or [None]:
        fields = fields_of(cls)
        if fields is None:
            return [Input()]
        found.extend(map(typed, fields.values()))
    return found
