"""The types of the objects that reach an operator: its items and their contents.

Annotations are not enough: a `str` may be a subclass with methods of its own, and an
item without an annotation may be a set, whose order differs between processes. So the
items of a list are inspected, and the outputs of an operator are followed from function
to function.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    is_scalar_type,
    is_table_type,
    is_users_class,
    list_held,
)

_CLOSED: tuple[type, ...] = (*CALLABLES, types.ModuleType, enum.Enum, np.generic)
_PLAIN = (tuple, list, set, frozenset)
_SETS = (set, frozenset)
_AT_ONCE = 10_000


class Arrival(NamedTuple):
    """The types of items (`top`) and of everything reachable from them (`types`).

    Unless it is `complete`, there may be objects of other types. `sets` tells whether a
    set may be among them, `nans` whether one NaN occurs twice: it equals itself only as
    the same object, and a copy in another process is not. `twins` tells whether one
    object may be part of several items: copies of these have one object each.
    """

    top: frozenset[type]
    types: frozenset[type]
    complete: bool
    sets: bool
    nans: bool = False
    twins: bool = False

    def __or__(self, other: object) -> Arrival:
        """Return the union of two arrivals."""
        if not isinstance(other, Arrival):
            return NotImplemented
        return Arrival(
            self.top | other.top,
            self.types | other.types,
            self.complete and other.complete,
            self.sets or other.sets,
            self.nans or other.nans,
            self.twins or other.twins,
        )


NOBODY: Final = Arrival(frozenset(), frozenset(), complete=True, sets=False)
ANYTHING: Final = Arrival(frozenset(), frozenset(), complete=False, sets=True)
SOMETHING: Final = ANYTHING._replace(sets=False)  # contents unknown, but no set


def arrival_of(items: Iterable[type], *, complete: bool = True) -> Arrival:
    """Return the arrival of items of the given types that contain nothing else.

    >>> arrival_of([int]).complete, arrival_of([frozenset]).sets
    (True, True)
    """
    found = frozenset(items)
    return Arrival(found, found, complete, any(issubclass(t, _SETS) for t in found))


def look_into(items: Sequence[Any], *, often: bool = False) -> Arrival:
    """Return the types of objects and of their contents; runs no user code.

    With `often`, each of them may be in several items.

    >>> sorted(t.__name__ for t in look_into([{"a": [1]}, {"b": {2.0}}]).types)
    ['dict', 'float', 'int', 'list', 'set', 'str']
    """
    top: set[type] = set(map(type, items))
    nans: list[int] = []
    if all(map(is_scalar_type, top)):
        if float in top:
            nans += _nans(items) if len(top) == 1 else _find_nans(items)
        return arrival_of(top)._replace(nans=_occur_again(nans, often=often))
    found = NOBODY
    seen: dict[int, Any] = {}
    for first in range(0, len(items), _AT_ONCE):
        found |= _look_deeply(items[first : first + _AT_ONCE], seen, nans)
    again = _occur_again(nans, often=often)
    return found._replace(top=frozenset(top), nans=again)


def _occur_again(nans: Sequence[int], *, often: bool) -> bool:
    return bool(nans) if often else len(nans) > len({*nans})


def _nans(floats: Sequence[float]) -> Iterable[int]:
    """Return the identities of the NaNs among floats, once per occurrence."""
    # A NaN makes the sum one.
    return _find_nans(floats) if math.isnan(sum(floats)) else ()


def _find_nans(scalars: Sequence[Any]) -> list[int]:
    return [id(x) for x in scalars if x != x]  # noqa: PLR0124 - the test for NaN


def _look_deeply(
    level: Sequence[Any], seen: dict[int, Any], nans: list[int]
) -> Arrival:
    """Inspect objects level by level, all of one type at once: there may be many."""
    found: set[type] = set()
    complete, twins = True, False
    while level:
        kinds = set(map(type, level))
        found |= kinds
        parts: list[Any] = []
        for kind in kinds:
            if _is_closed(kind) and kind is not float:
                continue
            same: Sequence[Any] = level
            if len(kinds) > 1:
                same = [o for o in level if type(o) is kind]
            if kind is float:
                nans += _nans(same)
                continue
            if not issubclass(kind, tuple | frozenset):  # these are acyclic
                new = {id(each): each for each in same if id(each) not in seen}
                twins = twins or len(new) < len(same)
                seen.update(new)
                same = [*new.values()]
            columns = _columns(kind, same) if same else None
            if columns is not None:
                for column in columns:
                    parts += _keep_open(column, found, nans)
                continue
            inside = _parts(kind, same) if same else ()
            complete = complete and inside is not None
            parts.extend(inside or ())
        level = parts
    return arrival_of(found, complete=complete)._replace(twins=twins)


_Column: TypeAlias = Callable[[], Iterable[Any]]  # an attribute of all objects


def _columns(kind: type, objects: Sequence[Any]) -> list[_Column] | None:
    """Return the parts of objects of one form, attribute by attribute, else None.

    Most items are records: named tuples, or dataclasses with the same attributes. An
    attribute usually has one type in all of them, and is then done with at once.
    """
    held: Sequence[Any] = objects
    if issubclass(kind, tuple):
        if kind.__getitem__ is not tuple.__getitem__ or kind.__dictoffset__:
            return None
        places: Iterable[Any] = range(tuple.__len__(objects[0]))
        own_length = kind.__len__ is tuple.__len__
        lengths = set(map(len if own_length else tuple.__len__, objects))
    elif is_users_class(kind) and kind.__dictoffset__:
        if issubclass(kind, CONTAINERS):
            return None
        held = [object.__getattribute__(each, "__dict__") for each in objects]
        places = [*held[0]]
        lengths = {0} if len(set(map(tuple, held))) == 1 else {0, 1}
    else:
        return None
    if len(lengths) > 1 or _slots(kind):
        return None
    return [partial(map, itemgetter(place), held) for place in places]


def _keep_open(column: _Column, found: set[type], nans: list[int]) -> Iterable[Any]:
    """Note the types of objects that contain nothing; return the objects if others
    do.
    """
    kinds = set(map(type, column()))
    if not all(map(_is_closed, kinds)):
        return column()
    found |= kinds
    if float in kinds:
        floats = (o for o in column() if type(o) is float)
        nans += _nans([*column()] if len(kinds) == 1 else [*floats])
    return ()


def find_held(items: Sequence[Any], identities: Collection[int]) -> list[Any]:
    """Return the objects with these identities that items are or contain.

    >>> inner = [1]
    >>> find_held([{"a": inner}], {id(inner)})
    [[1]]
    """
    found: list[Any] = []
    level, seen = items, set[int]()
    while level:
        level = [each for each in level if not _is_closed(type(each))]
        level = [each for each in level if id(each) not in seen]
        seen.update(map(id, level))
        found += [each for each in level if id(each) in identities]
        kinds = set(map(type, level))
        alike = ([each for each in level if type(each) is kind] for kind in kinds)
        parts = (_parts(kind, same) for kind, same in zip(kinds, alike, strict=True))
        level = [*itertools.chain.from_iterable(each or () for each in parts)]
    return found


def _is_closed(kind: type) -> bool:
    return is_scalar_type(kind) or issubclass(kind, _CLOSED)


def _parts(kind: type, objects: Sequence[Any]) -> Iterable[Any] | None:
    """Return the parts of objects of a type, or None if they cannot be inspected."""
    found: list[Iterable[Any]] = []
    if issubclass(kind, CONTAINERS):
        plain: Any = next((base for base in _PLAIN if issubclass(kind, base)), None)
        if plain is None:
            found.extend(map(list_held, objects))
        else:
            found.append(itertools.chain.from_iterable(map(plain.__iter__, objects)))
    elif is_table_type(kind):
        found.extend(map(_list_in_table, objects))
    if not is_users_class(kind):
        return itertools.chain.from_iterable(found) if found else None
    if kind.__dictoffset__:
        own = (object.__getattribute__(each, "__dict__") for each in objects)
        found.extend(map(dict.values, own))
    for slot in _slots(kind):
        for each in objects:
            with contextlib.suppress(AttributeError):
                found.append((slot.__get__(each),))
    return itertools.chain.from_iterable(found)


def _list_in_table(table: Any) -> Iterable[Any]:
    """Return the contents and labels of a pandas table, column or index."""
    if table.ndim > 1:
        return [table.index, table.columns, *(column for _, column in table.items())]
    labels = [*getattr(table, "names", (table.name,)), getattr(table, "index", None)]
    kind = table.dtype
    if isinstance(kind, np.dtype) and not kind.hasobject:
        return labels
    return itertools.chain(labels, table.to_numpy(dtype=object))


def _slots(kind: type) -> list[Any]:
    entries = itertools.chain.from_iterable(
        vars(base).values() for base in kind.__mro__
    )
    return [each for each in entries if isinstance(each, types.MemberDescriptorType)]
