"""Write the items of one sink, in order, to one file or one part."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import OutputError
from anabranch.graph.graph import Op
from anabranch.graph.sinks import WriteFiles
from anabranch.runtime.writing.arrow_csv import csv_of_rows
from anabranch.runtime.writing.columns import Rows, columns_of
from anabranch.runtime.writing.csv import as_they_are, cells, encode_rows
from anabranch.runtime.writing.jsonl import json_line
from anabranch.runtime.writing.output import Output
from anabranch.runtime.writing.parquet import (
    arrow_types,
    refuse_misfit,
    table_of_values,
)

_HELD_ITEMS = 8192  # written at once


def open_writer(op: Op, item_type: Any = None) -> Writer:
    """Return the writer of a sink.

    `item_type`, the type of its stream where that is known, gives the columns even if
    no item ever comes.
    """
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    writers: dict[str, Callable[[Output, Any], Writer]] = {
        "csv": CsvWriter,
        "jsonl": JsonWriter,
        "parquet": ParquetWriter,
    }
    return writers[op.kind.format](Output(op.kind), item_type)


class Writer(ABC):
    """Takes items one by one; `commit` makes them visible, `abort` drops them.

    An item that cannot be written is refused by `write` and does no harm to the others.
    When the file itself fails, items that were accepted are lost: from then on every
    call fails, `commit` too, so that this cannot be passed over.
    """

    def __init__(self, output: Output, item_type: Any) -> None:
        self._output = output
        self._rows = Rows(columns_of(item_type))
        self._held: list[Any] = []
        self._broken: OutputError | None = None

    def write(self, item: Any) -> None:
        """Add an item at the end."""
        if self._broken is not None:
            raise self._broken
        self._held.append(self._prepared(item))
        if len(self._held) >= _HELD_ITEMS:
            self._flush()

    def write_all(self, items: Sequence[Any]) -> bool:
        """Add items at the end, all at once; False: one does not fit, none was added.

        >>> writer = open_writer(Op("out", WriteFiles("never.csv", "csv")))
        >>> writer.write_all([1, 2]), writer.write_all([3, {4}])
        (True, False)
        >>> writer.abort()
        """
        if self._broken is not None:
            raise self._broken
        try:
            prepared = self._all_prepared(items)
        except Exception:  # noqa: BLE001 - whatever it is, one by one it has an item
            return False
        self._held += prepared
        if len(self._held) >= _HELD_ITEMS:
            self._flush()
        return True

    def commit(self) -> None:
        """Finish the output and make it visible, whole."""
        try:
            self._flush()
            self._guarded(self._close)
            self._output.commit()
        except OutputError:
            self.abort()
            raise

    def abort(self) -> None:
        """Leave nothing behind."""
        with contextlib.suppress(OutputError):  # it is to be dropped anyway
            self._guarded(self._close)
        self._output.abort()

    def _flush(self) -> None:
        if self._broken is not None:
            raise self._broken
        held, self._held = self._held, []
        self._guarded(lambda: self._write_out(held))

    def _guarded(self, act: Callable[[], None]) -> None:
        """Do something with the file; a failure is remembered."""
        try:
            act()
        except (OSError, pa.ArrowException, UnicodeEncodeError, OutputError) as error:
            msg = f"{self._output.path} could not be written: {error}"
            self._broken = OutputError(msg)
            raise self._broken from error

    @abstractmethod
    def _prepared(self, item: Any) -> Any:
        """Return what is held of an item; raise `OutputError` if it does not fit."""

    def _all_prepared(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return what is held of items; raise an error if one does not fit."""
        return list(map(self._prepared, items))

    @abstractmethod
    def _write_out(self, held: list[Any]) -> None:
        """Write what has been held; at the first call there may be nothing."""

    @abstractmethod
    def _close(self) -> None:
        """Close the file, if it is open."""


class CsvWriter(Writer):
    """Writes rows under a header; where nothing tells the columns, nothing."""

    def __init__(self, output: Output, item_type: Any) -> None:
        super().__init__(output, item_type)
        self._file = _opened(output)
        self._headed = False

    def _prepared(self, item: Any) -> Any:
        values = self._rows.values(item)
        assert self._rows.names is not None  # noqa: S101 - now there is an item
        return cells(values, self._rows.names)

    def _all_prepared(self, items: Sequence[Any]) -> Sequence[Any]:
        rows = self._rows.of_one_type(items)
        if rows is not None and as_they_are(rows):
            return rows
        return super()._all_prepared(items)

    def _write_out(self, held: list[Any]) -> None:
        if not self._headed and self._rows.names is not None:
            self._file.write(encode_rows([self._rows.names]))
            self._headed = True
        fast = csv_of_rows(held)
        self._file.write(encode_rows(held) if fast is None else fast)

    def _close(self) -> None:
        self._file.close()


class JsonWriter(Writer):
    """Writes a line for each item; items need not be alike."""

    def __init__(self, output: Output, item_type: Any) -> None:
        super().__init__(output, item_type)
        self._file = _opened(output)

    def _prepared(self, item: Any) -> Any:
        return json_line(item)

    def _write_out(self, held: list[Any]) -> None:
        self._file.write("".join(held).encode())

    def _close(self) -> None:
        self._file.close()


class ParquetWriter(Writer):
    """Writes a row group at a time; the first one fixes the types of the columns."""

    def __init__(self, output: Output, item_type: Any) -> None:
        super().__init__(output, item_type)
        self._types = arrow_types(item_type)
        self._file: Any = None

    def _prepared(self, item: Any) -> Any:
        values = self._rows.values(item)
        assert self._rows.names is not None  # noqa: S101 - now there is an item
        for name, value in zip(self._rows.names, values, strict=True):
            if name in self._types:
                refuse_misfit(name, value, self._types[name])
        return values

    def _write_out(self, held: list[Any]) -> None:
        if self._file is not None and not held:
            return
        table = table_of_values(held, self._rows.names or (), self._types)
        if self._file is None:
            self._file = pq.ParquetWriter(self._output.part(), table.schema)
        self._file.write_table(table.cast(self._file.schema))

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


def _opened(output: Output) -> BinaryIO:
    try:
        return output.part().open("wb")
    except OSError as error:
        output.abort()
        raise output.failed(error) from error
