"""Parquet: columns of the attributes' types, or of what their values look like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from anabranch.errors import OutputError
from anabranch.graph.types import fields_of, optional_of
from anabranch.runtime.writing.columns import Names, Rows, Values, columns_of

_ARROW_TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}
_ALWAYS_FIT = {  # an int may be too long
    (kind, known) for kind, known in _ARROW_TYPES.items() if kind is not int
}


def arrow_types(kind: Any) -> dict[str, Any]:
    """Return the Arrow type of each column that the type of the items tells.

    >>> arrow_types(float | None)
    {}
    >>> arrow_types(float)
    {'value': DataType(double)}
    """
    fields: Mapping[str, Any] | None = fields_of(kind)
    if fields is None:
        fields = dict.fromkeys(columns_of(kind) or (), kind)
    known = {
        name: _ARROW_TYPES.get(optional_of(annotation) or annotation)
        for name, annotation in fields.items()
    }
    return {name: found for name, found in known.items() if found is not None}


def table_of(
    items: Iterable[Any], names: Names | None, types: Mapping[str, Any]
) -> Any:
    """Return items as an Arrow table; `types` are those of the columns that are known.

    >>> table_of([(1, "a")], None, {}).to_pydict()
    {'value_1': [1], 'value_2': ['a']}
    """
    rows = Rows(names)
    values = rows.of_all(items)
    return table_of_values(values, rows.names or (), types)


def table_of_values(
    values: Sequence[Values], names: Names, types: Mapping[str, Any]
) -> Any:
    """Return rows of values as an Arrow table."""
    columns = list(zip(*values, strict=True)) or [()] * len(names)
    return pa.table(
        {
            name: _array(name, column, types.get(name))
            for name, column in zip(names, columns, strict=True)
        }
    )


def refuse_misfit(name: str, value: Any, known: Any) -> None:
    """Raise `OutputError` if a value does not fit a column of a known type."""
    if value is None or (type(value), known) in _ALWAYS_FIT:
        return
    try:
        pa.array([value], known)
    except (pa.ArrowException, OverflowError) as error:
        msg = f"column {name!r} must be {known}; got {value!r} ({error}); map it first"
        raise OutputError(msg) from None


def _array(name: str, values: Sequence[Any], known: Any) -> Any:
    try:
        return pa.array(values, known)
    except (pa.ArrowException, OverflowError) as error:
        if known is not None:
            for value in values:
                refuse_misfit(name, value, known)
        msg = (
            f"the values of column {name!r} must be of one type; {error}; "
            f"annotate the attribute, or map it first"
        )
        raise OutputError(msg) from None
