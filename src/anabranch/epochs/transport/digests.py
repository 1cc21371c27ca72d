"""Digests of values, the same in all processes, that run no code of the user's."""

from __future__ import annotations

import enum
import hashlib
import re
import zlib
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache, partial
from itertools import chain
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any, NamedTuple

import numpy as np

from anabranch.epochs.transport.losses import TEXTS, find_hook, find_library_hook
from anabranch.runtime.verify.fingerprint import attributes_of, is_users

_MOST_PARTS = 1 << 16  # of a value
_MOST_BYTES = 1 << 26  # of an array
_LEAVES = frozenset({int, bool, str, bytes, bytearray, float, complex, type(None)})
_BY_TEXT = frozenset(
    ["datetime", "decimal", "fractions", "uuid", "pathlib", "ipaddress", "zoneinfo"]
)  # modules whose values show all they are


class Digest(NamedTuple):
    """A digest of a value; `whole` if it covers all of it, and no code is run to copy it."""

    data: bytes
    whole: bool


def digest_value(value: Any, names: Collection[str] | None = None) -> Digest:
    """Return the digest of a value.

    Of an object of the user's the attributes with these names count; None for all.

    >>> digest_value({"a": [1, {2.0}]}) == digest_value({"a": [1, {2.0}]})
    True
    >>> digest_value({"a": 1}) == digest_value({"a": True})
    False
    >>> digest_value([iter("ab")]).whole
    False
    """
    walk = _DigestWalk(names)
    return Digest(walk.of(value), walk.whole)


class _DigestWalk:
    def __init__(self, names: Collection[str] | None) -> None:
        self.whole = True
        self._names = names
        self._left = _MOST_PARTS
        self._seen: dict[int, Any] = {}  # keeps what has an identity alive

    def of(self, value: Any) -> bytes:  # noqa: PLR0911 - one return for each kind
        kind: Any = type(value)
        self._left -= 1
        if self._left < 0:
            self.whole = False
            return b""
        if kind in _LEAVES or kind.__module__ in _BY_TEXT:
            return _hash(kind.__qualname__, repr(value))
        if issubclass(kind, enum.Enum):
            return _hash(kind.__qualname__, value.name)
        if issubclass(kind, np.ndarray | np.generic) and not is_users(kind):
            return _hash(*_show_array(np.asarray(value)))
        if kind is re.Pattern:
            return _hash("re.Pattern", repr(value.pattern), str(value.flags))
        if id(value) in self._seen:
            return _hash("again")
        self._seen[id(value)] = value
        return _hash(kind.__qualname__, *self._parts(kind, value))

    def _parts(self, kind: Any, value: Any) -> Iterable[bytes | str]:
        if issubclass(kind, ModuleType):
            return [value.__name__]
        if issubclass(kind, type):
            return [value.__module__, value.__qualname__]
        for known, inside in _INSIDE.items():
            if kind is known:
                return map(self.of, inside(value))
        self.whole &= kind in _KNOWN or (is_users(kind) and _has_no_hook(kind))
        texts = [read for base, read in TEXTS.items() if issubclass(kind, base)]
        parts: Iterable[Any] = [read(value) for read in texts]
        for base, inside in _CONTAINERS.items():
            if issubclass(kind, base):
                parts = inside(value)
                if base in (set, frozenset):  # they have no order
                    return sorted(map(self.of, parts))
        if is_users(kind):
            own = sorted(attributes_of(value).items(), key=lambda pair: str(pair[0]))
            used = [
                pair for pair in own if self._names is None or pair[0] in self._names
            ]
            parts = chain(parts, chain.from_iterable(used))
        return map(self.of, parts)


def _has_no_hook(kind: type) -> bool:
    return find_hook(kind) is None and find_library_hook(kind) is None


def _hash(*parts: bytes | str) -> bytes:
    made = hashlib.blake2b(digest_size=16)
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.digest()


def _show_array(array: Any) -> tuple[str, ...]:
    shown = array.dtype.str, str(array.shape)
    if array.dtype.hasobject:
        return shown
    flat = array.reshape(-1)
    step = max(1, array.nbytes // _MOST_BYTES)
    return *shown, str(zlib.crc32(np.ascontiguousarray(flat[::step]).tobytes()))


def _within(function: FunctionType) -> Iterable[Any]:
    """Return what tells a function from others.

    Lambdas have one name. The code of others may differ: pytest rewrites assertions.
    """
    code = function.__code__ if function.__name__ == "<lambda>" else _NO_CODE
    cells = [
        cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)
    ]
    return [
        *(function.__module__, function.__qualname__, code.co_code, code.co_names),
        *(one for one in code.co_consts if type(one) in _LEAVES),
        *(function.__defaults__, function.__kwdefaults__, cells),
    ]


def _within_builtin(function: BuiltinFunctionType) -> Iterable[Any]:
    owner = function.__self__
    bound = None if isinstance(owner, ModuleType) else owner
    return function.__module__, function.__qualname__, bound


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - raises if it is empty
    except ValueError:
        return False
    return True


_NO_CODE = compile("", "", "exec")
_INSIDE: Mapping[type, Callable[[Any], Iterable[Any]]] = {
    type(lru_cache(len)): lambda value: (value.__wrapped__,),
    FunctionType: _within,
    BuiltinFunctionType: _within_builtin,
    MethodType: lambda value: (value.__func__, value.__self__),
    partial: lambda value: (value.func, value.args, value.keywords),
}
_CONTAINERS: Mapping[type, Callable[[Any], Iterable[Any]]] = {
    dict: lambda value: chain.from_iterable(dict.items(value)),
    MappingProxyType: lambda value: chain.from_iterable(value.items()),
    list: list.__iter__,
    tuple: tuple.__iter__,
    deque: deque.__iter__,
    set: set.__iter__,
    frozenset: frozenset.__iter__,
}
_KNOWN = frozenset([*_CONTAINERS, Counter, OrderedDict, defaultdict])
