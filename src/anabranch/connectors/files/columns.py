"""The columns of an output: the attributes of the items.

A scalar has one column, `value`; a plain tuple has `value_1`, `value_2` and so on. All
items of an output have the same columns.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import operator
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, get_origin

from anabranch.connectors.files.values import format_duration
from anabranch.errors import OutputError
from anabranch.graph.types import fields_of

Names: TypeAlias = tuple[str, ...]
Values: TypeAlias = Sequence[Any]  # of one item, by column

VALUE: Names = ("value",)


def columns_of(kind: Any) -> Names | None:
    """Return the columns of a type's items; None if the type does not determine them.

    >>> columns_of(float), columns_of(None)
    (('value',), None)
    """
    fields = fields_of(kind)
    if fields is not None:
        return tuple(fields)
    if not isinstance(kind, type) or issubclass(get_origin(kind) or kind, tuple):
        return None
    return VALUE


def columns_of_item(item: Any) -> Names:
    """Return the columns of an item.

    >>> columns_of_item(("a", 1)), columns_of_item("a")
    (('value_1', 'value_2'), ('value',))
    """
    if isinstance(item, tuple):
        named: Names | None = getattr(item, "_fields", None)
        return named or tuple(f"value_{n}" for n in range(1, len(item) + 1))
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return tuple(field.name for field in dataclasses.fields(item))
    return VALUE


class RowValues:
    """Splits items into the values of their columns.

    >>> RowValues(None).values((1, 2))
    (1, 2)
    """

    def __init__(self, names: Names | None) -> None:
        """Require `names` or, if None, the columns of the first item."""
        self.names = names
        self._getters: dict[type, Callable[[Any], Values]] = {}

    def values(self, item: Any) -> Values:
        """Return the values of an item, whose columns must be those of the others."""
        getter = self._getters.get(type(item))
        return self._first_of_type(item) if getter is None else getter(item)

    def of_all(self, items: Iterable[Any]) -> list[Values]:
        """Return the values of many items."""
        return [self.values(item) for item in items]

    def of_one_type(self, items: Sequence[Any]) -> Sequence[Values] | None:
        """Return the values of items of one known type; None otherwise.

        Those of tuples are the tuples themselves.

        >>> rows = RowValues(None)
        >>> rows.of_one_type([1, 2]) is None, rows.values(1), rows.of_one_type([2, 3])
        (True, (1,), [(2,), (3,)])
        """
        kinds = set(map(type, items))
        if self.names is None or len(kinds) != 1:
            return None
        (kind,) = kinds
        getter = self._getters.get(kind)
        if kind is tuple and columns_of_item(items[0]) == self.names:
            getter = tuple
        if getter is tuple:
            return items if set(map(len, items)) == {len(self.names)} else None
        return None if getter is None else list(map(getter, items))

    def _first_of_type(self, item: Any) -> Values:
        found = columns_of_item(item)
        if self.names is None:
            self.names = found
        elif self.names != found:
            msg = (
                f"items of one output must have the same attributes; the columns are "
                f"{', '.join(self.names)}; got {item!r} with {', '.join(found)}; "
                f"map them to one type, or write them to outputs of their own"
            )
            raise OutputError(msg)
        if type(item) is tuple:  # another one may have another length
            return item
        getter = self._getters[type(item)] = _getter(item, found)
        return getter(item)


def refuse_unwritable_text(values: Values, names: Names) -> None:
    """Raise `OutputError` if a text cannot be encoded in UTF-8.

    >>> refuse_unwritable_text((1, "ä"), ("n", "text"))
    """
    for name, value in zip(names, values, strict=False):
        if isinstance(value, str) and not _has_utf8(value):
            msg = (
                f"column {name!r} must be text that UTF-8 can hold; got {value!r}, with "
                f"half of a surrogate pair; map it first, for example with "
                f".encode('utf-8', 'replace').decode()"
            )
            raise OutputError(msg)


def _has_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def have_writable_texts(rows: Sequence[Values]) -> bool:
    """Tell whether all texts in rows can be encoded in UTF-8.

    >>> have_writable_texts([(1, "a"), (2, None)]), have_writable_texts([(chr(0xD800),)])
    (True, False)
    """
    return all(
        _has_utf8("".join([value for value in column if isinstance(value, str)]))
        for column in zip(*rows, strict=True)
        if not {str}.isdisjoint(map(type, column))
    )


def plain(value: Any) -> Any:
    """Return a value as a file can hold it: None, a bool, a number or a text.

    >>> plain(dt.date(2026, 1, 31)), plain(b"text")
    ('2026-01-31', 'text')
    """
    for kind, form in _FORMS:
        if isinstance(value, kind):
            return form(value)
    if getattr(value, "shape", None) == ():  # a NumPy scalar
        return plain(value.item())
    raise TypeError(value)


_FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (enum.Enum, lambda member: plain(member.value)),
    ((bool, type(None)), lambda value: value),
    (str, str),
    (int, int),
    (float, float),
    (bytes, bytes.decode),
    ((dt.date, dt.time), lambda moment: moment.isoformat()),
    ((decimal.Decimal, uuid.UUID), str),
    (dt.timedelta, format_duration),
)


def _getter(item: Any, names: Names) -> Callable[[Any], Values]:
    if isinstance(item, tuple):
        return tuple
    if names == VALUE and not dataclasses.is_dataclass(item):
        return lambda scalar: (scalar,)
    if len(names) == 1:
        get = operator.attrgetter(names[0])
        return lambda item: (get(item),)
    return operator.attrgetter(*names)
