"""The classes a value may belong to, and which of them are records.

A record stores its arguments and returns them unchanged. For a NamedTuple or dataclass
this holds only while the generated code runs. A user's method, descriptor or metaclass
in its place may store something else, so every one involved is checked: on the class
and on its subclasses, since an item declared to be of a class may belong to a subclass.

It also decides when equal arguments of a cache are interchangeable. `lru_cache` treats
equal values as the same (1, 1.0 and True), so the result depends on which came first.
The cached value is shared by all calls: the first call exhausts a cached iterator.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import inspect
import re
import types
import typing
import uuid
from collections.abc import Iterable
from typing import Any, Final, get_args, get_origin

import numpy as np

from anabranch.graph.types import fields_of
from anabranch.python.objects import (
    FIELD_OF_TUPLE,
    MISSING,
    class_attribute,
    has_scalar_members,
    is_instance_of_users,
    is_scalar_type,
    is_users_class,
    runs_code,
)
from anabranch.python.universe import Universe, subclasses
from anabranch.python.values import (
    BoundMethod,
    Closure,
    Existing,
    Fresh,
    InputPart,
    Method,
    Plain,
    Root,
    SharedPart,
    SomeScalar,
    Value,
)

_SAMPLE: Any = collections.namedtuple("_SAMPLE", "field")  # noqa: PYI024 - it has no types
_SAMPLE_CODES = {
    name: getattr(raw, "__func__", raw).__code__
    for name, raw in vars(_SAMPLE).items()
    if name in ("_replace", "_make")
}
_C_METHODS = (types.WrapperDescriptorType, types.BuiltinFunctionType)


def is_named_tuple(cls: Any) -> bool:
    """Tell whether a class has the attributes of a NamedTuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_frozen(cls: Any) -> bool:
    """Tell whether the attributes of a dataclass cannot be assigned."""
    params = getattr(cls, "__dataclass_params__", None)
    return bool(params is not None and params.frozen)


def parameters_of(cls: Any) -> tuple[str, ...] | None:
    """Return the positional parameters of a record's generated constructor, in order.

    None for a class that is no record. Keyword-only parameters come last.

    >>> parameters_of(_SAMPLE), parameters_of(dict)
    (('field',), None)
    """
    if is_named_tuple(cls):
        maker = class_attribute(cls, "__new__")
    elif isinstance(cls, type) and dataclasses.is_dataclass(cls):
        maker = class_attribute(cls, "__init__")
    else:
        return None
    code = getattr(getattr(maker, "__func__", maker), "__code__", None)
    if code is None:
        return ()
    return tuple(code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount])


def fields_as_stored(cls: Any) -> frozenset[str]:
    """Return the fields that hold exactly what the constructor was given.

    >>> fields_as_stored(_SAMPLE), fields_as_stored(dict)
    (frozenset({'field'}), frozenset())
    """
    if not isinstance(cls, type) or not _is_made_plainly(cls):
        return frozenset()
    given = parameters_of(cls) or ()
    if is_named_tuple(cls):
        return frozenset(given) if _is_stored_in_order(cls, given) else frozenset()
    fields = dataclasses.fields(cls)
    if not all(_is_stored(cls, field.name) for field in fields):
        return frozenset()  # user code runs, which may assign any of them
    return frozenset(f.name for f in fields if f.init and f.name in given)


def fields_kept_by(cls: Any, how: str) -> frozenset[str]:
    """Return the fields that a copy of an item keeps unless told otherwise.

    `how` names the copying function: `_replace`, `__replace__` (of `copy.replace`), or
    `replace` of dataclasses. The item may belong to any loaded subclass.
    """
    kept = _fields_kept_by_one(cls, how)
    for each in subclasses(cls) if kept else ():
        kept &= _fields_kept_by_one(each, how)
    return kept


def fields_in_order(cls: Any) -> tuple[str, ...]:
    """Return the fields in unpacking order; empty if unpacking may give others.

    >>> fields_in_order(_SAMPLE)
    ('field',)
    """
    if not is_named_tuple(cls):
        return ()
    names = parameters_of(cls) or ()
    each: Any
    for each in (cls, *subclasses(cls)):
        plain = class_attribute(each, "__iter__") is tuple.__iter__
        if not plain or fields_as_stored(each) != frozenset(names):
            return ()
    return names


def _fields_kept_by_one(cls: type, how: str) -> frozenset[str]:
    if how == "replace":
        if is_named_tuple(cls):
            return frozenset()  # the call would fail
        return fields_as_stored(cls)
    raw = class_attribute(cls, how)
    if is_named_tuple(cls):
        made = {name: class_attribute(cls, name) for name in _SAMPLE_CODES}
        generated = all(
            getattr(getattr(each, "__func__", each), "__code__", None)
            is _SAMPLE_CODES[name]
            for name, each in {**made, "_replace": raw}.items()
        )
        plain = class_attribute(cls, "__iter__") is tuple.__iter__
        plain &= class_attribute(cls, "__len__") is tuple.__len__
        return fields_as_stored(cls) if generated and plain else frozenset()
    own = getattr(dataclasses, "_replace", None)  # added by Python 3.13
    generated = how == "__replace__" and own is not None and raw is own
    return fields_as_stored(cls) if generated else frozenset()


def _is_made_plainly(cls: type) -> bool:
    """Tell whether constructing a record runs only generated and built-in code."""
    if class_attribute(type(cls), "__call__") is not vars(type)["__call__"]:
        return False
    if class_attribute(cls, "__post_init__") is not MISSING:
        return False
    if not isinstance(class_attribute(cls, "__getattribute__"), _C_METHODS):
        return False
    new, init = class_attribute(cls, "__new__"), class_attribute(cls, "__init__")
    new = getattr(new, "__func__", new)
    if is_named_tuple(cls):
        names = getattr(new, "__globals__", {})
        named = str(names.get("__name__", "")).startswith("namedtuple_")
        return named and "_tuple_new" in names and isinstance(init, _C_METHODS)
    setter = class_attribute(cls, "__setattr__")
    return (
        isinstance(new, _C_METHODS)
        and _is_generated(init, "__init__")
        and (isinstance(setter, _C_METHODS) or _is_generated(setter, "__setattr__"))
    )


def _is_generated(raw: Any, name: str) -> bool:
    """Tell whether `dataclass` wrote a method."""
    code = getattr(raw, "__code__", None)
    return (
        code is not None
        and code.co_filename == "<string>"
        and code.co_qualname == f"__create_fn__.<locals>.{name}"
    )


def _is_stored_in_order(cls: type, names: tuple[str, ...]) -> bool:
    """Tell whether each field of a NamedTuple is read from its own position."""
    for index, name in enumerate(names):
        raw = class_attribute(cls, name)
        if type(raw) is not FIELD_OF_TUPLE or raw.__reduce__()[1][0] != index:
            return False
    return tuple(cls._fields) == names  # type: ignore[attr-defined]


def _is_stored(cls: type, name: str) -> bool:
    """Tell whether a dataclass attribute reads back as it was assigned."""
    raw = class_attribute(cls, name)
    if raw is MISSING or isinstance(raw, types.MemberDescriptorType):
        return True
    return not (hasattr(type(raw), "__set__") or hasattr(type(raw), "__delete__"))


_UNIONS = (typing.Union, types.UnionType)
_HOMOGENEOUS = (
    *(list, set, frozenset, tuple, collections.deque, collections.abc.Sequence),
    *(collections.abc.Iterable, collections.abc.Iterator, collections.abc.Collection),
)
_LOOKED_INTO = (list, dict, set, frozenset, tuple, collections.deque, np.ndarray)
_MAPPINGS = (dict, collections.abc.Mapping, collections.defaultdict)


def class_of(root: Root) -> type | None:
    """Return the user's class that a value is an instance of, if known."""
    match root:
        case Fresh(_, kind) | InputPart(kind):
            return kind if is_users_class(kind) else None
        case Existing(obj=obj) if is_instance_of_users(obj):
            return type(obj)
    return None


def classes_of(  # noqa: PLR0911 - one return for each kind
    root: Root, universe: Universe
) -> frozenset[type] | None:
    """Return every class a value may be an instance of; None if any is possible.

    An annotation allows subclasses, including the user's.
    """
    match root:
        case Fresh(_, kind) if not is_users_class(kind):
            return frozenset([kind]) if isinstance(kind, type) else None
        case Fresh(_, kind):  # `_replace` gives an instance of the item's class
            return _with_subclasses(kind, universe)
        case InputPart(None):
            return universe.arriving.types if universe.arriving.complete else None
        case InputPart(kind):
            return _classes_by_annotation(kind, universe)
        case Existing(obj=obj):
            return frozenset([type(obj)])
        case SharedPart(kinds=kinds):
            return kinds
        case Plain(kind) if is_users_class(kind):
            return frozenset([kind])  # type: ignore[list-item]
    return frozenset()


def _classes_by_annotation(kind: Any, universe: Universe) -> frozenset[type] | None:
    origin = get_origin(kind) or kind
    if origin in _UNIONS:
        found = [_classes_by_annotation(each, universe) for each in get_args(kind)]
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
    """Return some member of an enum; even one with methods cannot change."""
    plain = not runs_code(cls) and has_scalar_members(cls)
    return Plain(cls) if plain else InputPart(cls)


def items_of(kind: Any, universe: Universe) -> frozenset[Root]:
    """Return an operator's input items, from their annotation or from what arrives."""
    arriving = universe.arriving
    if kind is not None or not arriving.complete or not arriving.top:
        return frozenset([part_of_type(kind, universe)])
    return frozenset(map(_item_of, arriving.top))


def _item_of(kind: type) -> Root:
    """Return an item of a class; the annotations of its attributes are not trusted."""
    if is_scalar_type(kind):
        return Plain(kind)
    if kind is SomeScalar:
        return Plain()
    known = kind in _LOOKED_INTO or (is_users_class(kind) and not fields_of(kind))
    return InputPart(kind) if known and not issubclass(kind, enum.Enum) else InputPart()


def part_of_type(kind: Any, universe: Universe) -> Root:
    """Return a part of an input with this annotation."""
    if is_scalar_type(kind):
        return InputPart(kind) if universe.may_be_derived(kind) else Plain(kind)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return member_of(kind)
    if getattr(kind, "_is_protocol", False):  # describes fields, runs nothing
        return InputPart()
    if get_origin(kind) in _UNIONS and all(map(is_scalar_type, get_args(kind))):
        derived = any(map(universe.may_be_derived, get_args(kind)))
        return InputPart(kind) if derived else Plain()
    return InputPart(kind)


def parts_of_annotation(kind: Any, universe: Universe) -> Iterable[Root]:
    """Return the types reached in one step from an input with this annotation.

    >>> sorted(map(str, parts_of_annotation(dict[str, int], Universe([]))))
    ["Plain(type=<class 'int'>)", "Plain(type=<class 'str'>)"]
    """
    origin = get_origin(kind)
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    if args and (origin in _UNIONS or origin in (*_HOMOGENEOUS, *_MAPPINGS)):
        return [part_of_type(arg, universe) for arg in args]
    arriving = universe.arriving
    if kind in (set, frozenset) and arriving.complete:
        return [_item_of(each) for each in arriving.types if each.__hash__ is not None]
    found: list[Root] = []
    for cls in _classes_by_annotation(kind, universe) or [None]:
        fields = fields_of(cls)
        if fields is None:
            return [InputPart()]
        found.extend(part_of_type(each, universe) for each in fields.values())
    return found


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
        case BoundMethod() | Method() | Closure():
            return None
        case Fresh(_, kind) if kind is tuple:
            return None  # its parts are checked
        case Plain(kind):
            classes: Iterable[type] | None = [SomeScalar if kind is None else kind]
        case _:
            classes = classes_of(root, universe)
    if classes is None:
        return _ANY_TYPE
    return next(filter(None, map(_why_not_alike, classes)), None)


def _why_not_alike(kind: Any) -> str | None:
    if kind is SomeScalar:
        return _ANY_TYPE
    if not isinstance(kind, type) or kind in _ALIKE or _is_told_apart(kind):
        return None
    if is_users_class(kind) and not issubclass(kind, int | str | float):
        return _why_not_alike_record(kind)
    example = ", as 0.0 and -0.0" if kind is float else ""
    return f"{kind.__name__}s may be equal and not alike{example}"


def _is_told_apart(kind: type) -> bool:
    """Tell whether equal objects of a type are identical in effect, or unhashable."""
    if kind.__hash__ is None or class_attribute(kind, "__eq__") is object.__eq__:
        return True
    if kind in (tuple, frozenset):
        return True  # their parts are checked
    is_member = issubclass(kind, enum.Enum) and not issubclass(kind, int | str)
    return is_member or issubclass(kind, type)


def _why_not_alike_record(cls: type) -> str | None:
    fields = fields_of(cls)
    code = getattr(class_attribute(cls, "__eq__"), "__code__", None)
    written = code is not None and not code.co_filename.startswith("<")
    if fields is None or written or _compares_some(cls):
        return f"{cls.__name__}s may be equal and not alike"
    return next(filter(None, map(_why_not_alike, fields.values())), None)


def _compares_some(cls: type) -> bool:
    """Tell whether `==` of a dataclass leaves out what its objects are made of."""
    if not dataclasses.is_dataclass(cls):
        return False
    compared = {each.name for each in dataclasses.fields(cls) if each.compare}
    given = parameters_of(cls)  # one that is in no field may be kept elsewhere
    return given is None or not compared.issuperset(given)


def is_used_up(value: Value) -> bool:
    """Tell whether a value may be an iterator, which yields its elements only once."""
    kinds = (root.type for root in value if isinstance(root, Fresh | InputPart))
    return any(isinstance(each, type) and hasattr(each, "__next__") for each in kinds)
