"""The nature of objects that exist before the operator runs.

No user code is executed here: attributes are looked up statically, and only builtin
containers are inspected.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copyreg
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import gc
import inspect
import ipaddress
import operator
import pathlib
import re
import sys
import types
import uuid
import zoneinfo
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any, Final, List, NewType, ParamSpec, TypeVar, Union  # noqa: UP035

import numpy as np

from anabranch.graph.declarations import is_trusted
from anabranch.graph.site import is_users_file, is_users_module
from anabranch.python.implicit import IN_PLACE, ORDER, READ_HOOKS

MISSING: Final = object()
SCALARS: Final[tuple[type, ...]] = (
    *(bool, int, float, complex, str, bytes, type(None), type(Ellipsis)),
    *(range, slice, type(NotImplemented), re.Pattern, uuid.UUID),
    *(dt.date, dt.time, dt.timedelta, dt.tzinfo),
    *(decimal.Decimal, fractions.Fraction, np.generic, np.dtype),
    *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network),
    *(ipaddress.IPv6Network, ipaddress.IPv4Interface, ipaddress.IPv6Interface),
    *(pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath),
    *(pathlib.PurePath, pathlib.Path),
    *(TypeVar, ParamSpec, NewType, types.GenericAlias, types.UnionType),
    *(type(Union[int, str]), type(List[int]), type(Union)),  # noqa: UP006, UP007
)
NAMESPACES = (
    object,
    types.SimpleNamespace,
    argparse.Namespace,
)  # instances, in all but name
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
    type(np.random.default_rng),  # a function that Cython compiled
)
_SAMPLE: Any = collections.namedtuple("_SAMPLE", "field")  # noqa: PYI024 - it has no types
FIELD_OF_TUPLE: Final[type] = type(vars(_SAMPLE)["field"])
# How a class exposes what an instance stores itself: a slot, or a field of a
# NamedTuple. Reading one runs no code.
PLACES: Final[tuple[Any, ...]] = (types.MemberDescriptorType, FIELD_OF_TUPLE)
_EXACT_SCALARS = frozenset(SCALARS) | {dt.datetime, dt.timezone, zoneinfo.ZoneInfo}
_MOST_HELD = 10_000
_COMPILED = (".pyx", ".pxd", ".pxi")  # by Cython, whose functions tell their source
_VIEWS = (Iterator, KeysView, ValuesView, ItemsView)  # they do not tell what they wrap
_GENERATED = ("<string>", "<namedtuple", "<attrs")
_PYTHONS_OWN = ("builtins", "itertools")
_HEAP_TYPE = 1 << 9  # made at run time
_LARGEST_LOOKED_INTO = 256


def is_users_code(code: types.CodeType) -> bool:
    """Tell whether a code object is the user's own and runs in Python.

    Code that was made from a text, as by `exec`, is the user's; nothing else is known
    of it. What Python itself makes so for dataclasses and NamedTuples is not.

    >>> is_users_code(eval("lambda x: x").__code__)
    True
    >>> is_users_code(_SAMPLE.__new__.__code__)
    False
    """
    if code.co_filename == "<string>":
        return not (
            code.co_qualname.startswith("__create_fn__.<locals>.")
            or (code.co_name == "<lambda>" and code.co_names == ("_tuple_new",))
        )
    return _is_users_source(code.co_filename)


@functools.lru_cache(maxsize=4096)
def _is_users_source(filename: str) -> bool:
    """Implement `is_users_code`: code objects of two files may compare equal."""
    return not filename.endswith(_COMPILED) and is_users_file(filename)


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
        return not runs_code(kind) and has_scalar_members(kind)
    if isinstance(obj, np.void):  # a NumPy record is mutable
        return False
    return isinstance(obj, np.generic | np.dtype)


def can_never_change(obj: Any) -> bool:
    """Tell whether an object is a scalar, or a NamedTuple of scalars.

    Unlike a scalar, it may have user-defined methods.

    >>> can_never_change((1, _SAMPLE(2))), can_never_change(_SAMPLE([]))
    (True, False)
    """
    if not isinstance(obj, tuple):
        return is_scalar(obj)
    held = list(tuple.__iter__(obj))
    return (
        type(obj).__dictoffset__ == 0
        and len(held) <= _LARGEST_LOOKED_INTO
        and all(map(can_never_change, held))
    )


@functools.cache
def runs_code(cls: Any) -> bool:
    """Tell whether a class or one of its bases has user code."""
    return any(
        isinstance(function_in(raw), types.FunctionType)
        and is_users_code(function_in(raw).__code__)
        for base in cls.__mro__
        for raw in vars(base).values()
    )


@functools.cache
def has_scalar_members(cls: Any) -> bool:
    """Tell whether the values of all enum members are immutable."""
    return all(is_scalar(value) for value in values_of_members(cls))


def values_of_members(cls: Any) -> list[Any]:
    """Return the values of an enum's members; runs no user code."""
    return [
        object.__getattribute__(member, "__dict__").get("_value_")
        for member in cls._member_map_.values()
    ]


def is_scalar_type(kind: Any) -> bool:
    """Tell whether all objects of a type are immutable."""
    return isinstance(kind, type) and kind in _EXACT_SCALARS


def is_instance_of_users(obj: Any) -> bool:
    """Tell whether an object is an instance of a class written in Python.

    A namespace counts as one: its attributes are what it was given. So does `object()`,
    which has none.
    """
    return type(obj) in NAMESPACES or is_users_class(type(obj))


def is_users_class(cls: Any) -> bool:
    """Tell whether a class is the user's own."""
    return isinstance(cls, type) and _is_users_class(cls)


@functools.cache
def _is_users_class(cls: Any) -> bool:
    if not isinstance(cls, type) or cls.__module__ is None:
        return False
    if cls.__module__ == "builtins":  # so is what `exec` makes without a module's name
        return bool(cls.__flags__ & _HEAP_TYPE) and cls is not ExceptionGroup
    return any(
        is_users_code(code)
        for raw in vars(cls).values()
        if (code := getattr(function_in(raw), "__code__", None)) is not None
    ) or is_users_module(cls.__module__)


def is_frozen_instance(obj: Any) -> bool:
    """Tell whether the attributes of an instance cannot be assigned."""
    params = getattr(type(obj), "__dataclass_params__", None)
    return isinstance(obj, tuple) or bool(params is not None and params.frozen)


def class_attribute(cls: type, name: str, after: type | None = None) -> Any:
    """Return the entry of a class under `name`, unbound, or MISSING.

    With `after`, start behind that class in the method resolution order, as super()
    does.
    """
    order = cls.__mro__
    if after is not None and after in order:
        order = order[order.index(after) + 1 :]
    for base in order:
        if name in vars(base):
            return vars(base)[name]
    return MISSING


def is_table_type(cls: type) -> bool:
    """Tell whether a class is a pandas container: a table or one of its parts."""
    pandas = sys.modules.get("pandas")
    if pandas is None or is_users_class(cls):
        return False
    return issubclass(cls, (pandas.Series, pandas.DataFrame, pandas.Index))


def function_in(raw: Any) -> Any:
    """Return the function inside of a property, static or class method."""
    if isinstance(raw, property):
        return raw.fget
    if isinstance(raw, functools.cached_property):
        return raw.func
    if isinstance(raw, types.DynamicClassAttribute):  # a property of an enum
        return raw.fget
    return getattr(raw, "__func__", raw)


# Their methods call nothing of a class but its fields and own methods.
_HARMLESS_BASES = ("abc", "contextlib", "dataclasses", "enum", "types", "typing")
# What arithmetic and slices of these run to create their result.
_HOOKS_OF_BASES: Final[tuple[tuple[type, tuple[str, ...]], ...]] = (
    (
        np.ndarray,
        (
            *("__array_finalize__", "__array_wrap__", "__array_prepare__"),
            *("__array_ufunc__", "__array_function__"),
        ),
    ),
    (dt.date, ("__new__", "__init__")),
    (collections.deque, ("__init__",)),
)
_STEPS_OF_BASES = ("__contains__", "__iter__", "__reversed__", "__ne__")


def methods_run_by(  # noqa: PLR0911 - one return for each kind of home
    cls: type, name: str
) -> tuple[types.FunctionType, ...]:
    """Return the user's functions that a special method of a class runs.

    A method inherited from a package, such as one of `total_ordering`, may run any of
    the user's methods on the class; if it is not known which, the method itself is
    returned.
    """
    function = function_in(class_attribute(cls, name))
    if not isinstance(function, types.FunctionType):
        return _methods_run_in_c(cls, name)
    if is_users_code(function.__code__):
        return (function,)
    if not is_users_class(cls) or function.__code__.co_filename.startswith(_GENERATED):
        return ()
    own = {
        each: found
        for base in cls.__mro__
        for each, raw in vars(base).items()
        if isinstance(found := function_in(raw), types.FunctionType)
        and is_users_code(found.__code__)
    }
    home = function.__globals__.get("__name__")
    if home == "functools" and name in ORDER:  # as total_ordering derives it
        return tuple(own[each] for each in ORDER if each in own)
    if home == "reprlib":  # it prevents infinite recursion of a `__repr__`
        inner = inspect.getclosurevars(function).nonlocals["user_function"]
        return (inner,) if is_users_code(inner.__code__) else ()
    if home in _HARMLESS_BASES or name in READ_HOOKS:
        return ()
    if home in ("collections", "collections.abc"):
        called = [f for n, f in own.items() if n.startswith("__") and n != "__init__"]
        if name in (*ORDER, "__ne__", "__hash__"):
            return tuple(called)
        return (function,) if called and name not in _STEPS_OF_BASES else ()
    return (function,)


def _methods_run_in_c(cls: type, name: str) -> tuple[types.FunctionType, ...]:
    """Return the user's functions that C code runs to create another object of a
    class.
    """
    if not is_users_class(cls) or not (name == "__getitem__" or name in IN_PLACE):
        return ()
    hooks = (each for base, each in _HOOKS_OF_BASES if issubclass(cls, base))
    found = (function_in(class_attribute(cls, n)) for names in hooks for n in names)
    return tuple(
        each
        for each in found
        if isinstance(each, types.FunctionType) and is_users_code(each.__code__)
    )


def makes_instances(function: Any) -> bool:
    """Tell whether a function is `__new__` of a built-in class.

    >>> makes_instances(object.__new__), makes_instances(tuple.__new__)
    (True, True)
    >>> makes_instances(np.ndarray.__new__)  # it leaves memory as it was
    False
    """
    if not isinstance(function, types.BuiltinFunctionType):
        return False
    home = function.__self__
    return (
        function.__name__ == "__new__"
        and isinstance(home, type)
        and home.__module__ == "builtins"
        and (home is object or home in CONTAINERS or is_scalar_type(home))
    )


def is_users_method(cls: type, name: str) -> bool:
    """Tell whether the entry of a class under `name` is a function of the user's."""
    function = function_in(class_attribute(cls, name))
    return isinstance(function, types.FunctionType) and is_users_code(function.__code__)


def reducer_of(cls: type) -> types.FunctionType | None:
    """Return the user's function that copies and pickles objects of a class."""
    found: Any = copyreg.dispatch_table.get(cls)
    is_users = isinstance(found, types.FunctionType) and is_users_code(found.__code__)
    return found if is_users else None


def is_users_descriptor(raw: Any) -> bool:
    """Tell whether reading a class entry through an instance runs user code."""
    if raw is MISSING:
        return False
    if isinstance(raw, property | functools.cached_property):
        return True
    return is_users_class(type(raw)) and class_attribute(type(raw), "__get__") is not (
        MISSING
    )


def comes_before_fields(raw: Any) -> bool:
    """Tell whether a class entry takes precedence over an instance attribute."""
    if raw is MISSING or isinstance(raw, PLACES):
        return False
    return any(
        class_attribute(type(raw), name) is not MISSING
        for name in ("__set__", "__delete__")
    )


def instance_attribute(obj: Any, name: str) -> Any:
    """Return an instance's own attribute `name`, or MISSING; runs no code."""
    raw = class_attribute(type(obj), name)
    if isinstance(raw, PLACES):
        try:
            return raw.__get__(obj)
        except (AttributeError, IndexError, TypeError):  # empty, or of another class
            return MISSING
    try:
        return object.__getattribute__(obj, "__dict__").get(name, MISSING)
    except AttributeError:
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
    """Return the contents of a builtin container; None if it is too large."""
    if isinstance(obj, np.ndarray) or len(_list_contents(obj)) > _LARGEST_LOOKED_INTO:
        return None
    return _list_contents(obj)


def _list_contents(obj: Any) -> list[Any]:
    """Return a container's contents as its builtin base class sees them."""
    sequences: tuple[Any, ...] = (list, tuple, set, frozenset, bytearray)
    for base in (*sequences, collections.deque):
        if isinstance(obj, base):
            return list(base.__iter__(obj))
    if isinstance(obj, types.MappingProxyType):
        return [*obj.keys(), *obj.values()]
    return [*dict.keys(obj), *dict.values(obj)]


def list_held(obj: Any) -> list[Any]:
    """Return the objects in a builtin container or an array, however many."""
    if not isinstance(obj, np.ndarray):
        return _list_contents(obj)
    return np.ndarray.ravel(obj).tolist() if obj.dtype.hasobject else []


def types_in(obj: Any) -> set[type]:
    """Return the types of a container's contents; none for an array."""
    return set() if isinstance(obj, np.ndarray) else set(map(type, _list_contents(obj)))


def parts_of_object(obj: Any) -> list[Any] | None:
    """Return the operands that operators on an object may reach; None if too many."""
    if is_scalar(obj) or isinstance(obj, (*CALLABLES, types.ModuleType)):
        return []
    if isinstance(obj, np.ndarray):
        return None if obj.dtype.hasobject else []
    if isinstance(obj, CONTAINERS):
        return contents(obj)
    if is_table_type(type(obj)):
        return None
    return [
        held
        for name in field_names(type(obj)) or ()
        if (held := instance_attribute(obj, name)) is not MISSING
    ]


def walk_held(obj: Any) -> Iterator[Any]:
    """Yield an object and every mutable object reachable from it; runs no code.

    >>> inner = []
    >>> [each is inner for each in walk_held((1, inner))]
    [False, True]
    """
    waiting, seen = [obj], set[int]()
    while waiting and len(seen) < _MOST_HELD:
        each = waiting.pop()
        if id(each) in seen or is_scalar(each) or isinstance(each, types.ModuleType):
            continue
        seen.add(id(each))
        if isinstance(each, CALLABLES):
            waiting.append(getattr(each, "__self__", None))
            if isinstance(each, functools.partial):
                waiting += [each.func, *each.args, *each.keywords.values()]
            continue
        yield each
        if isinstance(each, CONTAINERS):
            if not isinstance(each, np.ndarray):
                waiting.extend(_list_contents(each))
            continue
        if isinstance(each, _VIEWS) and type(each).__module__ in _PYTHONS_OWN:
            waiting.extend(gc.get_referents(each))
            continue
        with contextlib.suppress(AttributeError):
            waiting.extend(object.__getattribute__(each, "__dict__").values())


def list_storages(obj: Any) -> list[Any]:
    """Return the other objects that store what an object shows: writers may hold them.

    >>> whole = bytearray(2)
    >>> list_storages(memoryview(whole)[1:])[0] is whole
    True
    """
    found: list[Any]
    if isinstance(obj, memoryview):
        found = [obj.obj]
    elif type(obj) is types.MappingProxyType:
        found = gc.get_referents(obj)
    elif isinstance(obj, np.ndarray):
        found = [] if obj.base is None else [obj.base]
    elif is_instance_of_users(obj):
        try:
            return [object.__getattribute__(obj, "__dict__")]
        except AttributeError:
            return []
    else:
        return []
    return [each for one in found for each in (one, *list_storages(one))]


def walk_contents(obj: Any, *, opened: bool) -> Iterator[Any]:
    """Yield the objects visible through an object; runs no user code.

    For an instance these are its attributes, and their contents only if it was
    `opened`: attribute reads are recorded elsewhere. For other objects it is
    everything.
    """
    whole = opened or isinstance(obj, CONTAINERS)
    waiting, seen = [*list_storages(obj), *_list_inside(obj)], {id(obj)}
    while waiting:
        each = waiting.pop()
        if id(each) in seen or is_scalar(each):
            continue
        if isinstance(each, (*CALLABLES, types.ModuleType)):
            continue
        seen.add(id(each))
        yield each
        if whole:
            waiting.extend((*list_storages(each), *_list_inside(each)))


def _list_inside(obj: Any) -> list[Any]:
    """Return the contents of a container or a pandas table; empty for others."""
    if isinstance(obj, CONTAINERS):
        return list_held(obj)
    return [each for array in arrays_in(obj) for each in list_held(array)]


def arrays_in(obj: Any) -> list[np.ndarray[Any, Any]]:
    """Return the arrays that store the values of an array or a pandas table."""
    if isinstance(obj, np.ndarray):
        return [obj]
    if not is_table_type(type(obj)):
        return []
    columns = [obj] if obj.ndim == 1 else [column for _, column in obj.items()]
    return [each.to_numpy() for each in columns if isinstance(each.dtype, np.dtype)]


def holds_set(obj: Any) -> bool:
    """Tell whether a constant is or contains a frozen set, whose order may differ."""
    if isinstance(obj, tuple):
        return any(map(holds_set, obj))
    return isinstance(obj, frozenset)


def holds_nan(obj: Any) -> bool:
    """Tell whether a constant is or contains a NaN, which equals only itself."""
    if isinstance(obj, tuple | frozenset):
        return any(map(holds_nan, obj))
    return isinstance(obj, float) and obj != obj  # noqa: PLR0124 - the test for NaN


def is_singleton(obj: Any) -> bool:
    """Tell whether an object of a package is pickled as itself; runs no user code.

    >>> import pandas as pd
    >>> is_singleton(pd.NA), is_singleton(pd.NaT), is_singleton(object())
    (True, True, False)
    """
    kind = type(obj)
    if is_users_class(kind) or isinstance(obj, (*CONTAINERS, np.ndarray)):
        return False
    if is_scalar_type(kind) or is_table_type(kind):
        return False
    try:
        reduced = obj.__reduce_ex__(5)
        if isinstance(reduced, str):
            return getattr(sys.modules.get(kind.__module__), reduced, None) is obj
        make, given, *state = reduced
        plain = all(is_scalar(each) or _is_packages(each) for each in given)
        if not plain or not _is_packages(make) or any(e is not None for e in state):
            return False
        return make(*given) is obj
    except Exception:  # noqa: BLE001 - whatever a package raises for what is not pickled
        return False


def _is_packages(obj: Any) -> bool:
    """Tell whether something callable is a package's, not the user's."""
    if isinstance(obj, type):
        return not is_users_class(obj)
    code = getattr(obj, "__code__", None)
    if isinstance(code, types.CodeType):
        return not is_users_code(code)
    return hasattr(obj, "__qualname__") and not hasattr(obj, "__wrapped__")


def foreign_part(
    obj: Any, is_known: Callable[[type], bool] = lambda _: False
) -> str | None:
    """Return the type of a part of a container that analysis cannot follow, or None.

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
            waiting.extend(list_held(each))
        elif not (
            isinstance(each, (*CALLABLES, types.ModuleType))
            or is_instance_of_users(each)
            or hasattr(type(each), "__anabranch__")
            or is_trusted(type(each).__module__)
            or is_known(type(each))
        ):
            return type(each).__name__
    return None
