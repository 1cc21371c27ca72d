"""Writes a range of a file sink as one part, from the task that holds the range."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from anabranch.engines.spark.wire import Batch
from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import WriteFiles
from anabranch.runtime.failures import OnError, failure_of
from anabranch.runtime.writing.arrow_csv import csv_of_table
from anabranch.runtime.writing.columns import columns_of
from anabranch.runtime.writing.csv import encode_csv, encode_rows
from anabranch.runtime.writing.jsonl import encode_jsonl
from anabranch.runtime.writing.parquet import arrow_types, table_of


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
