"""Delta Lake: read a table or its new versions; write one version per epoch.

The number of an epoch is the version of the job's *application transaction*, which a
Delta table keeps in its log for this purpose. Two drivers of one job that commit the
same epoch conflict there, and only one of them wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.connectors.base import require
from anabranch.connectors.versioned_table import TableSink, TableSource, refuse_change
from anabranch.errors import InputError, OutputError
from anabranch.graph.paths import plain_path

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

    def add(self, rows: Any, epoch: int) -> None:
        mark = self._delta.Transaction(self._job, epoch)
        properties = self._delta.CommitProperties(app_transactions=[mark])
        try:
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
        except (self._delta.exceptions.DeltaError, OSError, pa.ArrowException) as error:
            if self.find_epoch() >= epoch:
                return  # another driver of this job was faster
            msg = (
                f"must be able to write to {self.table}; {str(error).strip()}; "
                f"check the columns of the table and what the user may do"
            )
            raise OutputError(msg) from error

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
