"""What the pickling hooks of a user's class lose, and whether a function may read it.

One thread has no copies, so a copy in another process must have all that is read of the
original. A class says in its hooks (`__getstate__`, `__reduce__` and others) what travels;
one that it inherits from a library does not know of the attributes that the user has added.
Each object of such a class is copied when it first leaves, and compared with the copy. An
attribute that differs may be one that nobody reads, such as a cache; whether somebody
does is a matter of its name: a name that no code of the program mentions is not read.
"""

from __future__ import annotations

import array
import contextlib
import copyreg
import functools
import inspect
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from types import (
    BuiltinFunctionType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, NamedTuple

import numpy as np

from anabranch.epochs.transport.program_modules import HOOKS, Reads
from anabranch.graph.site import is_users_file, is_users_module

_HOOKS_OF_CONTAINERS: Final = ("__iter__", "items", "append", "extend", "__setitem__")
_OWN_HOOKS: Final = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__")
# Their hooks keep the attributes of an instance, and slots.
_KEEPING: Final = (
    *(set, frozenset, bytearray, deque, OrderedDict, array.array, BaseException),
)
_MISSING: Final = object()
_SCALARS: Final = (str, int, float, complex, bytes, bool, type(None))
_LOCKS: Final = (type(threading.Lock()), type(threading.RLock()))
_SEQUENCES: Final[Mapping[type, Callable[[Any], Any]]] = {
    list: list.__iter__,
    tuple: tuple.__iter__,
    deque: deque.__iter__,
}
TEXTS: Final[Mapping[type, Callable[[Any], Any]]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__repr__,
    complex: complex.__repr__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
}
_BUILT_IN: Final = (*TEXTS, *_SEQUENCES, dict, set, frozenset, object)


class Loss(NamedTuple):
    """What a copy lacks: an attribute of a class, or its value (`attribute` is "")."""

    kind: type
    attribute: str

    def __str__(self) -> str:
        what = f"{self.kind.__qualname__}.{self.attribute}"
        if not self.attribute:
            what = f"the value of a {self.kind.__qualname__}"
        return (
            f"a copy must have all that the program reads of an object; {what} is not "
            f"the same in a pickled copy ({_describe_hook(self.kind)}), and the program "
            f"reads it; keep it when pickled, or make it a functools.cached_property if it follows from "
            f"the rest, or run with on='local'"
        )


def find_hook(kind: type) -> FunctionType | None:
    """Return a function of the user's that pickles or restores objects of a class."""
    names: tuple[str, ...] = HOOKS
    if issubclass(kind, list | dict | set | frozenset):
        names += _HOOKS_OF_CONTAINERS
    found = [copyreg.dispatch_table.get(kind)]
    found += [inspect.getattr_static(kind, name, None) for name in names]
    for each in found:
        function = getattr(each, "__func__", each)
        if isinstance(function, FunctionType):
            file = function.__code__.co_filename
            if is_users_file(file) and not file.startswith("<string>"):
                return function
    return None


def find_library_hook(kind: type) -> tuple[type, str] | None:
    """Return the hook that a user's class inherits from others, if it may lose attributes.

    That of Decimal does, for example; that of a set does not.
    """
    if not is_users_module(kind.__module__):
        return None
    for base in kind.__mro__[:-1]:
        if base in _KEEPING:
            return None
        for name in _OWN_HOOKS:
            if name in vars(base):
                by_decorator = is_users_module(base.__module__)
                known = by_decorator and _has_fields_only(kind)
                return None if known else (base, name)
    return None


def _has_fields_only(kind: Any) -> bool:
    """Tell whether the attributes of a class are those its decorator knows."""
    fields = {*getattr(kind, "__dataclass_fields__", ())}
    fields |= {each.name for each in getattr(kind, "__attrs_attrs__", ())}
    slots = {slot.__name__ for slot in _slots_of(kind)}
    return bool(fields) and not kind.__dictoffset__ and slots <= fields


def _describe_hook(kind: type) -> str:
    for base in kind.__mro__:
        hook = find_hook(base)
        if hook is not None:
            return f"{hook.__code__.co_filename}:{hook.__code__.co_firstlineno}"
    found = find_library_hook(kind)
    return "?" if found is None else f"made by {found[0].__qualname__}.{found[1]}"


class Comparison:
    """Compares originals with their copies; `dump` pickles what is of a library.

    `reads` are the names of the attributes that count.
    """

    def __init__(self, reads: Reads, dump: Callable[[Any], bytes]) -> None:
        self._reads = reads
        self._dump = dump
        self._seen: dict[tuple[int, int], tuple[Any, Any]] = {}  # by identity

    @property
    def compared(self) -> dict[int, Any]:
        """The originals that were compared, by identity."""
        return {id(one): one for one, _ in self._seen.values()}

    def find_loss(self, one: Any, copy: Any) -> Loss | None:
        """Return what an object has that its copy lacks, and is read; None if nothing.

        >>> class Trade:
        ...     extra = 0
        >>> one, copy = Trade(), Trade()
        >>> compare = Comparison(frozenset({"extra"}), repr)
        >>> compare.find_loss(one, copy) is None
        True
        >>> one.extra = 1
        >>> Comparison(frozenset({"extra"}), repr).find_loss(one, copy).attribute
        'extra'
        """
        waiting = [(one, copy, Loss(type(one), ""))]
        while waiting:
            one, copy, loss = waiting.pop()
            if one is copy or (id(one), id(copy)) in self._seen:
                continue
            self._seen[id(one), id(copy)] = one, copy
            parts = self._parts(one, copy, loss)
            if parts is None:
                users = type(one).__module__ != "builtins"
                return Loss(type(one), "") if users and not loss.attribute else loss
            waiting += parts
        return None

    def _parts(  # noqa: C901, PLR0911 - one case for each kind of object
        self, one: Any, copy: Any, loss: Loss
    ) -> list[tuple[Any, Any, Loss]] | None:
        """Return the pairs of parts still to compare; None if objects differ."""
        kind: Any = type(one)
        if kind is not type(copy):
            return None
        if kind in _SCALARS:
            if kind is str or kind is int:
                return [] if one == copy else None
            return [] if repr(one) == repr(copy) else None
        if isinstance(one, FunctionType | type | ModuleType):
            same = _name_of(one) == _name_of(copy)
            return [] if same else None
        if isinstance(one, _LOCKS):  # a lock holds no data
            return []
        if isinstance(one, MethodType):
            function = one.__func__, copy.__func__, loss
            return [function, (one.__self__, copy.__self__, loss)]
        if isinstance(one, BuiltinFunctionType):
            if one.__qualname__ != copy.__qualname__:
                return None
            return [(one.__self__, copy.__self__, loss)]
        plain: Any = kind
        if not _is_taken_apart(plain):
            if not self._is_equal(one, copy):
                return None
            return (
                self._attributes(one, copy) if is_users_module(kind.__module__) else []
            )
        inside = _compare_contents(one, copy)
        if inside is None:
            return None
        here = loss if kind.__module__ == "builtins" else Loss(kind, "")
        pairs = [(*pair, here) for pair in inside]
        return pairs + self._attributes(one, copy)

    def _attributes(self, one: Any, copy: Any) -> list[tuple[Any, Any, Loss]]:
        """Return the attributes to compare; those that nobody reads are left out."""
        kind: Any = type(one)
        mine, others = attributes_of(one), attributes_of(copy)
        fields = getattr(kind, "__dataclass_fields__", ())
        found = []
        for name in {**mine, **others}:
            if (
                is_users_module(kind.__module__)
                and name not in fields
                and not self._is_read(name)
            ):
                continue
            default: Any = _MISSING
            if name not in mine or name not in others:
                default = inspect.getattr_static(kind, name, _MISSING)
                if isinstance(default, functools.cached_property):
                    continue
                if isinstance(default, MemberDescriptorType):
                    default = _MISSING
            pair = mine.get(name, default), others.get(name, default)
            found.append((*pair, Loss(kind, name)))
        return found

    def _is_read(self, name: str) -> bool:
        if self._reads is None or name in self._reads:
            return True
        _, mark, private = name[1:].partition("__") if name[:1] == "_" else ("", "", "")
        return bool(mark) and f"__{private}" in self._reads

    def _is_equal(self, one: Any, copy: Any) -> bool:
        """Tell whether objects of a library are equal, by its word or as bytes."""
        if isinstance(one, np.ndarray) and not one.dtype.hasobject:
            same = one.dtype == copy.dtype and one.shape == copy.shape
            return bool(same and one.tobytes() == copy.tobytes())
        try:
            own: Any = type(one).__eq__
            if own is not object.__eq__ and bool(one == copy):
                return True
            return self._dump(one) == self._dump(copy)
        except Exception:  # noqa: BLE001 - whatever objects of others raise
            return False


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object, those in slots too; runs no code of its class.

    >>> from types import SimpleNamespace
    >>> attributes_of(SimpleNamespace(a=1))
    {'a': 1}
    """
    found: dict[str, Any] = {}
    kind: Any = type(value)
    for slot in _slots_of(kind):
        with contextlib.suppress(AttributeError):  # it is not set
            found[slot.__name__] = slot.__get__(value)
    if kind.__dictoffset__:
        found.update(object.__getattribute__(value, "__dict__"))
    return found


@functools.lru_cache(maxsize=1024)
def _slots_of(kind: Any) -> tuple[MemberDescriptorType, ...]:
    return tuple(
        entry
        for base in kind.__mro__
        if base.__flags__ & (1 << 9)  # written in Python
        for entry in vars(base).values()
        if isinstance(entry, MemberDescriptorType)
    )


@functools.lru_cache(maxsize=1024)
def _is_taken_apart(kind: Any) -> bool:
    """Tell whether objects consist of what built-in classes hold, and attributes."""
    return all(
        base in _BUILT_IN or base.__flags__ & (1 << 9)  # written in Python
        for base in kind.__mro__
    )


def _compare_contents(one: Any, copy: Any) -> list[tuple[Any, Any]] | None:
    """Return the pairs of parts of built-in containers; None if they differ."""
    for base, read in TEXTS.items():
        if isinstance(one, base):
            return [] if read(one) == read(copy) else None
    for base, iterate in _SEQUENCES.items():
        if isinstance(one, base):
            mine, others = list(iterate(one)), list(iterate(copy))
            return _pair(mine, others)
    if isinstance(one, dict):
        keys = _pair(list(dict.keys(one)), list(dict.keys(copy)))
        values = _pair(list(dict.values(one)), list(dict.values(copy)))
        return None if keys is None or values is None else keys + values
    if isinstance(one, set | frozenset):
        kind: Any = set if isinstance(one, set) else frozenset
        return [] if kind.__eq__(one, copy) else None
    return []


def _pair(mine: list[Any], others: list[Any]) -> list[tuple[Any, Any]] | None:
    if len(mine) != len(others):
        return None
    return list(zip(mine, others, strict=True))


def _name_of(value: Any) -> tuple[Any, Any]:
    own = getattr(value, "__qualname__", getattr(value, "__name__", None))
    return getattr(value, "__module__", None), own
