"""Writes a range of a file sink as one part, from the task that holds the range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from anabranch.engines.spark.wire import Batch
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import WriteFiles
from anabranch.runtime.failures import OnError, failure_of
from anabranch.runtime.writing.columns import columns_of
from anabranch.runtime.writing.csv import encode_csv, encode_rows
from anabranch.runtime.writing.jsonl import encode_jsonl
from anabranch.runtime.writing.parquet import arrow_types, table_of

_MARKS = (b'"', b",", b"\r", b"\n")
_LEAST, _MOST = 1e-4, 1e10  # between them Arrow writes a float as Python does


def write_part(
    op: Op, item_type: Any, batch: Batch, path: Path, on_error: OnError
) -> int:
    """Write the items of a batch and return how many they were."""
    try:
        _write(op, item_type, batch, path)
    except OutputError:
        # One of the items does not fit: find out which, and let the user decide.
        fitting = _fitting(op, item_type, batch, on_error)
        _write(op, item_type, fitting, path)
        return len(fitting)
    return len(batch)


def _write(op: Op, item_type: Any, batch: Batch, path: Path) -> None:
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    hidden = path.with_name(f".{path.name}.tmp")
    match op.kind.format:
        case "csv":
            hidden.write_bytes(_csv(item_type, batch))
        case "jsonl":
            hidden.write_bytes(encode_jsonl(batch.items))
        case "parquet":
            table = batch.as_table()
            if table is None:
                names = columns_of(item_type)
                table = table_of(batch.items, names, arrow_types(item_type))
            pq.write_table(table, hidden)
    hidden.replace(path)


def _csv(item_type: Any, batch: Batch) -> bytes:
    table = batch.as_table()
    fast = None if table is None else csv_of_table(table)
    if fast is not None and table is not None:
        return encode_rows([table.column_names]) + fast
    return encode_csv(batch.items, columns_of(item_type), header=True)


def csv_of_table(table: pa.Table) -> bytes | None:
    r"""Return rows as `encode_csv` would write them, or None if Arrow cannot.

    >>> csv_of_table(pa.table({"a": ["x", "y"], "b": [1.0, 0.5]}))
    b'x,1.0\ny,0.5\n'
    >>> csv_of_table(pa.table({"a": ["x,y"]})) is None
    True
    """
    columns = []
    for column in table.columns:
        if column.null_count:
            return None
        if pa.types.is_floating(column.type):
            columns.append(_floats(column))
            continue
        if pa.types.is_string(column.type):
            if table.num_columns == 1 or _needs_quotes(column):
                return None
        elif not pa.types.is_integer(column.type):
            return None
        columns.append(column)
    sink = pa.BufferOutputStream()
    options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
    plain = pa.Table.from_arrays(columns, names=table.column_names)
    pyarrow.csv.write_csv(plain, sink, options)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def _needs_quotes(column: pa.ChunkedArray) -> bool:
    """Tell whether a text has a character that means something in a CSV file.

    All bytes of a chunk are looked at in one go, which a regular expression is not.
    """
    return any(
        mark in text for text in map(_bytes_of, column.chunks) for mark in _MARKS
    )


def _bytes_of(texts: pa.StringArray) -> bytes:
    _, offsets, data = texts.buffers()
    if data is None:  # nothing but empty texts
        return b""
    bounds = np.frombuffer(offsets, np.int32)[texts.offset :]
    start, end = int(bounds[0]), int(bounds[len(texts)])
    return data.slice(start, end - start).to_pybytes()  # type: ignore[no-any-return]


def _floats(column: pa.ChunkedArray) -> pa.Array:
    """Return floats as text, as `repr` writes them."""
    column = column.combine_chunks()
    texts = column.cast(pa.string())
    size = pc.abs(column)
    common = pc.and_(pc.greater_equal(size, _LEAST), pc.less(size, _MOST))
    whole = pc.and_(common, pc.equal(column, pc.floor(column)))
    if pc.any(whole).as_py():
        texts = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    if not pc.all(common).as_py():
        rare = [repr(value) for value in column.filter(pc.invert(common)).to_pylist()]
        texts = pc.replace_with_mask(texts, pc.invert(common), pa.array(rare))
    return texts


def _fitting(op: Op, item_type: Any, batch: Batch, on_error: OnError) -> Batch:
    """Return the items that can be written; the others are told to `on_error`."""
    kept = []
    for item, number in zip(batch.items, batch.positions[0].tolist(), strict=True):
        try:
            match op.kind:
                case WriteFiles(format="csv"):
                    encode_csv([item], columns_of(item_type), header=False)
                case WriteFiles(format="jsonl"):
                    encode_jsonl([item])
                case _:
                    table_of([item], columns_of(item_type), arrow_types(item_type))
            kept.append(item)
        except OutputError as error:
            on_error(failure_of(op, item, f"position {number}", error))
    return Batch([], batch.form, None, kept)
