"""Delta Lake: read a table or its new versions; write one version per epoch.

The number of an epoch is the version of the job's *application transaction*, which a
Delta table keeps in its log for this purpose. Two drivers of one job that commit the
same epoch conflict there, and only one of them wins.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.fs

from anabranch.connectors.base import require
from anabranch.connectors.files.parquet import plain_table
from anabranch.connectors.versioned_table import (
    DataFile,
    TableSink,
    TableSource,
    refuse_change,
)
from anabranch.errors import InputError, OutputError
from anabranch.graph.paths import plain_path

_BUFFER = 1 << 20
_COMPACTING = ("OPTIMIZE", "VACUUM START", "VACUUM END")  # the rows stay unchanged


class DeltaSource(TableSource):
    """The rows of a Delta table; `table` is its path or URL."""

    label: ClassVar[str] = "read_delta"

    @property
    def _delta(self) -> Any:
        return require("deltalake", "delta")

    def find_newest(self) -> int:
        return int(self._open(None).version())

    def find_later(self, version: int | None) -> Iterator[int]:
        first = 0 if version is None else version + 1
        return iter(range(first, self.find_newest() + 1))

    def read_whole(self, version: int) -> Iterator[Any]:
        yield from self._read(self._find_files(version))

    def read_added(self, version: int) -> Iterator[Any]:
        files = self._find_files(version)
        before = self._find_files(version - 1) if version else {}
        operation = self._find_operation(version)
        if operation in _COMPACTING:
            return
        if before.keys() - files.keys():
            raise refuse_change(self.table, version, operation)
        yield from self._read({p: f for p, f in files.items() if p not in before})

    def _open(self, version: int | None) -> Any:
        options = dict(self.options)
        try:
            return self._delta.DeltaTable(
                plain_path(self.table), version, storage_options=options
            )
        except (self._delta.exceptions.DeltaError, OSError) as error:
            which = "" if version is None else f" in version {version}"
            msg = (
                f"must find a Delta table{which} at {self.table}; "
                f"{str(error).strip()}; check the path, and which versions are kept"
            )
            raise InputError(msg) from error

    def _find_files(self, version: int) -> dict[str, tuple[Any, Any]]:
        """Return the data files of a version, each with the schema of the table."""
        try:
            dataset = self._open(version).to_pyarrow_dataset()
        except self._delta.exceptions.DeltaError as error:
            msg = (
                f"must be able to read version {version} of {self.table}; "
                f"{str(error).strip()}; rewrite the table without that feature"
            )
            raise InputError(msg) from error
        return {one.path: (one, dataset.schema) for one in dataset.get_fragments()}

    def _read(self, files: dict[str, tuple[Any, Any]]) -> Iterator[Any]:
        for _, (file, schema) in sorted(files.items()):
            for batch in file.to_batches(schema=schema):
                yield pa.Table.from_batches([batch])

    def _find_operation(self, version: int) -> str:
        for entry in self._open(None).history():  # that of an old one misnumbers them
            if entry.get("version") == version:
                return str(entry.get("operation", "unknown"))
        return "unknown"


class DeltaSink(TableSink):
    """A Delta table that gets one version per epoch with items."""

    label: ClassVar[str] = "write_delta"

    @property
    def _delta(self) -> Any:
        return require("deltalake", "delta")

    def find_epoch(self) -> int:
        table = self._find_table()
        return (table.transaction_version(self._job) or 0) if table is not None else 0

    def find_types(self) -> Mapping[str, Any] | None:
        table = self._find_table()
        if table is None:
            return None
        schema = pa.schema(table.schema().to_arrow())
        return dict(zip(schema.names, schema.types, strict=True))

    def why_not_held(self, held: Any) -> str | None:
        if pa.types.is_time(held):
            return "Delta Lake has no type for a time of day"
        if pa.types.is_duration(held):
            return "Delta Lake has no type for a timedelta"
        return None

    def fit(self, rows: Any) -> Any:
        rows = plain_table(rows)  # it would note UUIDs in a way that Arrow cannot read
        made = self._hold(rows.schema)
        return None if made is None else rows.cast(made)

    def _hold(self, schema: Any) -> Any:
        """Return a schema as a Delta table has it, or None."""
        try:
            return pa.schema(self._delta.Schema.from_arrow(schema).to_arrow())
        except (self._delta.exceptions.DeltaError, pa.ArrowException):
            return None

    @property
    def _files(self) -> Any:
        place = plain_path(self.table)
        if "://" not in place:
            Path(place).mkdir(parents=True, exist_ok=True)
        handler = require("deltalake.fs", "delta").DeltaStorageHandler
        return pa.fs.PyFileSystem(handler(place, dict(self.options)))

    def store(self, name: str, data: bytes) -> str:
        opened = self._files.open_output_stream(name)
        with pa.BufferedOutputStream(opened, _BUFFER) as file:  # which gives it bytes
            file.write(data)
        return name

    def load(self, path: str) -> bytes:
        with self._files.open_input_file(path) as file:
            data: bytes = file.read()
        return data

    def remove(self, path: str) -> None:
        self._files.delete_file(path)

    def add_files(self, files: Sequence[DataFile], schema: Any, epoch: int) -> bool:
        actions = [_to_action(file) for file in files]
        table = self._find_table()
        if table is not None and not self._takes_files(table, schema):
            return False
        made = self._delta.Schema.from_arrow(schema)
        with self._commit(epoch) as properties:
            if table is not None:
                table.create_write_transaction(
                    actions, "append", table.schema(), commit_properties=properties
                )
                return True
            self._delta.transaction.create_table_with_add_actions(
                plain_path(self.table),
                made,
                actions,
                storage_options=dict(self.options),
                commit_properties=properties,
            )
        return True

    def _takes_files(self, table: Any, schema: Any) -> bool:
        """Tell whether a table needs nothing but files with its columns."""
        found = table.metadata()
        plain = not found.partition_columns and not found.configuration
        fields = table.schema().fields
        return (
            plain
            and not any(one.metadata for one in fields)
            and schema.equals(pa.schema(table.schema().to_arrow()).remove_metadata())
        )

    @contextmanager
    def _commit(self, epoch: int) -> Iterator[Any]:
        """Yield what marks a commit with its epoch; explain why it fails."""
        mark = self._delta.Transaction(self._job, epoch)
        try:
            yield self._delta.CommitProperties(app_transactions=[mark])
        except (self._delta.exceptions.DeltaError, OSError, pa.ArrowException) as error:
            if self.find_epoch() >= epoch:
                return  # another driver of this job was faster
            msg = (
                f"must be able to write to {self.table}; {str(error).strip()}; "
                f"check the columns of the table and what the user may do"
            )
            raise OutputError(msg) from error

    def add(self, rows: Any, epoch: int) -> None:
        rows = plain_table(rows)
        with self._commit(epoch) as properties:
            table = self._find_table()
            if table is None or not self.by:
                self._delta.write_deltalake(
                    plain_path(self.table) if table is None else table,
                    rows,
                    mode="error" if table is None else "append",
                    storage_options=dict(self.options),
                    commit_properties=properties,
                )
            else:
                self._merge(table, rows, properties)

    def _merge(self, table: Any, rows: Any, properties: Any) -> None:
        same = " AND ".join(
            f'(old."{name}" IS NOT DISTINCT FROM new."{name}")' for name in self.by
        )
        table.merge(
            rows,
            same,
            source_alias="new",
            target_alias="old",
            commit_properties=properties,
        ).when_matched_update_all().when_not_matched_insert_all().execute()

    def _find_table(self) -> Any:
        """Return the current table; None if there is none."""
        place = plain_path(self.table)
        try:
            if not self._delta.DeltaTable.is_deltatable(place, dict(self.options)):
                return None
            return self._delta.DeltaTable(place, storage_options=dict(self.options))
        except (self._delta.exceptions.DeltaError, OSError) as error:
            msg = (
                f"must be able to open {self.table}; {str(error).strip()}; "
                f"check the path and the options of the store"
            )
            raise OutputError(msg) from error


def _to_action(file: DataFile) -> Any:
    stats = {
        "numRecords": file.rows,
        "minValues": file.least,
        "maxValues": file.most,
        "nullCount": file.nulls,
    }
    action = require("deltalake.transaction", "delta").AddAction
    now_ms = int(time.time() * 1000)
    return action(file.path, file.size, {}, now_ms, True, json.dumps(stats))
