"""Lossless conversion of items to Arrow columns and back.

A tuple type whose attributes are plain scalars is sent as columns. A value that does
not match its annotation exactly (an int where a float was promised, a number beyond 64
bits) is not converted: `to_table` returns None, and the batch is pickled instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import repeat, starmap
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.connectors.files.values import is_made_plainly, takes_values_in_order
from anabranch.graph.types import SCALARS, fields_of, optional_of

ARROW: dict[type, pa.DataType] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


@dataclasses.dataclass(frozen=True)
class Form:
    """The column layout of a tuple type."""

    type: Any
    names: tuple[str, ...]
    types: tuple[type, ...]
    optional: tuple[bool, ...]

    @property
    def scalar(self) -> bool:
        """Whether an item is a plain value, in the one column `value`."""
        return self.type in SCALARS

    @cached_property
    def constructed(self) -> bool:
        """Whether the constructor takes all values and runs no user code."""
        return is_made_plainly(self.type) and takes_values_in_order(self.type)

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns, with plain strings."""
        return self._schema([ARROW[kind] for kind in self.types])

    def _schema(self, types: Sequence[pa.DataType]) -> pa.Schema:
        columns = zip(self.names, types, self.optional, strict=True)
        return pa.schema([pa.field(n, t, nullable=o) for n, t, o in columns])

    def table(self, arrays: Sequence[pa.Array]) -> pa.Table:
        """Return columns as a table; strings may be dictionary-encoded."""
        schema = self._schema([array.type for array in arrays])
        return pa.Table.from_arrays(arrays, schema=schema)


@lru_cache(maxsize=256)
def form_of(tuple_type: Any) -> Form | None:
    """Return the columns of a tuple type; None if it has to be pickled.

    >>> form_of(int).names
    ('value',)
    >>> form_of(dict) is None
    True
    """
    if tuple_type in SCALARS:
        return Form(tuple_type, ("value",), (tuple_type,), (False,))
    fields = fields_of(tuple_type)
    if not fields:
        return None
    if not _is_its_fields(tuple_type):
        return None
    inner = {name: optional_of(kind) for name, kind in fields.items()}
    types = tuple(inner[name] or kind for name, kind in fields.items())
    if any(kind not in ARROW for kind in types):
        return None
    optional = tuple(inner[name] is not None for name in fields)
    return Form(tuple_type, tuple(fields), types, optional)


def to_table(items: Sequence[Any], form: Form) -> pa.Table | None:
    """Return the items as columns, or None if one of them does not fit the type."""
    if set(map(type, items)) - {form.type} or _has_more(items, form):
        return None
    arrays = []
    for values, kind, optional in zip(
        _transpose(items, form), form.types, form.optional, strict=True
    ):
        found = set(map(type, values))
        if found - ({kind, type(None)} if optional else {kind}):
            return None
        try:
            arrays.append(pa.array(values, ARROW[kind]))
        except (pa.ArrowException, OverflowError, UnicodeError):
            return None
    return pa.Table.from_arrays(arrays, schema=form.schema)


def to_items(table: pa.Table, form: Form) -> list[Any]:
    """Return the items of a table, in its order."""
    columns = [values_of(table.column(name)) for name in form.names]
    if form.scalar:
        return columns[0]
    rows: Iterable[tuple[Any, ...]] = zip(*columns, strict=True)
    if issubclass(form.type, tuple):
        return list(map(tuple.__new__, repeat(form.type), rows))
    if form.constructed:
        return list(starmap(form.type, rows))
    return [_restore(form, row) for row in rows]


def _restore(form: Form, values: tuple[Any, ...]) -> Any:
    """Return an item as it was; its constructor may take fewer arguments, or change
    values.
    """
    made = object.__new__(form.type)
    for name, value in zip(form.names, values, strict=True):
        object.__setattr__(made, name, value)  # also into a frozen dataclass
    return made


def combine(column: pa.ChunkedArray) -> pa.Array | None:
    """Return a column as one array; None if it has too many bytes for one."""
    if column.num_chunks == 1:
        return column.chunk(0)
    made = column.combine_chunks()
    if not isinstance(made, pa.ChunkedArray):
        return made
    return made.chunk(0) if made.num_chunks == 1 else None


CODES = pa.dictionary(pa.int32(), pa.string())


def without_codes(table: pa.Table) -> pa.Table:
    """Return a table with all strings decoded."""
    for place, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):
            plain = field.with_type(field.type.value_type)
            column = table.column(place).cast(plain.type)
            table = table.set_column(place, plain, column)
    return table


def join_tables(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables; some may have dictionary-encoded strings.

    >>> coded = pa.table({"s": pa.array(["a"]).dictionary_encode()})
    >>> join_tables([coded, pa.table({"s": ["b"]})]).column("s").to_pylist()
    ['a', 'b']
    """
    if any(table.schema != tables[0].schema for table in tables):
        tables = [without_codes(table) for table in tables]
    return pa.concat_tables(tables).unify_dictionaries()


def encode_values(column: pa.ChunkedArray) -> pa.Array | None:
    """Return a column dictionary-encoded; None if it is too large for that."""
    array = combine(column)
    if array is None or pa.types.is_dictionary(array.type):
        return array
    return array.dictionary_encode()


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, quickly.

    Numbers go through NumPy, without importing pandas as `to_numpy` does. A repeated
    string becomes one shared object: that saves memory, and a dictionary hashes it only
    once.
    """
    if column.null_count or len(column) == 0:
        return column.to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.from_dlpack(column.combine_chunks()).tolist()  # type: ignore[no-any-return]
    few = pa.types.is_dictionary(column.type)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        head = column.slice(0, 1000)
        few = len(head.unique()) * 2 <= len(head)
    encoded = encode_values(column) if few else None
    if encoded is None:
        return column.to_pylist()  # type: ignore[no-any-return]
    words = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)
    return words[np.from_dlpack(encoded.indices)].tolist()  # type: ignore[no-any-return]


def _is_its_fields(tuple_type: Any) -> bool:
    """Tell whether an item consists of its fields and, at most, further attributes."""
    if issubclass(tuple_type, tuple):
        return True
    return object.__reduce_ex__ is tuple_type.__reduce_ex__ and _is_object(tuple_type)


def _is_object(tuple_type: Any) -> bool:
    """Tell whether an instance consists of its attributes only."""
    try:
        object.__new__(tuple_type)
    except TypeError:  # "is not safe": it is a dict, an exception or the like
        return False
    return True


def _has_more(items: Sequence[Any], form: Form) -> bool:
    """Tell whether an item has attributes that are no fields, or lacks a field."""
    if form.scalar:
        return False
    if issubclass(form.type, tuple):
        return bool(form.type.__dictoffset__) and any(map(vars, items))
    if not form.type.__dictoffset__:
        return not all(hasattr(item, name) for item in items for name in form.names)
    return any(map(len(form.names).__ne__, map(len, map(vars, items))))


def _transpose(items: Sequence[Any], form: Form) -> Iterable[Sequence[Any]]:
    if form.scalar:
        return (items,)
    if not items:
        return ((),) * len(form.names)
    if issubclass(form.type, tuple):
        return zip(*items, strict=True)
    return [list(map(_getter(name), items)) for name in form.names]


def _getter(name: str) -> Callable[[Any], Any]:
    return attrgetter(name)
