"""Parquet through Arrow: read one row group at a time, and written.

Columns are matched to attributes by name; the others are not read. A column must have
the attribute's type: any integers for int, any numbers for float, booleans, strings,
binary; for others see `arrow_values`. A null is bad unless the attribute is `T | None`.

An attribute without a column is taken from the path: a directory `day=2026-01-31` gives
all rows below it the attribute `day`, as in Hive and Spark. Its value is read like a
CSV field; `__HIVE_DEFAULT_PARTITION__` is None.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.connectors.files.arrow_items import join_tables
from anabranch.connectors.files.arrow_values import (
    ARROW_TYPES,
    NoFitError,
    arrow_type,
    fill_type,
    fit,
    join_types,
    plain_type,
    refuse_mixed,
    same,
    settle_type,
    to_arrow,
)
from anabranch.connectors.files.columns import (
    Names,
    RowValues,
    Values,
    columns_of,
    refuse_unwritable_text,
)
from anabranch.connectors.files.input_files import input_error
from anabranch.connectors.files.nested import Misfit
from anabranch.connectors.files.rows import (
    BadRow,
    Numbered,
    Position,
    Refuse,
    Unreadable,
)
from anabranch.connectors.files.values import attributes_of, maker, text_type
from anabranch.connectors.storage import Location, Status
from anabranch.errors import InputError, OutputError
from anabranch.graph.shapes import Shape, may_be_none, shape_of
from anabranch.graph.types import SCALARS, fields_of, optional_of, there_is, type_name

_BATCH_ROWS = 16_384
_KEPT_GROUPS = 2
_KEPT_FOOTERS = 64
_CODE_BYTES = 4
_PEEK_BYTES = 1 << 16  # read at a time for a single row
_KEPT_BYTES = 1 << 27  # of row groups; larger ones are read batch by batch
_AS_THEY_ARE = SCALARS  # once the columns have been cast
# Raised by Arrow for a damaged file; column names may not be text any more.
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


def count_parquet_rows(path: Location, kind: Any, known: Status | None = None) -> int:
    """Return the number of rows of a file.

    A damaged file, or one that lacks columns, is refused here already; so is a file of a
    store whose size or time is not what is `known`.
    """
    with _open(path, attributes_of(kind), known) as opened:
        rows: int = opened.file.metadata.num_rows
        return rows


def parse_parquet(
    path: Location, kind: Any, first_row: int, refuse: Refuse
) -> Numbered:
    """Yield the items of a file; return the position after it."""
    batches = _batches(path, attributes_of(kind))
    return (yield from _parse(batches, kind, first_row, refuse))


def parse_parquet_rows(
    path: Location,
    rows: range,
    kind: Any,
    first_row: int,
    refuse: Refuse,
    *,
    known: Status | None = None,
) -> Numbered:
    """Yield the items of some rows of a file; only their row groups are read.

    A file of a store must have the size and time that are `known`.
    """
    batches = _batches(path, attributes_of(kind), rows, known)
    return (yield from _parse(batches, kind, first_row, refuse))


def read_parquet_table(
    path: Location, rows: range, kind: Any, known: Status | None = None
) -> Any:
    """Return some rows of a file as a table, with the attributes of a type as columns.

    Strings may be dictionary-encoded, as in the file.
    """
    attributes = attributes_of(kind)
    with _open(path, attributes, known) as opened:
        metadata = opened.file.metadata
        groups, begin = _row_groups(metadata, rows)
        sizes = [metadata.row_group(group).total_byte_size for group in groups]
        if groups and not opened.given and sum(sizes) <= _KEPT_BYTES:
            names = list(attributes)
            found = [_row_groups_kept.read(opened, group, names) for group in groups]
            whole = join_tables(found)
            return whole.slice(rows.start - begin, len(rows))
    return pa.Table.from_batches(list(_batches(path, attributes, rows, known)))


@dataclass(frozen=True)
class _Opened:
    """A file that is open, and the values that its path gives."""

    path: Location
    source: BinaryIO
    file: Any
    given: dict[str, Any]
    known: Status | None = None  # of a store

    def identify(self) -> tuple[Any, ...]:
        """Return what another file at the same path would differ in."""
        if isinstance(self.path, Path):
            look = self.path.stat()
            return self.path, look.st_size, look.st_mtime_ns, look.st_ino
        return self.path, self.known

    @contextmanager
    def open_again(self, **options: Any) -> Iterator[Any]:
        """Open the same file with other options; a store's has its bytes by now."""
        metadata = self.file.metadata
        if isinstance(self.path, Path):
            with (
                self.path.open("rb") as source,
                pq.ParquetFile(source, metadata=metadata, **options) as file,
            ):
                yield file
        else:
            options = {**options, "buffer_size": 0, "pre_buffer": True}
            with pq.ParquetFile(self.source, metadata=metadata, **options) as file:
                yield file


class _RowGroups:
    """A cache of row groups, since a piece is often a part of one."""

    def __init__(self) -> None:
        self._kept: dict[Any, pa.Table] = {}
        self._lock = threading.Lock()

    def read(self, opened: _Opened, group: int, names: list[str]) -> pa.Table:
        """Return some columns of a row group of a file."""
        key = *opened.identify(), group, tuple(names)
        with self._lock:
            found = self._kept.pop(key, None)
        if found is None:
            found = _read_group(opened, group, names)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > _KEPT_GROUPS:
                del self._kept[next(iter(self._kept))]
        return found


_row_groups_kept = _RowGroups()


def _read_group(opened: _Opened, group: int, names: list[str]) -> pa.Table:
    """Return some columns of a row group; strings stay dictionary-encoded."""
    held = opened.file.metadata.row_group(group)
    coded = _find_coded(opened, group, names)
    if not coded:
        found = opened.file.read_row_group(group, columns=names).select(names)
    else:
        with opened.open_again(read_dictionary=coded) as again:
            found = again.read_row_group(group, columns=names).select(names)
        for name in coded:
            _check_codes(found.column(name))
    _compare_rows(held.num_rows, found.num_rows)
    return found


def _check_codes(column: Any) -> None:
    """Refuse codes that a dictionary does not have, as of a damaged file.

    Arrow does so when it decodes strings. Else it would look behind the dictionary.
    """
    for chunk in column.chunks:
        codes = pc.min_max(chunk.indices).as_py()
        if codes["max"] is None:  # all are null
            continue
        if codes["min"] < 0 or codes["max"] >= len(chunk.dictionary):
            msg = "Index not in dictionary bounds"
            raise pa.ArrowInvalid(msg)


def _find_coded(opened: _Opened, group: int, names: list[str]) -> list[str]:
    """Return the string columns that are dictionary-encoded throughout a row group.

    A column's metadata is inspected only after a row of the column has been read:
    reading reports a damaged footer as an error, inspecting it ends the process.
    """
    file = opened.file
    kinds, held = file.schema_arrow, file.metadata.row_group(group)
    texts = [name for name in names if kinds.field(name).type == pa.string()]
    if not texts:
        return []
    # A store gives all columns in as few requests as one.
    peeked = texts if isinstance(opened.path, Path) else names
    with opened.open_again(buffer_size=_PEEK_BYTES) as again:
        rows = again.iter_batches(1, row_groups=[group], columns=peeked)
        if next(rows, None) is None:
            return []
    places = {file.schema.column(n).path: n for n in range(len(file.schema))}
    return [n for n in texts if n in places and _has_codes(held.column(places[n]))]


def _has_codes(column: Any) -> bool:
    """Tell whether a column is fully dictionary-encoded: it has fewer than 32 bits per
    value.
    """
    small = column.total_uncompressed_size <= _CODE_BYTES * column.num_values
    return bool(column.has_dictionary_page and small)


def parse_table(
    table: Any, place: str, kind: Any, first_row: int, refuse: Refuse
) -> Numbered:
    """Yield the items of an Arrow table; `place` names it in errors about its
    columns.
    """
    attributes = attributes_of(kind)
    check_schema(table.schema, attributes, place)
    batches = iter(table.select(list(attributes)).to_batches())
    return (yield from _parse(batches, kind, first_row, refuse))


def _parse(
    batches: Iterator[Any], kind: Any, first_row: int, refuse: Refuse
) -> Numbered:
    attributes = attributes_of(kind)
    make = maker(kind)
    row = first_row
    for batch in batches:
        bad = False
        columns = []
        for column, (name, annotation) in zip(
            batch.columns, attributes.items(), strict=True
        ):
            found = _values(column, annotation)
            if found is None:
                found = _one_by_one(column, name, annotation)
                bad = True
            columns.append(found)
        converters = _converters(batch.schema, attributes)
        for values in zip(*columns, strict=True):
            try:
                if bad:
                    _refuse_bad(values)
                _refuse_null(values, attributes)
                item = make(_convert(values, converters) if converters else values)
            except Exception as error:  # noqa: BLE001 - a constructor may raise anything
                raw = tuple(v.raw if isinstance(v, _Bad) else v for v in values)
                refuse(BadRow(Position(row, row - first_row + 1), raw, error))
            else:
                yield item, row
            row += 1
    return Position(row, 1)


_footers: OrderedDict[tuple[Location, Status], Any] = OrderedDict()  # of stores


@contextmanager
def open_parquet(
    path: Location, known: Status | None = None
) -> Iterator[tuple[BinaryIO, Any, Status | None]]:
    """Open a file; the footer of a store's file is read once by a process.

    A file of a store must have the size and time that are `known`, or has them from now.
    """
    if isinstance(path, Path):
        with path.open("rb") as local, pq.ParquetFile(local) as file:
            yield local, file, None
        return
    known = path.stat() if known is None else known
    key = path, known
    footer = _footers.get(key)
    with (
        path.open_known(known) as source,
        pq.ParquetFile(source, metadata=footer, pre_buffer=True) as file,
    ):
        if footer is None:
            _footers[key] = file.metadata
            if len(_footers) > _KEPT_FOOTERS:
                _footers.popitem(last=False)
        yield source, file, known


@contextmanager
def _open(
    path: Location, attributes: dict[str, Any], known: Status | None = None
) -> Iterator[_Opened]:
    """Open a file that has the columns of these attributes; the path may give some."""
    try:
        with open_parquet(path, known) as (source, file, found):
            groups = range(file.metadata.num_row_groups)
            held_rows = sum(file.metadata.row_group(n).num_rows for n in groups)
            _compare_rows(file.metadata.num_rows, held_rows)
            given = _values_in_path(path, attributes, file.schema_arrow)
            held = {n: kind for n, kind in attributes.items() if n not in given}
            check_schema(file.schema_arrow, held, str(path))
            yield _Opened(path, source, file, given, found)
    except UNREADABLE as error:
        # It is not the content.
        if isinstance(error, OSError) and error.errno is not None:
            raise input_error(path, error) from error
        why = str(error).rstrip(".")
        msg = f"{path} must be a readable Parquet file; {why}; write it again"
        raise InputError(msg) from error


def _batches(
    path: Location,
    attributes: dict[str, Any],
    rows: range | None = None,
    known: Status | None = None,
) -> Iterator[Any]:
    """Yield the columns of a file, or of some of its rows, batch by batch."""
    names = list(attributes)
    with _open(path, attributes, known) as opened:
        file, given = opened.file, opened.given
        held = [name for name in names if name not in given]
        wanted = range(file.metadata.num_rows) if rows is None else rows
        groups, start = _row_groups(file.metadata, wanted)
        if not groups:
            return
        end = start + sum(file.metadata.row_group(n).num_rows for n in groups)
        for batch in _iter_groups(file, groups, held):
            first = max(wanted.start - start, 0)
            last = min(wanted.stop - start, batch.num_rows)
            if first < last:
                part = batch.select(held).slice(first, last - first)
                yield _with_values(part, given, names) if given else part
            start += batch.num_rows
        _compare_rows(end, start)


def _iter_groups(file: Any, groups: Sequence[int], columns: list[str]) -> Iterator[Any]:
    """Yield the batches of row groups, each read by itself.

    Arrow detects a column whose type differs from the footer's schema only if a group
    is read alone; with several it returns wrong numbers.
    """
    for group in groups:
        yield from file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=columns)


def _compare_rows(told: int, found: int) -> None:
    """Refuse a file whose parts disagree on the number of rows."""
    if told != found:
        msg = f"it must have the {told} rows that it tells of; it has {found}"
        raise pa.ArrowInvalid(msg)


_NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def _values_in_path(
    path: Location, attributes: dict[str, Any], schema: Any
) -> dict[str, Any]:
    """Return the values of attributes given by directories instead of columns."""
    named = dict(part.split("=", 1) for part in path.parts[:-1] if "=" in part)
    found: dict[str, Any] = {}
    for name, annotation in attributes.items():
        if name in schema.names or name not in named:
            continue
        text = unquote(named[name])
        known = text_type(annotation)
        try:
            if text == _NO_PARTITION and may_be_none(shape_of(annotation)):
                found[name] = None
            elif known is not None and text != _NO_PARTITION:
                value = known.one(text)
                # a column has the value of a member, as files that we write do
                found[name] = value.value if isinstance(value, Enum) else value
        except ValueError:
            pass
        if name not in found:
            msg = (
                f"{path}: the directory {name}=... must give {type_name(annotation)}; "
                f"it gives {text!r}; change the attribute, or rename the directory"
            )
            raise InputError(msg)
    return found


def _with_values(batch: Any, given: dict[str, Any], names: Sequence[str]) -> Any:
    """Return a batch with the values given by the path as columns."""
    columns = {
        name: pa.repeat(pa.scalar(value), batch.num_rows)
        for name, value in given.items()
    }
    arrays = [columns[n] if n in columns else batch.column(n) for n in names]
    return pa.record_batch(arrays, names=list(names))


def _row_groups(metadata: Any, rows: range) -> tuple[list[int], int]:
    """Return the row groups that contain some rows, and their first row."""
    groups: list[int] = []
    start = begin = 0
    for group in range(metadata.num_row_groups):
        end = start + metadata.row_group(group).num_rows
        if start < rows.stop and end > rows.start:
            if not groups:
                begin = start
            groups.append(group)
        start = end
    return groups, begin


def _converters(schema: Any, attributes: dict[str, Any]) -> dict[int, tuple[str, Any]]:
    """Return the converters of values, by index, with the name; none if they fit."""
    found = {}
    for place, (name, annotation) in enumerate(attributes.items()):
        if (optional_of(annotation) or annotation) in _AS_THEY_ARE:
            continue
        held = schema.field(place).type
        convert = same if pa.types.is_null(held) else fit(shape_of(annotation), held)
        if convert is not same:
            found[place] = name, convert
    return found


def _convert(
    values: tuple[Any, ...], converters: dict[int, tuple[str, Any]]
) -> tuple[Any, ...]:
    made = list(values)
    for place, (name, convert) in converters.items():
        try:
            made[place] = convert(made[place])
        except Misfit as misfit:
            raise misfit.refusal(name) from None
    return tuple(made)


def check_schema(schema: Any, attributes: dict[str, Any], place: str) -> None:
    """Refuse columns that do not fit the attributes; `place` names their origin."""
    for name, annotation in attributes.items():
        if name not in schema.names:
            msg = (
                f"{place}: there must be a column {name!r}; there is none; "
                f"{there_is(name, schema.names, 'column')}"
            )
            raise InputError(msg)
        if schema.names.count(name) > 1:
            msg = (
                f"{place}: a column must have one name; {name!r} is there twice; "
                f"rename one"
            )
            raise InputError(msg)
        held = schema.field(name).type
        if not _fits(held, annotation):
            msg = (
                f"{place}: column {name!r} must hold {type_name(annotation)}; it holds "
                f"{held}; change the attribute, or convert the column"
            )
            raise InputError(msg)


def _fits(held: Any, annotation: Any) -> bool:
    if pa.types.is_null(held):  # only nulls: the rows are refused, if any come
        return True
    try:
        fit(shape_of(annotation), held)
    except NoFitError:
        return False
    return True


@dataclass(frozen=True)
class _Bad:
    """Stands for a value that Python cannot represent."""

    raw: Any
    name: str
    annotation: Any


def _values(column: Any, annotation: Any) -> Sequence[Any] | None:
    """Return the values of a column; None if Python cannot represent one."""
    try:
        wide = column.cast(pa.float64()) if _widens(column, annotation) else column
        values: list[Any] = wide.to_pylist()
    except _NO_VALUE:
        return None
    return values


# Text that is not UTF-8, a date beyond the year 9999, a long int that becomes a float.
_NO_VALUE = (pa.ArrowException, ValueError, OverflowError)


def _widens(column: Any, annotation: Any) -> bool:
    needed = optional_of(annotation) or annotation
    return needed is float and not pa.types.is_float64(column.type)


def _one_by_one(column: Any, name: str, annotation: Any) -> list[Any]:
    """Return the values of a column, with a `_Bad` for those without representation."""
    wide = _widens(column, annotation)
    values: list[Any] = []
    for one in column:
        try:
            value = one.as_py()
        except _NO_VALUE:
            value = _Bad(_raw(one), name, annotation)
        else:
            value = float(value) if wide and value is not None else value
        values.append(value)
    return values


def _raw(one: Any) -> Any:
    try:
        return one.as_buffer().to_pybytes()
    except AttributeError:
        return str(one.type)


def _refuse_bad(values: tuple[Any, ...]) -> None:
    for value in values:
        if isinstance(value, _Bad):
            needed = type_name(value.annotation)
            also = " in UTF-8" if isinstance(value.raw, bytes) else ""
            msg = f"column {value.name!r} must be {needed}{also}; got {value.raw!r}"
            raise Unreadable(msg)


def _refuse_null(values: tuple[Any, ...], attributes: dict[str, Any]) -> None:
    if None not in values:
        return
    for value, (name, annotation) in zip(values, attributes.items(), strict=True):
        if value is None and not may_be_none(shape_of(annotation)):
            msg = (
                f"column {name!r} must be {type_name(annotation)}; got null; "
                f"say {type_name(annotation)} | None if it may be"
            )
            raise Unreadable(msg)


_ALWAYS_FIT = {  # an int or a Decimal may be too long
    (kind, known) for kind, known in ARROW_TYPES.items() if kind not in (int, Decimal)
}
_SIMPLE = frozenset({pa.bool_(), pa.int64(), pa.float64(), pa.binary()})


def arrow_types(kind: Any) -> dict[str, Any]:
    """Return the Arrow type of each column that the item type determines.

    >>> arrow_types(float | None)
    {}
    >>> arrow_types(float)
    {'value': DataType(double)}
    """
    known = {name: arrow_type(shape) for name, shape in _shapes_of(kind).items()}
    return {name: found for name, found in known.items() if found is not None}


def likely_types(kind: Any) -> dict[str, Any]:
    """Return the Arrow type of each column, with null for what is not known.

    A column's values may be of another type than is annotated, so only parts without
    values can be given these.

    >>> likely_types(float), likely_types(Any)
    ({'value': DataType(double)}, {'value': DataType(null)})
    """
    shapes = _shapes_of(kind).items()
    return {name: arrow_type(shape, unknown=pa.null()) for name, shape in shapes}


def fill_table(rows: Any, known: Mapping[str, Any]) -> Any:
    """Return rows in which columns and parts without values have their known types.

    >>> rows = pa.table({"a": pa.nulls(1), "b": [1]})
    >>> fill_table(rows, {"a": pa.date32()}).schema.types
    [DataType(date32[day]), DataType(int64)]
    """
    fields = [
        one.with_type(fill_type(one.type, known.get(one.name, one.type)))
        for one in rows.schema
    ]
    return rows.cast(pa.schema(fields))


def plain_table(rows: Any) -> Any:
    """Return rows without extension types; a UUID is 16 bytes."""
    types = map(plain_type, rows.schema.types)
    return rows.cast(pa.schema(list(zip(rows.column_names, types, strict=True))))


def _shapes_of(kind: Any) -> dict[str, Shape]:
    """Return the shape of each column, as far as the type tells them."""
    fields: Mapping[str, Any] | None = fields_of(kind)
    if fields is None:
        fields = dict.fromkeys(columns_of(kind) or (), kind)
    return {name: shape_of(kind) for name, kind in fields.items()}


def table_of(
    items: Iterable[Any], names: Names | None, types: Mapping[str, Any]
) -> Any:
    """Return items as an Arrow table; `types` are the known types of columns.

    >>> table_of([(1, "a")], None, {}).to_pydict()
    {'value_1': [1], 'value_2': ['a']}
    """
    rows = RowValues(names)
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


def _refuse_mixed_zones(name: str, values: Sequence[Any]) -> None:
    """Raise `OutputError` if only some datetimes have a zone: Arrow would drop it."""
    moments = [value for value in values if isinstance(value, dt.datetime)]
    bare = next((one for one in moments if one.utcoffset() is None), None)
    zoned = next((one for one in moments if one.utcoffset() is not None), None)
    if bare is not None and zoned is not None:
        msg = (
            f"the datetimes of column {name!r} must all have a zone, or none; got "
            f"{bare!r} and {zoned!r}; map them first, for example with "
            f"replace(tzinfo=datetime.UTC)"
        )
        raise OutputError(msg)


def refuse_misfit(name: str, value: Any, known: Any) -> None:
    """Raise `OutputError` if a value does not fit a column of a known type."""
    if value is None or (type(value), known) in _ALWAYS_FIT:
        return
    try:
        pa.array([to_arrow(value, known)], known)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        msg = f"column {name!r} must be {known}; got {value!r} ({error}); map it first"
        raise OutputError(msg) from None


def join_schemas(held: Any, found: Any) -> Any:
    """Return the common columns of two sets of rows.

    Raise `OutputError` if a column would have values of two types.

    >>> first, second = pa.schema([("n", pa.null())]), pa.schema([("n", pa.int64())])
    >>> join_schemas(first, second).types
    [DataType(int64)]
    """
    # no rows, and no type that determines the columns
    if not held.names or not found.names:
        return held if held.names else found
    if held.names != found.names:
        msg = (
            f"the rows of an output must have the same columns; these have "
            f"{', '.join(found.names)}, but those before have {', '.join(held.names)}; "
            f"map them to one type first"
        )
        raise OutputError(msg)
    for place, (name, one) in enumerate(zip(held.names, found.types, strict=True)):
        before = held.field(place)
        joined = join_types(before.type, one)
        if joined is None:
            msg = (
                f"the values of column {name!r} must be of one type; they are {one}, "
                f"but those before are {before.type}; annotate the attribute, or map it "
                f"first"
            )
            raise OutputError(msg)
        if joined != before.type:
            held = held.set(place, before.with_type(joined))
    return held


def tells_columns(kind: Any) -> bool:
    """Tell whether the item type alone determines the columns of a Parquet file.

    >>> tells_columns(float), tells_columns(None)
    (True, False)
    """
    names = columns_of(kind)
    return names is not None and set(names) <= set(arrow_types(kind))


def _array(name: str, values: Sequence[Any], known: Any) -> Any:
    try:
        if known is None:
            _refuse_mixed_zones(name, values)
        if known not in _SIMPLE:
            values = [to_arrow(value, known) for value in values]
            refuse_mixed(values, known)
        made = pa.array(values, known)
        return made.cast(settle_type(made.type)) if known is None else made
    except UnicodeEncodeError:
        for value in values:
            refuse_unwritable_text((value,), (name,))
        msg = f"column {name!r} must hold text that UTF-8 can hold; map it first"
        raise OutputError(msg) from None
    except (pa.ArrowException, OverflowError, TypeError) as error:
        if known is not None:
            for value in values:
                refuse_misfit(name, value, known)
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) == 1 and kinds <= {*ARROW_TYPES, dt.timedelta}:
            msg = (
                f"the values of column {name!r} must fit Parquet; {error}; map it first"
            )
            raise OutputError(msg) from None
        msg = (
            f"the values of column {name!r} must be of one type; {error}; "
            f"annotate the attribute, or map it first"
        )
        raise OutputError(msg) from None
