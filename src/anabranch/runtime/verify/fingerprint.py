"""Fingerprints of what a function can reach: its cells, globals and attributes.

A fingerprint is the list of all plain values found on a walk from the function, in walk
order. Two fingerprints of a function differ if something it can reach has changed in
between, and the first difference tells what.

The walk follows what the code names: globals by name, attributes if code on the walk
uses their name. So a counter beside a setting does not look like a change of the
setting. No user code runs: attributes are read from dictionaries and slots, and of
library objects only those are inspected that are known to change visibly.
"""

from __future__ import annotations

import collections
import enum
import functools
import io
import random
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from types import (
    CellType,
    CodeType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from anabranch.graph.code_names import names_of
from anabranch.graph.site import is_users_file, is_users_module
from anabranch.operators.custom import Operator

Path: TypeAlias = tuple[Any, str]  # the path to its owner, and the name there

_ROOT: Path = ((), "")
_EXACT = frozenset({int, bool, str, bytes, type(None)})
_BY_TEXT = frozenset({float, complex, range, slice, type(Ellipsis), count})
_LOOKED_INTO: tuple[Any, ...] = (
    *(dict, MappingProxyType, list, tuple, collections.deque, set, frozenset),
    *(np.ndarray, GeneratorType),
)
_COLLECTIONS = (dict, list, tuple, collections.deque, set, frozenset)
_LONG = 1 << 12  # of a text kept as a checksum
_DEEPEST = 60
_ITERATED: tuple[Any, ...] = ([], (), {}, {}.values(), {}.items(), set(), range(0))
_ITERATORS = frozenset({*(type(iter(one)) for one in _ITERATED), type(reversed([]))})
# Methods that build or show a whole object: they name attributes that nothing uses.
_SHOWING = frozenset(
    [
        "__init__",
        "__new__",
        "__post_init__",
        "__repr__",
        "__str__",
        "__format__",
        "__eq__",
    ]
)
_MAKING = frozenset(["__init__", "__new__", "__post_init__", "__setattr__"])
# Names by which code creates an item of another's class without naming the class.
_REMAKING = frozenset(
    ["replace", "_replace", "_make", "type", "__class__", "copy", "deepcopy"]
)
# Methods that engines call.
_CALLED = frozenset(name for name in vars(Operator) if not name.startswith("_"))
_OF_CLASSES = ("__dict__", "__weakref__", "__doc__", "__annotations__", "__module__")


class Limits(NamedTuple):
    """Limits of the walk: elements of a container, and values in all."""

    elements: int
    values: int


SAMPLE = Limits(64, 2_000)
EVERYTHING = Limits(10**9, 10**9)


class ReachChange(NamedTuple):
    """Something that a function can reach, before and after a change."""

    what: str
    before: str
    after: str


class Fingerprint(NamedTuple):
    """The plain values on a walk, with their paths."""

    values: list[Any]
    paths: list[Path]

    @property
    def names(self) -> frozenset[str]:
        """The names of everything found."""
        return frozenset(map(_name, self.paths))

    def change_to(self, later: Fingerprint) -> ReachChange | None:
        """Return the first difference to a later fingerprint, or None.

        >>> state = []
        >>> def count(item): return len(state)
        >>> reach = Reach([count])
        >>> before = reach.look()
        >>> state.append(1)
        >>> before.change_to(reach.look())
        ReachChange(what='global state', before='a list of 0', after='a list of 1')
        """
        if self.values == later.values:
            return None
        pairs = zip(self.values, later.values, strict=False)
        index = next((i for i, (old, new) in enumerate(pairs) if old != new), None)
        if index is None:
            index = min(len(self.values), len(later.values)) - 1
        path = _name(later.paths[index])
        return ReachChange(
            path, _describe(self.values[index]), _describe(later.values[index])
        )


class Reach:
    """Everything that some functions, classes and values lead to.

    `types` are those of items from elsewhere: other code has called their constructors.
    A class that the code itself names belongs to the roots.
    """

    def __init__(
        self,
        roots: Iterable[Any],
        limits: Limits = SAMPLE,
        *,
        types: Iterable[type] = (),
    ) -> None:
        self._roots = list(roots)
        self._types = list(types)
        self._limits = limits
        self._attributes: frozenset[str] | None = frozenset()
        self._learn()

    def look(self) -> Fingerprint:
        """Return the current fingerprint."""
        walk = self._walk()
        return Fingerprint(walk.values, walk.paths)

    @property
    def objects(self) -> frozenset[int]:
        """The identities of the mutable objects on the walk."""
        return frozenset(self._walk().seen)

    @property
    def found(self) -> list[Any]:
        """The mutable objects on the walk, and the code."""
        return list(self._walk().seen.values())

    @property
    def modules(self) -> frozenset[str]:
        """The names of the modules that the code uses."""
        return frozenset(self._walk().modules)

    def _learn(self) -> None:
        """Find the attributes named by code on the walk; they may lead to more code."""
        while self._attributes is not None:
            walk = self._walk()
            if walk.computed:
                self._attributes = None
            elif walk.names == self._attributes:
                return
            else:
                self._attributes = frozenset(walk.names)

    def _walk(self) -> _ReachWalk:
        walk = _ReachWalk(self._attributes, self._limits)
        for root in self._roots:
            walk.visit(root, _ROOT, 0)
        remade = self._attributes is None or bool(_REMAKING & walk.used)
        for one in self._types:
            walk.visit_type(one, with_constructor=remade)
        return walk


class _ReachWalk:
    def __init__(self, attributes: frozenset[str] | None, limits: Limits) -> None:
        self.values: list[Any] = []
        self.paths: list[Path] = []
        self.names: set[str] = set(attributes or ())
        self.computed = False
        self.seen: dict[int, Any] = {}
        self.modules: set[str] = set()
        self.used: set[str] = set()  # globals and attributes that code names
        self._attributes = attributes
        self._without: frozenset[str] = frozenset()  # class members to skip
        self._limits = limits

    def _leaf(self, value: Any, path: Path) -> None:
        self.values.append(value)
        self.paths.append(path)

    def visit(self, value: Any, path: Path, depth: int) -> None:
        kind = type(value)
        if kind in _EXACT:
            if kind in (str, bytes) and len(value) > _LONG:
                value = (len(value), hash(value))
            self._leaf((kind, value), path)
            return
        if kind in _BY_TEXT:
            self._leaf((kind, repr(value)), path)
            return
        if id(value) in self.seen or len(self.values) > self._limits.values:
            return
        if depth > _DEEPEST:
            self._leaf((kind,), path)
            return
        # keeps the object alive while its identity is in use
        self.seen[id(value)] = value
        self._visit_object(value, path, depth + 1)

    def visit_type(self, cls: type, *, with_constructor: bool) -> None:
        """Visit the type of items from elsewhere."""
        self._without = frozenset() if with_constructor else _MAKING
        self.visit(cls, _ROOT, 0)
        self._without = frozenset()

    def _visit_object(self, value: Any, path: Path, depth: int) -> None:
        wrapped = _WRAPPERS.get(type(value))
        within = type(value) is functools.partial
        if wrapped is not None:
            for one in wrapped(value):
                self.visit(one, (path, "an argument") if within else path, depth)
            return
        kind: Any = type(value)
        if kind is FunctionType:
            self._function(value, path, depth)
        elif issubclass(kind, ModuleType):
            self._module(value, path, depth)
        elif issubclass(kind, type):
            self._class(value, path, depth)
        else:
            self._data(kind, value, path, depth)
            if is_users(kind):
                self.visit(kind, path, depth)
                self._members(attributes_of(value), path, depth)

    def _function(self, function: FunctionType, path: Path, depth: int) -> None:
        code = function.__code__
        self._leaf((FunctionType, code), path)
        if code.co_filename == "<string>" or not is_users_file(code.co_filename):
            return
        names = names_of(code)
        if function.__name__ not in _SHOWING:
            self.names |= names.attributes
            self.computed |= names.computed
        self.used |= names.globals | names.attributes
        inside = function.__globals__
        for name in sorted(names.globals):
            if name in inside:
                self.visit(inside[name], (path, f"global {name}"), depth)
        cells = zip(code.co_freevars, function.__closure__ or (), strict=False)
        for name, cell in cells:
            self.visit(cell, (path, name), depth)
        for default in function.__defaults__ or ():
            self.visit(default, (path, f"a default of {function.__name__}"), depth)
        for name, default in (function.__kwdefaults__ or {}).items():
            self.visit(default, (path, name), depth)
        own = {k: v for k, v in vars(function).items() if k != "__anabranch__"}
        self._members(own, (path, function.__name__), depth)

    def _module(self, module: ModuleType, path: Path, depth: int) -> None:
        self.modules.add(module.__name__)
        self._leaf((ModuleType, module.__name__), path)
        file = getattr(module, "__file__", None)
        if file is None or is_users_file(file):
            self._members(vars(module), (path, module.__name__), depth)

    def _class(self, cls: type, path: Path, depth: int) -> None:
        self._leaf((type, cls.__qualname__), path)
        if not is_users(cls):
            return
        for base in cls.__mro__[1:-1]:
            self.visit(base, path, depth)
        self.visit(type(cls), path, depth)
        for name, member in list(vars(cls).items()):
            if name in self._without:
                continue
            where = (path, f"{cls.__name__}.{name}")
            if isinstance(member, FunctionType | staticmethod | classmethod | property):
                if name.startswith("__") or name in _CALLED or self._is_named(name):
                    self.visit(member, where, depth)
            elif isinstance(member, enum.Enum):
                self.visit(member._value_, where, depth)
            elif self._is_named(name) and name not in _OF_CLASSES:
                self.visit(member, where, depth)

    def _data(self, kind: Any, value: Any, path: Path, depth: int) -> None:
        base = next((one for one in _LOOKED_INTO if issubclass(kind, one)), None)
        if base is None:
            self._leaf((kind, *_summary(kind, value)), path)
        elif base is GeneratorType:
            self._generator(value, path, depth)
        elif base is np.ndarray:
            self._array(value, path, depth)
        else:
            size = base.__len__(value)
            self._leaf((kind, size), path)
            if base in (dict, MappingProxyType):
                self._pairs(size, base.items(value), path, depth)
            else:
                self._elements(size, base.__iter__(value), path, depth)

    def _array(self, value: Any, path: Path, depth: int) -> None:
        if value.dtype.hasobject:
            self._leaf((np.ndarray, value.shape), path)
            self._elements(value.size, value.flat, path, depth)
            return
        flat = value.reshape(-1)
        step = max(1, flat.size // (self._limits.elements << 6))
        seen = zlib.crc32(np.ascontiguousarray(flat[::step]).tobytes())
        self._leaf((np.ndarray, value.shape, value.dtype.str, seen), path)

    def _pairs(
        self, size: int, items: Iterable[tuple[Any, Any]], path: Path, depth: int
    ) -> None:
        step = max(1, size // self._limits.elements)
        for key, one in islice(items, 0, None, step):
            self.visit(key, path, depth)
            name = f"[{key!r}]" if type(key) in _EXACT else "[...]"
            self.visit(one, (path, name), depth)

    def _elements(
        self, size: int, elements: Iterator[Any], path: Path, depth: int
    ) -> None:
        step = max(1, size // self._limits.elements)
        for index, one in enumerate(islice(elements, 0, None, step)):
            self.visit(one, (path, f"[{index * step}]"), depth)

    def _generator(self, value: Any, path: Path, depth: int) -> None:
        frame = value.gi_frame
        self._leaf((GeneratorType, None if frame is None else frame.f_lasti), path)
        if frame is not None:
            for name, one in list(frame.f_locals.items()):
                self.visit(one, (path, name), depth)

    def _members(self, members: dict[str, Any], path: Path, depth: int) -> None:
        for name, member in list(members.items()):
            if self._is_named(name) and not name.startswith("__"):
                self.visit(member, (path, f".{name}"), depth)

    def _is_named(self, name: str) -> bool:
        return self._attributes is None or name in self._attributes


_WRAPPERS: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    MethodType: lambda value: (value.__func__, value.__self__),
    functools.partial: lambda value: (value.func, value.args, value.keywords),
    functools._lru_cache_wrapper: lambda value: (value.__wrapped__,),  # noqa: SLF001
    property: lambda value: (value.fget, value.fset, value.fdel),
    staticmethod: lambda value: (value.__func__,),
    classmethod: lambda value: (value.__func__,),
    CellType: lambda value: (_content(value),),
}
_SUMMARIES: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    bytearray: lambda value: (len(value), zlib.crc32(value)),
    array: lambda value: (len(value), zlib.crc32(value)),
    random.Random: lambda value: (hash(value.getstate()),),
    np.random.Generator: lambda value: (repr(value.bit_generator.state),),
    io.StringIO: lambda value: () if value.closed else (value.tell(),),
    io.BytesIO: lambda value: () if value.closed else (value.tell(),),
    **dict.fromkeys(_ITERATORS, lambda value: (value.__length_hint__(),)),
}


def _summary(kind: type, value: Any) -> tuple[Any, ...]:
    """Return a summary that distinguishes foreign objects."""
    if issubclass(kind, np.generic):
        return (value.tobytes(),)
    summarise = _SUMMARIES.get(kind)
    return () if summarise is None else summarise(value)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


@functools.lru_cache(maxsize=4096)
def is_users(cls: Any) -> bool:
    """Tell whether a class is the user's: one of its methods is, or its module."""
    if cls.__module__ == "builtins":
        return False
    members = (getattr(one, "__func__", one) for one in vars(cls).values())
    codes = (getattr(one, "__code__", None) for one in members)
    own = (code.co_filename for code in codes if isinstance(code, CodeType))
    written = any(file[:1] != "<" and is_users_file(file) for file in own)
    return written or is_users_module(cls.__module__)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes of an object without running its code."""
    found: dict[str, Any] = {}
    for base in type(value).__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, MemberDescriptorType):
                try:
                    found[name] = slot.__get__(value)
                except AttributeError:
                    continue
    try:
        own = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return found
    return {**found, **{n: one for n, one in own.items() if not _is_cached(value, n)}}


def _is_cached(value: Any, name: str) -> bool:
    """Tell whether an attribute holds the value of a `cached_property`."""
    members = (vars(base).get(name) for base in type(value).__mro__)
    return any(isinstance(one, functools.cached_property) for one in members)


def _name(path: Path) -> str:
    """Return a path in words, starting at the last global, variable or class.

    >>> _name((((_ROOT, "global CONFIG"), ".limits"), "[0]"))
    'global CONFIG.limits[0]'
    """
    names: list[str] = []
    while path != _ROOT:
        path, name = path
        names.append(name)
        if not name.startswith((".", "[")):
            break
    return "".join(reversed(names)) or "what it was made with"


def _describe(value: tuple[Any, ...]) -> str:
    """Return a value of a fingerprint in words.

    >>> _describe((int, 3)), _describe((list, 2))
    ('3', 'a list of 2')
    """
    kind, *rest = value
    if kind in _BY_TEXT:
        return str(rest[0])
    if kind in _EXACT:
        text = repr(rest[0])
        return text if len(text) <= 60 else f"{text[:57]}..."  # noqa: PLR2004
    name = getattr(kind, "__name__", str(kind))
    match rest:
        case [int(size)] if issubclass(kind, _COLLECTIONS):
            return f"a {name} of {size}"
        case []:
            return f"a {name}"
    return f"a {name} with {', '.join(map(str, rest))}"
