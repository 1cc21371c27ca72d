"""Parquet through Arrow, one row group at a time.

Columns are matched to attributes by name; the others are not read. A column must hold
the attribute's type: any integers for int, any numbers for float, booleans, strings,
binary; other attributes take what Arrow makes of the column. A null is bad unless the
attribute is `T | None`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import InputError
from anabranch.graph.attributes import there_is
from anabranch.graph.types import optional_of, type_name
from anabranch.runtime.reading.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    Unreadable,
)
from anabranch.runtime.reading.values import attributes_of, maker

_BATCH_ROWS = 16_384


def parse_parquet(path: Path, kind: Any, first_row: int, refuse: Refuse) -> Numbered:
    """Give the items of a file; return the position behind it."""
    batches = _batches(path, attributes_of(kind))
    return (yield from _parse(batches, kind, first_row, refuse))


def parse_parquet_rows(
    path: Path, rows: range, kind: Any, first_row: int, refuse: Refuse
) -> Numbered:
    """Give the items of some rows of a file; only their row groups are read."""
    attributes = attributes_of(kind)
    batches = _some_batches(path, rows, attributes)
    return (yield from _parse(batches, kind, first_row, refuse))


def parse_table(
    table: Any, place: str, kind: Any, first_row: int, refuse: Refuse
) -> Numbered:
    """Give the items of an Arrow table; `place` names it in errors about its columns."""
    attributes = attributes_of(kind)
    _check_schema(table.schema, attributes, Path(place))
    batches = iter(table.select(list(attributes)).to_batches())
    return (yield from _parse(batches, kind, first_row, refuse))


def _parse(
    batches: Iterator[Any], kind: Any, first_row: int, refuse: Refuse
) -> Numbered:
    attributes = attributes_of(kind)
    make = maker(kind)
    row = first_row
    for batch in batches:
        columns = [
            _values(column, annotation)
            for column, annotation in zip(
                batch.columns, attributes.values(), strict=True
            )
        ]
        for values in zip(*columns, strict=True):
            try:
                _refuse_null(values, attributes)
                item = make(values)
            except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                refuse(BadRow(Position(row, row - first_row + 1), values, error))
            else:
                yield item, row
            row += 1
    return Position(row, 1)


def _batches(path: Path, attributes: dict[str, Any]) -> Iterator[Any]:
    try:
        with pq.ParquetFile(path) as file:
            _check_schema(file.schema_arrow, attributes, path)
            for batch in file.iter_batches(_BATCH_ROWS, columns=list(attributes)):
                yield batch.select(list(attributes))
    except (pa.ArrowException, OSError) as error:
        msg = f"{path} must be a readable Parquet file; {error}; write it again"
        raise InputError(msg) from error


def _some_batches(path: Path, rows: range, attributes: dict[str, Any]) -> Iterator[Any]:
    try:
        with pq.ParquetFile(path) as file:
            _check_schema(file.schema_arrow, attributes, path)
            groups, start, skipped = [], 0, 0
            for group in range(file.num_row_groups):
                end = start + file.metadata.row_group(group).num_rows
                if end <= rows.start:
                    skipped = end
                elif start < rows.stop:
                    groups.append(group)
                start = end
            table = file.read_row_groups(groups, columns=list(attributes))
            part = table.select(list(attributes))
            yield from part.slice(rows.start - skipped, len(rows)).to_batches()
    except (pa.ArrowException, OSError) as error:
        msg = f"{path} must be a readable Parquet file; {error}; write it again"
        raise InputError(msg) from error


def _check_schema(schema: Any, attributes: dict[str, Any], path: Path) -> None:
    for name, annotation in attributes.items():
        if name not in schema.names:
            msg = (
                f"{path}: there must be a column {name!r}; there is none; "
                f"{there_is(name, schema.names, 'column')}"
            )
            raise InputError(msg)
        held = schema.field(name).type
        if not _fits(held, optional_of(annotation) or annotation):
            msg = (
                f"{path}: column {name!r} must hold {type_name(annotation)}; it holds "
                f"{held}; change the attribute, or convert the column"
            )
            raise InputError(msg)


def _fits(held: Any, annotation: Any) -> bool:
    if pa.types.is_dictionary(held):
        held = held.value_type
    if annotation is int:
        return bool(pa.types.is_integer(held))
    if annotation is float:
        return bool(pa.types.is_floating(held) or pa.types.is_integer(held))
    if annotation is bool:
        return bool(pa.types.is_boolean(held))
    if annotation is str:
        return bool(pa.types.is_string(held) or pa.types.is_large_string(held))
    if annotation is bytes:
        return bool(pa.types.is_binary(held) or pa.types.is_large_binary(held))
    return True


def _values(column: Any, annotation: Any) -> Sequence[Any]:
    needed = optional_of(annotation) or annotation
    if needed is float and not pa.types.is_float64(column.type):
        column = column.cast(pa.float64())
    values: list[Any] = column.to_pylist()
    return values


def _refuse_null(values: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    if None not in values:
        return
    for value, (name, annotation) in zip(values, attributes.items(), strict=True):
        if value is None and annotation is not Any and optional_of(annotation) is None:
            msg = (
                f"column {name!r} must be {type_name(annotation)}; got null; "
                f"say {type_name(annotation)} | None if it may be"
            )
            raise Unreadable(msg)
