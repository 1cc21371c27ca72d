"""Tuple types: the attributes of an item, and their types.

A tuple type is a `typing.NamedTuple`, a frozen dataclass or a scalar. If an annotation
gives the type of a stream, attributes can be checked before the program runs and tuples
are sent as Arrow columns; if nothing is known the type is `None`.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import inspect
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, get_args, get_origin, get_type_hints
from weakref import WeakKeyDictionary

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
    return _resolve_fields(tuple_type)


def members_of(typed_dict: Any) -> Mapping[str, Any] | None:
    """Return the members of a `TypedDict` with their types; None for other types.

    >>> members_of(typing.TypedDict("Point", {"x": int}))
    {'x': <class 'int'>}
    """
    if not typing.is_typeddict(typed_dict):
        return None
    if typed_dict in _remembered:
        return _remembered[typed_dict]
    try:
        return get_type_hints(typed_dict)
    except (NameError, TypeError):  # an unresolvable annotation
        return dict(typed_dict.__annotations__)


def remember_fields(tuple_type: type, fields: Mapping[str, Any]) -> None:
    """Make `fields_of`, or `members_of`, return these attributes for a type.

    A process that received a class from another one cannot resolve its textual
    annotations: it does not have the module.
    """
    _remembered[tuple_type] = fields
    _resolve_fields.cache_clear()


_remembered: WeakKeyDictionary[type, Mapping[str, Any]] = WeakKeyDictionary()


@lru_cache(maxsize=1024)
def _resolve_fields(tuple_type: type) -> Mapping[str, Any]:
    if tuple_type in _remembered:
        return _remembered[tuple_type]
    try:
        hints = get_type_hints(tuple_type)
    except (NameError, TypeError):  # an unresolvable annotation
        hints = dict(getattr(tuple_type, "__annotations__", {}))
    if dataclasses.is_dataclass(tuple_type):
        names = [f.name for f in dataclasses.fields(tuple_type)]
    else:
        names = list(tuple_type._fields)  # type: ignore[attr-defined]
    return {name: hints.get(name, Any) for name in names}


def constructor_fields(tuple_type: Any) -> Mapping[str, Any]:
    """Return the attributes of a tuple type that its constructor takes.

    >>> @dataclasses.dataclass
    ... class Order:
    ...     price: float
    ...     band: int = dataclasses.field(init=False)
    >>> constructor_fields(Order)
    {'price': <class 'float'>}
    """
    fields = dict(fields_of(tuple_type) or {})
    if not dataclasses.is_dataclass(tuple_type):
        return fields
    taken = (field.name for field in dataclasses.fields(tuple_type) if field.init)
    return {name: fields[name] for name in taken}


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
    """Return a type as written in messages.

    >>> type_name(int), type_name(None)
    ('int', 'unknown')
    """
    if tuple_type is None:
        return "unknown"
    if isinstance(tuple_type, type) and not get_args(tuple_type):
        return tuple_type.__name__
    return str(tuple_type).replace("typing.", "")


def find_return_type(function: Callable[..., Any]) -> Any | None:
    """Return the annotated return type of a function, or None."""
    return _find_usable(_hints(function).get("return"))


def find_return_element_type(function: Callable[..., Any]) -> Any | None:
    """Return T if `function` is annotated to return an iterable of T, or None."""
    returned = _hints(function).get("return")
    args = get_args(returned)
    if get_origin(returned) in _ITERABLES and args:
        return _find_usable(args[0])
    return None


def find_return_pair_type(function: Callable[..., Any]) -> Any | None:
    """Return T if `function` is annotated to return `tuple[state, T]`, or None."""
    returned = _hints(function).get("return")
    args = get_args(returned)
    if get_origin(returned) is tuple and len(args) == 2:  # noqa: PLR2004 - a pair
        return _find_usable(args[1])
    return None


def parameter_type(function: Callable[..., Any], index: int) -> Any | None:
    """Return the annotated type of a positional parameter, or None."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if index >= len(parameters):
        return None
    return _find_usable(_hints(function).get(parameters[index].name))


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


def _find_usable(annotation: Any) -> Any | None:
    """Return a usable type: Any, a TypeVar or None say nothing."""
    if annotation in (None, Any, type(None), object) or isinstance(
        annotation, typing.TypeVar
    ):
        return None
    return annotation


def find_made_type(into: Any) -> Any:
    """Return the tuple type that `into` makes: itself, or its annotation."""
    if into is None:
        return None
    if isinstance(into, type):
        return into if fields_of(into) is not None else None
    return find_return_type(into)


_MOST, _LONGEST = 50, 80  # names, and characters of each, listed in an error


def there_is(name: str, names: Iterable[str], noun: str = "attribute") -> str:
    """Return the names there are instead of `name`, the likeliest first.

    >>> there_is("simbol", ["ts", "symbol"])
    "did you mean 'symbol'? The attributes are ts, symbol"
    >>> there_is("x", [], "column")
    'there are no columns'
    """
    known = list(names)
    if not known:
        return f"there are no {noun}s"
    listed = f"he {noun}s are {_list_names(known)}"
    close = _closest(name, known)
    return f"t{listed}" if close is None else f"did you mean {close!r}? T{listed}"


def _list_names(names: list[str]) -> str:
    r"""Return names as text that a terminal can show, whatever file they are from.

    >>> _list_names(["symbol", "PAR1\x15"])
    "symbol, 'PAR1\\x15'"
    """
    shown = [name if name.isprintable() else repr(name) for name in names[:_MOST]]
    more = [f"and {len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join([*(_cut(name) for name in shown), *more])


def _cut(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..."


def _closest(name: str, known: list[str]) -> str | None:
    lowered = {other.lower().strip(): other for other in reversed(known)}
    close = difflib.get_close_matches(name.lower().strip(), lowered, n=1)
    return lowered[close[0]] if close else None


def lacks(tuple_type: Any, name: str) -> bool:
    """Tell whether items of a type have no such attribute; False if unknown.

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
    """Return the type of an attribute; None if unknown."""
    first, _, rest = name.partition(".")
    found = (fields_of(tuple_type) or {}).get(first)
    if rest:
        return attribute_type(found, rest)
    return None if found is Any else found


def is_number(attribute: Any) -> bool:
    """Tell whether values of a type are numbers; True if unknown.

    >>> is_number(float | None), is_number(str), is_number(None)
    (True, False, True)
    """
    members = _members(attribute)
    if members is None:
        return True
    return any(issubclass(member, numbers.Number) for member in members)


def may_be(given: Any, needed: Any) -> bool:
    """Tell whether a value of type `given` may be used as `needed`.

    True if unknown. An int may be used as a float; for a union one member is enough.

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
    except TypeError:  # a protocol that does not support isinstance
        return True


def _members(annotation: Any) -> list[type] | None:
    """Return the classes of a type or union; None if it does not consist of classes."""
    if get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [_members(part) for part in get_args(annotation)]
        if any(part is None for part in parts):
            return None
        return [member for part in parts for member in part or ()]
    known = get_origin(annotation) or annotation
    if not isinstance(known, type) or known in (object, Any):
        return None
    return [known]
