"""Sends the enums of a script to workers, as they are.

Cloudpickle makes an enum again from the values of its members, with the methods added
later. So it leaves out aliases and combinations of flags, and what `__init__` or
`__new__` has given a member besides its value. Here every name is sent, and a member
with all its attributes; no code of the enum is run again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from cloudpickle import cloudpickle as internals

from anabranch.epochs.transport.stable_names import name_function

# How the value of an instance of a subclass is read, past the methods of the subclass.
VALUES: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
}
_GIVEN_HERE = ("__new_member__", "__init__")


class _Member:
    """What a member is made of; no tuple, since an enum would take that apart."""

    def __init__(self, data: Any, value: Any) -> None:
        self.data = data
        self.value = value


class _State(NamedTuple):
    """What is set once an enum exists: its entries, and the attributes of members."""

    entries: tuple[dict[str, Any], Any]
    attributes: dict[str, dict[str, Any]]


def reduce_enum(cls: Any, reduced: Any) -> Any:
    """Return the reduction of an enum, from that of cloudpickle."""
    base = _find_base(cls)
    if base is None or not cls._member_map_:
        return reduced
    _, (bases, name, qualified, _, *others), (entries, slots), *_ = reduced
    read: Callable[[Any], Any] = VALUES.get(base, lambda _: None)
    named = cls._member_map_.items()
    members = [(each, read(one), one._value_) for each, one in named]
    inside = {each: held for each, held in entries.items() if each not in dict(named)}
    attributes = {each: _attributes_of(one) for each, one in named}
    described = (bases, name, qualified, (base, members), *others)
    state = tuple(_State((inside, slots), attributes))
    return make_enum, described, state, None, None, fill_enum


def _find_base(cls: Any) -> type | None:
    """Return the built-in class of an enum's members; None for one not listed here."""
    kind = cls._member_type_
    for base in VALUES:
        if issubclass(kind, base):
            return base
    in_python = all(one is object or one.__flags__ & (1 << 9) for one in kind.__mro__)
    return object if in_python else None


def _attributes_of(member: Any) -> dict[str, Any]:
    """Return the attributes of a member that enums do not set themselves."""
    return {
        name: value
        for name, value in vars(member).items()
        if not (name.startswith("_") and name.endswith("_"))
    }


@name_function("enum")
def make_enum(bases: tuple[Any, ...], *described: Any) -> Any:
    """Make an enum with all its members, but without its methods."""
    name, qualified, (base, members), module, tracked, _ = described

    def make_member(cls: Any, given: Any) -> Any:
        one = given[0] if isinstance(given, tuple) else given
        made = object.__new__(cls) if base is object else base.__new__(cls, one.data)
        made._value_ = one.value
        return made

    meta: Any = type(bases[-1])
    entries = meta.__prepare__(name, bases)
    entries["__new__"] = make_member
    entries["__init__"] = lambda _member, *_given: None
    for each, data, value in members:
        entries[each] = _Member(data, value)
    cls = meta.__new__(meta, name, bases, entries)
    cls.__module__ = module
    cls.__qualname__ = qualified
    return internals._lookup_class_or_track(tracked, cls)  # noqa: SLF001


@name_function("fill_enum")
def fill_enum(cls: Any, state: tuple[Any, Any]) -> Any:
    """Give a new enum its methods, and its members their attributes."""
    (entries, slots), attributes = state
    for name in _GIVEN_HERE:
        if name not in entries:
            with contextlib.suppress(AttributeError):
                delattr(cls, name)
    internals._class_setstate(cls, (entries, slots))  # noqa: SLF001
    for name, held in attributes.items():
        vars(cls._member_map_[name]).update(held)
    return cls
