"""Iceberg: read a table or its new snapshots; write one commit per epoch.

A catalog finds the tables: one of `~/.pyiceberg.yaml` by its name, or one described by
the options. The number of an epoch is a property of the table, set by the transaction
that adds the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, ClassVar

import pyarrow as pa

from anabranch.connectors.base import require
from anabranch.connectors.versioned_table import (
    DataFile,
    TableSink,
    TableSource,
    refuse_change,
)
from anabranch.errors import InputError, OutputError

_EPOCH = "anabranch.epoch."  # followed by the job; the property with its last epoch
_PATIENCE_S = 60.0  # how long a commit is retried while others commit
_RETRY_S = 0.1


def _load_catalog(options: tuple[tuple[str, str], ...]) -> Any:
    """Return the catalog that the options name by "name", and may describe."""
    given = dict(options)
    name = given.pop("name", None)
    return require("pyiceberg.catalog", "iceberg").load_catalog(name, **given)


def _load_table(options: tuple[tuple[str, str], ...], name: str) -> Any:
    """Return a table of the catalog, whose connections are closed again.

    A table uses its catalog only to commit.
    """
    with closing(_load_catalog(options)) as catalog:
        return catalog.load_table(name)


def _errors() -> Any:
    return require("pyiceberg.exceptions", "iceberg")


class IcebergSource(TableSource):
    """The rows of an Iceberg table, by its name in the catalog; versions are
    snapshots.
    """

    label: ClassVar[str] = "read_iceberg"

    def find_newest(self) -> int | None:
        snapshot = self._open().current_snapshot()
        return None if snapshot is None else int(snapshot.snapshot_id)

    def find_later(self, version: int | None) -> Iterable[int]:
        table = self._open()
        later: list[int] = []
        snapshot = table.current_snapshot()
        while snapshot is not None and snapshot.snapshot_id != version:
            later.append(snapshot.snapshot_id)
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else table.snapshot_by_id(parent)
        if snapshot is None and version is not None:
            raise self._describe_missing(version)
        return reversed(later)

    def read_whole(self, version: int) -> Iterator[Any]:
        table = self._open()
        if table.snapshot_by_id(version) is None:
            raise self._describe_missing(version)
        yield from self._read(table, table.scan(snapshot_id=version))

    def read_added(self, version: int) -> Iterator[Any]:
        table = self._open()
        snapshot = table.snapshot_by_id(version)
        if snapshot is None:
            raise self._describe_missing(version)
        match snapshot.summary and snapshot.summary.operation.value:
            case "replace":  # the rows stay unchanged
                return
            case "append":
                scan = table.incremental_append_scan(
                    from_snapshot_id_exclusive=snapshot.parent_snapshot_id,
                    to_snapshot_id_inclusive=version,
                )
                yield from self._read(table, scan)
            case operation:
                raise refuse_change(self.table, version, str(operation))

    def _read(self, table: Any, scan: Any) -> Iterator[Any]:
        read = require("pyiceberg.io.pyarrow", "iceberg").ArrowScan(
            table.metadata, table.io, scan.projection(), scan.row_filter
        )
        for task in sorted(
            scan.plan_files(), key=lambda task: str(task.file.file_path)
        ):
            for batch in read.to_record_batches([task]):
                yield pa.Table.from_batches([batch])

    def _open(self) -> Any:
        try:
            return _load_table(self.options, self.table)
        except (_errors().NoSuchTableError, ValueError, OSError) as error:
            msg = (
                f"must find the Iceberg table {self.table}; {error}; check its "
                f"name and the catalog"
            )
            raise InputError(msg) from error

    def _describe_missing(self, version: int) -> InputError:
        return InputError(
            f"must find snapshot {version} of {self.table}; it is not there, or not "
            f"before the newest; it may have expired; read the table whole"
        )


class IcebergSink(TableSink):
    """An Iceberg table that gets one commit per epoch with items."""

    label: ClassVar[str] = "write_iceberg"

    def open(self, job: str, type: Any) -> int:
        if self._find_table() is None:  # tasks may come at the same time
            with closing(_load_catalog(self.options)) as catalog:
                catalog.create_namespace_if_not_exists(self._namespace)
        return super().open(job, type)

    def find_epoch(self) -> int:
        table = self._find_table()
        return 0 if table is None else int(table.properties.get(self._property, 0))

    def find_types(self) -> Mapping[str, Any] | None:
        table = self._find_table()
        if table is None:
            return None
        schema = table.schema().as_arrow()
        return dict(zip(schema.names, schema.types, strict=True))

    def why_not_held(self, held: Any) -> str | None:
        if pa.types.is_duration(held):
            return "Iceberg has no type for a timedelta"
        return None

    def fit(self, rows: Any) -> Any:
        return rows

    @property
    def _place(self) -> tuple[str, Any]:
        """The directory of data files, and what reads and writes them."""
        table = self._find_table()
        if table is None:  # it has a place before it is there
            with closing(_load_catalog(self.options)) as catalog:
                made = catalog.create_table_transaction(self.table, pa.schema([]))
                location = made.table_metadata.location
                files = made._table.io  # noqa: SLF001 - it has the catalog's credentials
        else:
            location, files = table.location(), table.io
            table.catalog.close()
        return f"{location}/data", files

    def store(self, name: str, data: bytes) -> str:
        directory, files = self._place
        path = f"{directory}/{name}"
        with files.new_output(path).create() as file:
            file.write(data)
        return path

    def load(self, path: str) -> bytes:
        with self._place[1].new_input(path).open() as file:
            data: bytes = file.read()
        return data

    def remove(self, path: str) -> None:
        self._place[1].delete(path)

    def add_files(self, files: Sequence[DataFile], schema: Any, epoch: int) -> bool:
        def add(transaction: Any) -> None:
            paths = [file.path for file in files]
            transaction.add_files(paths, check_duplicate_files=False)

        try:
            self._commit_epoch(epoch, schema, add)
        except ValueError:  # columns of other types, or partitions
            return False
        return True

    def add(self, rows: Any, epoch: int) -> None:
        def add(transaction: Any) -> None:
            if self.by:
                transaction.upsert(rows, join_cols=list(self.by))
            else:
                transaction.append(rows)

        try:
            self._commit_epoch(epoch, rows.schema, add)
        except ValueError as error:
            raise self._describe_failure(error) from error

    def _commit_epoch(
        self, epoch: int, schema: Any, act: Callable[[Any], None]
    ) -> None:
        """Commit what `act` does with a transaction, with the number of the epoch."""
        until_s = time.monotonic() + _PATIENCE_S
        while self.find_epoch() < epoch:
            try:
                table = self._find_table() or self._create(schema)
                with closing(table.catalog), table.transaction() as transaction:
                    transaction.set_properties({self._property: str(epoch)})
                    act(transaction)
            except _errors().CommitFailedException as error:
                if time.monotonic() < until_s:  # another writer was faster
                    time.sleep(_RETRY_S)
                    continue
                raise self._describe_failure(error) from error
            except (OSError, pa.ArrowException) as error:
                raise self._describe_failure(error) from error

    def _create(self, schema: Any) -> Any:
        with closing(_load_catalog(self.options)) as catalog:
            catalog.create_namespace_if_not_exists(self._namespace)
            return catalog.create_table_if_not_exists(self.table, schema=schema)

    def _find_table(self) -> Any:
        """Return the current table; None if there is none."""
        try:
            return _load_table(self.options, self.table)
        except (_errors().NoSuchTableError, _errors().NoSuchNamespaceError):
            return None
        except (ValueError, OSError) as error:
            raise self._describe_failure(error) from error

    @property
    def _namespace(self) -> str:
        return self.table.rpartition(".")[0]

    @property
    def _property(self) -> str:
        return _EPOCH + self._job

    def _describe_failure(self, error: Exception) -> OutputError:
        return OutputError(
            f"must be able to write to {self.table}; {str(error).strip()}; check "
            f"the catalog, the columns of the table and what the user may do"
        )
