"""What kind of thing an object is that exists before the operator runs.

Nothing of the user's is executed here: attributes are looked up statically, and of
containers only the builtin ones are looked into.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import operator
import os
import re
import sys
import sysconfig
import types
import uuid
from pathlib import Path
from typing import Any, Final

import numpy as np

_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_LIBRARIES = tuple(
    {
        os.path.realpath(path) + os.sep
        for name in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(name))
    }
)
MISSING: Final = object()
SCALARS: Final[tuple[type, ...]] = (
    *(bool, int, float, complex, str, bytes, type(None), type(Ellipsis)),
    *(range, slice, type(NotImplemented), re.Pattern, uuid.UUID),
    *(dt.date, dt.time, dt.timedelta, dt.tzinfo),
    *(decimal.Decimal, fractions.Fraction, np.generic, np.dtype),
)
CONTAINERS: Final[tuple[type, ...]] = (
    *(list, dict, set, tuple, frozenset, bytearray, collections.deque),
    *(types.MappingProxyType, np.ndarray),
)
CALLABLES: Final[tuple[type, ...]] = (
    *(types.FunctionType, types.BuiltinFunctionType, types.MethodType, type),
    *(types.MethodDescriptorType, types.WrapperDescriptorType, np.ufunc),
    *(types.MethodWrapperType, types.ClassMethodDescriptorType),
    *(functools.partial, operator.attrgetter, operator.itemgetter),
    *(operator.methodcaller, functools._lru_cache_wrapper),  # noqa: SLF001 - a type
    type(np.sum),  # how NumPy wraps its functions
)
_EXACT_SCALARS = frozenset(SCALARS) | {dt.datetime, dt.timezone}
_LARGEST_LOOKED_INTO = 256


def is_users_file(filename: str) -> bool:
    """Tell whether a file is the user's own: not of Python, a package, or us.

    >>> is_users_file(os.__file__), is_users_file("<doctest x>")
    (False, True)
    """
    if filename.startswith("<frozen"):
        return False
    path = os.path.realpath(filename)
    return not path.startswith((_PACKAGE, *_LIBRARIES))


@functools.lru_cache(maxsize=4096)
def is_users_code(code: types.CodeType) -> bool:
    """Tell whether a code object is the user's own."""
    return code.co_filename != "<string>" and is_users_file(code.co_filename)


def is_scalar(obj: Any) -> bool:
    """Tell whether an object can never change, all the way down.

    >>> is_scalar((1, "a")), is_scalar((1, []))
    (True, False)
    """
    kind: Any = type(obj)
    if kind in _EXACT_SCALARS:
        return True
    if kind in (tuple, frozenset):
        return len(obj) <= _LARGEST_LOOKED_INTO and all(map(is_scalar, obj))
    if isinstance(obj, enum.Enum):
        return not runs_code(kind)
    return isinstance(obj, np.generic | np.dtype)


@functools.cache
def runs_code(cls: Any) -> bool:
    """Tell whether an enum has methods or properties of the user's."""
    return any(
        isinstance(function_in(raw), types.FunctionType)
        and is_users_code(function_in(raw).__code__)
        for raw in vars(cls).values()
    )


def is_scalar_type(kind: Any) -> bool:
    """Tell whether all objects of a type can never change."""
    return isinstance(kind, type) and kind in _EXACT_SCALARS


def is_instance_of_users(obj: Any) -> bool:
    """Tell whether an object is an instance of a class that is written in Python."""
    return is_users_class(type(obj))


def is_users_class(cls: Any) -> bool:
    """Tell whether a class is the user's own."""
    return isinstance(cls, type) and _is_users_class(cls)


@functools.cache
def _is_users_class(cls: Any) -> bool:
    if not isinstance(cls, type) or cls.__module__ in ("builtins", None):
        return False
    return any(
        is_users_code(code)
        for raw in vars(cls).values()
        if (code := getattr(function_in(raw), "__code__", None)) is not None
    ) or is_users_module(cls.__module__)


@functools.lru_cache(maxsize=4096)
def is_users_module(name: str) -> bool:
    """Tell whether a loaded module is the user's own; one without a file is."""
    module = sys.modules.get(name)
    if module is None:
        return True
    filename = getattr(module, "__file__", None)
    if filename is None:
        return name == "__main__"
    return is_users_file(filename)


def is_frozen_instance(obj: Any) -> bool:
    """Tell whether the attributes of an instance cannot be assigned."""
    params = getattr(type(obj), "__dataclass_params__", None)
    return isinstance(obj, tuple) or bool(params is not None and params.frozen)


def class_attribute(cls: type, name: str, after: type | None = None) -> Any:
    """Return what a class has under `name`, unbound, or MISSING.

    With `after`, start behind that class in the order of resolution, as super() does.
    """
    order = cls.__mro__
    if after is not None and after in order:
        order = order[order.index(after) + 1 :]
    for base in order:
        if name in vars(base):
            return vars(base)[name]
    return MISSING


def function_in(raw: Any) -> Any:
    """Return the function inside of a property, static or class method."""
    if isinstance(raw, property):
        return raw.fget
    if isinstance(raw, functools.cached_property):
        return raw.func
    return getattr(raw, "__func__", raw)


def instance_attribute(obj: Any, name: str) -> Any:
    """Return what an instance itself has under `name`, or MISSING; runs no code."""
    try:
        own = object.__getattribute__(obj, "__dict__")
    except AttributeError:
        own = {}
    if name in own:
        return own[name]
    raw = class_attribute(type(obj), name)
    if isinstance(raw, types.MemberDescriptorType):  # a slot
        try:
            return raw.__get__(obj)
        except AttributeError:
            return MISSING
    fields = getattr(type(obj), "_fields", ())
    if isinstance(obj, tuple) and name in fields:
        return tuple.__getitem__(obj, fields.index(name))
    return MISSING


def field_names(cls: Any) -> tuple[str, ...] | None:
    """Return the attributes of a NamedTuple or dataclass in order of construction."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple(cls._fields)
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls) if f.init)
    return None


def contents(obj: Any) -> list[Any] | None:
    """Return what a builtin container holds; None if it is too large, or an array."""
    if isinstance(obj, np.ndarray) or len(_iterated(obj)) > _LARGEST_LOOKED_INTO:
        return None
    return _iterated(obj)


def _iterated(obj: Any) -> list[Any]:
    """Return what a container holds as its builtin base sees it: runs no user's code."""
    sequences: tuple[Any, ...] = (list, tuple, set, frozenset, bytearray)
    for base in (*sequences, collections.deque):
        if isinstance(obj, base):
            return list(base.__iter__(obj))
    if isinstance(obj, types.MappingProxyType):
        return [*obj.keys(), *obj.values()]
    return [*dict.keys(obj), *dict.values(obj)]


def types_in(obj: Any) -> set[type]:
    """Return the types of what a container holds; none for an array."""
    return set() if isinstance(obj, np.ndarray) else set(map(type, _iterated(obj)))


def parts_of_object(obj: Any) -> list[Any] | None:
    """Return what operators on an object may be applied to; None if it is too much."""
    if is_scalar(obj) or isinstance(obj, (*CALLABLES, types.ModuleType)):
        return []
    if isinstance(obj, np.ndarray):
        return None if obj.dtype.hasobject else []
    if isinstance(obj, CONTAINERS):
        return contents(obj)
    return [
        held
        for name in field_names(type(obj)) or ()
        if (held := instance_attribute(obj, name)) is not MISSING
    ]


def holds_set(obj: Any) -> bool:
    """Tell whether a constant is or holds a frozen set, whose order may differ."""
    if isinstance(obj, tuple):
        return any(map(holds_set, obj))
    return isinstance(obj, frozenset)


def foreign_part(obj: Any) -> str | None:
    """Return the type of something in a container that analysis cannot follow, if any.

    >>> foreign_part([1, (2, iter([]))]), foreign_part({"a": [len]})
    ('list_iterator', None)
    """
    waiting, seen = [obj], set[int]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen or is_scalar(each):
            continue
        seen.add(id(each))
        if isinstance(each, CONTAINERS):
            if not isinstance(each, np.ndarray):
                waiting.extend(_iterated(each))
        elif not (
            isinstance(each, (*CALLABLES, types.ModuleType))
            or is_instance_of_users(each)
            or hasattr(type(each), "__anabranch__")
        ):
            return type(each).__name__
    return None
