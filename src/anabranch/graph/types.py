"""The types of tuples: what attributes an item has, and of what type.

A tuple type is a `typing.NamedTuple`, a frozen dataclass or a scalar. Where an
annotation gives the type of a stream, attributes can be checked before the program
runs and tuples travel as Arrow columns; where nothing is known the type is `None`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints

SCALARS: tuple[type, ...] = (bool, int, float, str, bytes)
_ITERABLES = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.Sequence,
    list,
    tuple,
    set,
    frozenset,
)


def fields_of(tuple_type: Any) -> Mapping[str, Any] | None:
    """Return the attributes of a tuple type with their types; None for other types.

    >>> class Trade(typing.NamedTuple):
    ...     symbol: str
    ...     price: float
    >>> fields_of(Trade)
    {'symbol': <class 'str'>, 'price': <class 'float'>}
    >>> fields_of(int) is None
    True
    """
    if not isinstance(tuple_type, type):
        return None
    if not (
        (issubclass(tuple_type, tuple) and hasattr(tuple_type, "_fields"))
        or dataclasses.is_dataclass(tuple_type)
    ):
        return None
    return _resolved_fields(tuple_type)


@lru_cache(maxsize=1024)
def _resolved_fields(tuple_type: type) -> Mapping[str, Any]:
    try:
        hints = get_type_hints(tuple_type)
    except (NameError, TypeError):  # an annotation that cannot be resolved here
        hints = dict(getattr(tuple_type, "__annotations__", {}))
    if dataclasses.is_dataclass(tuple_type):
        names = [f.name for f in dataclasses.fields(tuple_type)]
    else:
        names = list(tuple_type._fields)  # type: ignore[attr-defined]
    return {name: hints.get(name, Any) for name in names}


def why_not_tuple_type(tuple_type: Any) -> str | None:
    """Return why a type cannot be the type of a stream that is read, or None.

    >>> why_not_tuple_type(dict)
    'dict is neither a NamedTuple, a frozen dataclass nor a scalar'
    """
    if tuple_type in SCALARS or fields_of(tuple_type) is not None:
        params = getattr(tuple_type, "__dataclass_params__", None)
        if params is not None and not params.frozen:
            return f"dataclass {tuple_type.__name__} is not frozen"
        return None
    shown = getattr(tuple_type, "__name__", repr(tuple_type))
    return f"{shown} is neither a NamedTuple, a frozen dataclass nor a scalar"


def optional_of(attribute_type: Any) -> Any | None:
    """Return T for `T | None`, else None.

    >>> optional_of(int | None)
    <class 'int'>
    """
    if get_origin(attribute_type) in (typing.Union, types.UnionType):
        args = get_args(attribute_type)
        rest = [arg for arg in args if arg is not type(None)]
        if len(rest) == 1 and len(args) == 2:  # noqa: PLR2004 - T and None
            return rest[0]
    return None


def type_name(tuple_type: Any) -> str:
    """Return how a type is written in messages.

    >>> type_name(int), type_name(None)
    ('int', 'unknown')
    """
    if tuple_type is None:
        return "unknown"
    if isinstance(tuple_type, type) and not get_args(tuple_type):
        return tuple_type.__name__
    return str(tuple_type).replace("typing.", "")


def returned_type(function: Callable[..., Any]) -> Any | None:
    """Return the annotated type of what `function` returns, or None."""
    return _known(_hints(function).get("return"))


def returned_element_type(function: Callable[..., Any]) -> Any | None:
    """Return T where `function` is annotated to return an iterable of T, or None."""
    returned = _hints(function).get("return")
    args = get_args(returned)
    if get_origin(returned) in _ITERABLES and args:
        return _known(args[0])
    return None


def returned_pair_type(function: Callable[..., Any]) -> Any | None:
    """Return T where `function` is annotated to return `tuple[state, T]`, or None."""
    returned = _hints(function).get("return")
    args = get_args(returned)
    if get_origin(returned) is tuple and len(args) == 2:  # noqa: PLR2004 - a pair
        return _known(args[1])
    return None


def parameter_type(function: Callable[..., Any], index: int) -> Any | None:
    """Return the annotated type of a positional parameter, or None."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if index >= len(parameters):
        return None
    return _known(_hints(function).get(parameters[index].name))


def _hints(function: Any) -> Mapping[str, Any]:
    target = function
    while hasattr(target, "func"):  # functools.partial
        target = target.func
    if not isinstance(target, types.FunctionType | types.MethodType | type):
        call = getattr(type(target), "__call__", None)  # noqa: B004 - wants its hints
        target = target if call is None else call
    try:
        return get_type_hints(target)
    except (NameError, TypeError, AttributeError):
        return {}


def _known(annotation: Any) -> Any | None:
    """Return a usable type: what is Any, a TypeVar or None says nothing."""
    if annotation in (None, Any, type(None), object) or isinstance(
        annotation, typing.TypeVar
    ):
        return None
    return annotation


def made_by(into: Any) -> Any:
    """Return the tuple type that `into` makes: itself, or what it is annotated with."""
    if into is None:
        return None
    if isinstance(into, type):
        return into if fields_of(into) is not None else None
    return returned_type(into)
