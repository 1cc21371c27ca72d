"""Writes the items of a sink to one file or part, atomically.

Everything is written under a hidden name in the same directory (`.prices.<run>.tmp`)
and renamed when the run has succeeded. An existing output is never overwritten.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.connectors.files.arrow_items import form_of, without_codes
from anabranch.connectors.files.columnar_csv import write_table
from anabranch.connectors.files.columns import (
    RowValues,
    columns_of,
    have_writable_texts,
    refuse_unwritable_text,
)
from anabranch.connectors.files.csv import (
    as_they_are,
    bytes_of,
    cells,
    csv_of_rows,
    csv_of_table,
    encode_rows,
)
from anabranch.connectors.files.jsonl import encode_lines, json_line, json_of_table
from anabranch.connectors.files.parquet import (
    arrow_types,
    join_schemas,
    refuse_misfit,
    table_of_values,
)
from anabranch.connectors.storage import (
    Location,
    Status,
    StorePath,
    advise_on_place,
    describe_failure,
    locate,
)
from anabranch.errors import OutputError, advise
from anabranch.graph.graph import Op
from anabranch.operators.sinks import WriteFiles
from anabranch.runtime.batch import TableItems
from anabranch.runtime.memory_reserve import ADVICE, release_for

_DIGITS = 5
_NUMBER = re.compile(r"part-(\d+)")
SUCCESS = "_SUCCESS"  # an empty file that marks a directory as complete


def part_name(number: int, format: str) -> str:  # noqa: A002
    """Return the name of a part; sorted by name, the parts are the output.

    >>> part_name(12, "csv")
    'part-00012.csv'
    """
    return f"part-{number:0{_DIGITS}}.{format}"


def why_occupied(path: Location) -> str | None:
    """Return the obstacle to a new output at `path`, or None."""
    with output_errors(path):
        if isinstance(path, StorePath):
            found = path.look()
            if found is None or found == "dir":
                full = found is not None and any(path.iterdir())
                return "a directory with files in it" if full else None
            return "a file" if isinstance(found, Status) and found.st_size else None
        if path.is_dir():
            return "a directory with files in it" if any(path.iterdir()) else None
        if path.exists() and not path.is_file():
            return "a pipe, a socket or a device"
        return "a file" if path.exists() and path.stat().st_size else None


def output_error(path: Location, error: OSError) -> OutputError:
    """Return the user's error for a failure of the file system.

    >>> str(output_error(Path("out.csv"), OSError(28, ""))).partition("; free")[0]
    'out.csv must be writable; No space left on device'
    """
    why = _reason(path, error)
    local = "check the path, its permissions and the space on the disk"
    advice = advise(why, advise_on_place(path, local))
    return OutputError(f"{path} must be writable; {why}; {advice}")


def _reason(path: Location, error: OSError) -> str:
    """Return the system's message, and the directory it concerns."""
    why = describe_failure(path, error)
    named = isinstance(path, Path) and isinstance(error.filename, str)
    above = named and Path(error.filename) in path.parents  # type: ignore[union-attr]
    return f"{why}: {error.filename}" if above else why


@contextmanager
def output_errors(path: Location) -> Iterator[None]:
    """Turn failures of the file system into an `OutputError`."""
    try:
        yield
    except OSError as error:
        raise output_error(path, error) from error


class OutputPlace:
    """The location of an output while it is written.

    Output for a store is written on this machine and uploaded at the end: a file
    appears there complete, and of a directory `_SUCCESS` comes last.
    """

    def __init__(self, kind: WriteFiles) -> None:
        """Prepare the hidden location; refuse to overwrite anything."""
        self.path = locate(kind.path)
        self._kind = kind
        self._refuse_occupied()
        hidden = f".{self.path.name}.{uuid.uuid4().hex[:8]}.tmp"
        with output_errors(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(self.path, Path):
                self.hidden = self.path.with_name(hidden)
            else:
                self.hidden = Path(tempfile.mkdtemp(prefix="anabranch-")) / hidden
            if not kind.single:
                self.hidden.mkdir()

    @property
    def format(self) -> str:
        """The format of the output."""
        return self._kind.format

    def part(self, number: int = 0) -> Path:
        """Return where to write a part; a single file is the only part."""
        if self._kind.single:
            return self.hidden
        return self.hidden / part_name(number, self._kind.format)

    def commit(self) -> None:
        """Publish the output atomically."""
        self._refuse_occupied()
        with output_errors(self.path):
            if not self._kind.single:
                (self.hidden / SUCCESS).touch()
            if isinstance(self.path, StorePath):
                if self._kind.mode == "overwrite" and not self._kind.single:
                    self.path.remove_tree()
                put_in_store(self.hidden, self.path)
                self.abort()
                return
            if self._kind.mode == "append" and self.path.is_dir():
                self._add_parts()
                return
            replaced = self._put_aside() if self._kind.mode == "overwrite" else None
            if self.path.is_dir():  # an empty one
                self.path.rmdir()
            elif not self._kind.single:
                self.path.unlink(missing_ok=True)
            self.hidden.replace(self.path)
            if replaced is not None:
                remove(replaced)

    def abort(self) -> None:
        """Remove everything."""
        if self._kind.single:
            with contextlib.suppress(OSError):
                self.hidden.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.hidden, ignore_errors=True)
        if isinstance(self.path, StorePath):
            shutil.rmtree(self.hidden.parent, ignore_errors=True)

    def _refuse_occupied(self) -> None:
        refuse_occupied(self._kind)

    def _put_aside(self) -> Path | None:
        """Rename existing output until the new one has replaced it."""
        assert isinstance(self.path, Path)  # noqa: S101
        if not self.path.exists():
            return None
        aside = self.hidden.with_suffix(".old")
        self.path.replace(aside)
        return aside

    def _add_parts(self) -> None:
        """Append the parts to existing ones; `_SUCCESS` comes when all are there."""
        assert isinstance(self.path, Path)  # noqa: S101
        marker = self.path / SUCCESS
        marker.unlink(missing_ok=True)
        first = next_number(self.path)
        for number, part in enumerate(sorted(self.hidden.glob("part-*")), first):
            part.replace(self.path / part_name(number, self._kind.format))
        marker.touch()
        shutil.rmtree(self.hidden, ignore_errors=True)


def refuse_occupied(kind: WriteFiles) -> None:
    """Refuse to write where something exists, unless the mode allows it."""
    path = locate(kind.path)
    if kind.mode == "overwrite":
        refuse_foreign(path)
    occupied = None if kind.mode == "overwrite" else why_occupied(path)
    if occupied is None or (kind.mode == "append" and path.is_dir()):
        return
    if kind.mode == "append":
        msg = (
            f"an output can only be appended to a directory; {path} is {occupied}; "
            f"write to a directory, or say mode='overwrite'"
        )
        raise OutputError(msg)
    msg = (
        f"an output must not exist yet; {path} is {occupied}; remove it, write to "
        f"another path, or say mode='overwrite' or mode='append'"
    )
    raise OutputError(msg)


def refuse_foreign(path: Location) -> None:
    """Refuse to replace a directory that holds what no run has written."""
    if not isinstance(path, Path) or not path.is_dir():
        return
    for entry in sorted(path.iterdir()):
        if not entry.name.startswith(("part-", "_", ".")):
            msg = (
                f"mode='overwrite' replaces an output; {path} is a directory that holds "
                f"{entry.name}, which is no part of one; remove it, or write to another "
                f"path"
            )
            raise OutputError(msg)


def remove(path: Location) -> None:
    """Remove a file or a directory, if there is one."""
    if isinstance(path, StorePath) and path.is_dir():
        path.remove_tree()
    elif isinstance(path, Path) and path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def next_number(directory: Path) -> int:
    """Return the first part number that sorts after all in a directory.

    Names sort as text, and engines differ in the digits of their numbers.
    """
    highest = -1
    for path in directory.glob("part-*"):
        found = _NUMBER.match(path.name)
        if found is not None:
            highest = max(highest, int(found[1].ljust(_DIGITS, "9")[:_DIGITS]))
    return highest + 1


def put_in_store(source: Path, target: StorePath) -> None:
    """Upload a file or a directory to a store; the marker of a directory comes last."""
    if not source.is_dir():
        with source.open("rb") as file:
            target.upload(file)
        return
    for part in sorted(source.iterdir(), key=lambda one: (one.name == SUCCESS, one)):
        put_in_store(part, target / part.name)


_HELD_ITEMS = 8192  # written at once


def open_writer(op: Op, item_type: Any = None) -> Writer:
    """Return the writer of a sink.

    `item_type`, the type of its stream if known, gives the columns even if no item ever
    comes.
    """
    assert isinstance(op.kind, WriteFiles)  # noqa: S101
    return writer_at(OutputPlace(op.kind), item_type)


def writer_at(place: OutputPlace, item_type: Any) -> Writer:
    """Return the writer of an output at its location."""
    writers: dict[str, Callable[[OutputPlace, Any], Writer]] = {
        "csv": CsvWriter,
        "jsonl": JsonWriter,
        "parquet": ParquetWriter,
    }
    return writers[place.format](place, item_type)


class Writer(ABC):
    """Takes items one by one; `commit` publishes them, `abort` discards them.

    An item that cannot be written is refused by `write` without affecting the others.
    When the file itself fails, accepted items are lost: from then on every call fails,
    `commit` too, so that the loss cannot go unnoticed.
    """

    def __init__(self, output: OutputPlace, item_type: Any) -> None:
        self._output = output
        self._rows = RowValues(columns_of(item_type))
        self._held: list[Any] = []
        self._broken: OutputError | None = None

    def follow(self, before: Writer) -> None:
        """Use the columns of the previous part."""
        self._rows = before._rows

    def write(self, item: Any) -> None:
        """Append an item."""
        if self._broken is not None:
            raise self._broken
        self._held.append(self._prepare(item))
        if len(self._held) >= _HELD_ITEMS:
            self._flush()

    def write_all(self, items: Sequence[Any]) -> bool:
        """Append items at once; False: one does not fit, none was added.

        >>> writer = open_writer(Op("out", WriteFiles("never.csv", "csv")))
        >>> writer.write_all([1, 2]), writer.write_all([3, {4}])
        (True, False)
        >>> writer.abort()
        """
        if self._broken is not None:
            raise self._broken
        if isinstance(items, TableItems):
            write = self._prepare_table(items.table)
            if write is not None:
                self._flush()
                self._guard(write)
                return True
        try:
            prepared = self._all_prepared(items)
        except Exception:  # noqa: BLE001 - whatever it is, one by one it has an item
            return False
        self._held += prepared
        if len(self._held) >= _HELD_ITEMS:
            self._flush()
        return True

    @abstractmethod
    def measure(self) -> int:
        """Return the present size of the file in bytes; approximate for Parquet."""

    def commit(self) -> None:
        """Finish the output and publish it."""
        try:
            self._flush()
            self._guard(self._close)
            self._output.commit()
        except OutputError:
            self.abort()
            raise

    def abort(self) -> None:
        """Remove everything."""
        with contextlib.suppress(OutputError):  # it will be discarded anyway
            self._guard(self._close)
        self._output.abort()

    def _flush(self) -> None:
        if self._broken is not None:
            raise self._broken
        held, self._held = self._held, []
        self._guard(lambda: self._write_out(held))

    def _guard(self, act: Callable[[], None]) -> None:
        """Do something with the file, and remember a failure."""
        try:
            act()
        except OSError as error:
            self._break(output_error(self._output.path, error), error)
        except MemoryError as error:  # Arrow's is one of its own exceptions, too
            release_for(error)
            msg = (
                f"there must be enough memory to write {self._output.path}; the process "
                f"ran out of it; {ADVICE}"
            )
            self._break(OutputError(msg), error)
        except (pa.ArrowException, OutputError) as error:
            msg = f"{self._output.path} could not be written: {error}"
            self._break(OutputError(msg), error)

    def _break(self, broken: OutputError, error: Exception) -> NoReturn:
        broken.lasting = True
        self._broken = broken
        raise broken from error

    @abstractmethod
    def _prepare(self, item: Any) -> Any:
        """Return an item as it is buffered; raise `OutputError` if it does not fit."""

    def _prepare_table(self, table: pa.Table) -> Callable[[], None] | None:
        """Return a function that writes a table's rows; None if they must become
        items.
        """
        return None

    def _all_prepared(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return items as they are buffered; raise an error if one does not fit."""
        return list(map(self._prepare, items))

    @abstractmethod
    def _write_out(self, held: list[Any]) -> None:
        """Write the buffered items; at the first call there may be none."""

    @abstractmethod
    def _close(self) -> None:
        """Close the file, if it is open."""


class CsvWriter(Writer):
    """Writes rows under a header; nothing if the columns are unknown."""

    def __init__(self, output: OutputPlace, item_type: Any) -> None:
        super().__init__(output, item_type)
        self._file = _open(output)
        self._headed = False

    def _prepare(self, item: Any) -> Any:
        values = self._rows.values(item)
        assert self._rows.names is not None  # noqa: S101 - now there is an item
        refuse_unwritable_text(values, self._rows.names)
        return cells(values, self._rows.names)

    def _all_prepared(self, items: Sequence[Any]) -> Sequence[Any]:
        rows = self._rows.of_one_type(items)
        if rows is not None and as_they_are(rows) and have_writable_texts(rows):
            return rows
        return super()._all_prepared(items)

    def _prepare_table(self, table: pa.Table) -> Callable[[], None] | None:
        if self._rows.names != tuple(table.column_names):
            return None
        texts: Iterable[bytes | memoryview] | None = write_table(table)
        if texts is None:
            text = csv_of_table(without_codes(table))
            texts = None if text is None else (text,)
        return None if texts is None else partial(self._file.writelines, texts)

    def _write_out(self, held: list[Any]) -> None:
        if not self._headed and self._rows.names is not None:
            self._file.write(encode_rows([self._rows.names]))
            self._headed = True
        fast = csv_of_rows(held)
        self._file.write(encode_rows(held) if fast is None else fast)

    def measure(self) -> int:
        self._flush()
        return self._file.tell()

    def _close(self) -> None:
        self._file.close()


class JsonWriter(Writer):
    """Writes a line per item; items need not be alike."""

    def __init__(self, output: OutputPlace, item_type: Any) -> None:
        super().__init__(output, item_type)
        self._file = _open(output)
        self._form = None if item_type is None else form_of(item_type)

    def _prepare(self, item: Any) -> Any:
        return json_line(item)

    def _prepare_table(self, table: pa.Table) -> Callable[[], None] | None:
        lines = None
        if self._form is not None:
            lines = json_of_table(table, self._form, "\n")
        texts = [] if lines is None else [bytes_of(lines)]
        return partial(self._file.writelines, texts) if texts else None

    def _write_out(self, held: list[Any]) -> None:
        self._file.write(encode_lines(held))

    def measure(self) -> int:
        self._flush()
        return self._file.tell()

    def _close(self) -> None:
        self._file.close()


class ParquetWriter(Writer):
    """Writes one row group at a time; the first values determine the column types."""

    def __init__(self, output: OutputPlace, item_type: Any) -> None:
        super().__init__(output, item_type)
        self._types = arrow_types(item_type)
        self._file: Any = None
        self._schema: Any = None  # of everything written, including earlier parts
        self._bytes = 0  # of the columns, before compression
        self._weighed = 0  # buffered items among them

    def measure(self) -> int:
        new = self._held[self._weighed :]
        self._bytes += sum(len(str(value)) for row in new for value in row)
        self._weighed = len(self._held)
        return self._bytes

    def _prepare(self, item: Any) -> Any:
        values = self._rows.values(item)
        assert self._rows.names is not None  # noqa: S101 - now there is an item
        for name, value in zip(self._rows.names, values, strict=True):
            if name in self._types:
                refuse_misfit(name, value, self._types[name])
        refuse_unwritable_text(values, self._rows.names)
        return values

    def _prepare_table(self, table: pa.Table) -> Callable[[], None] | None:
        if self._rows.names != tuple(table.column_names):
            return None
        plain = without_codes(table)
        empty = table_of_values([], self._rows.names, self._types)
        if plain.schema.types != empty.schema.types:
            return None
        self._bytes += plain.nbytes

        def write() -> None:  # the file is open by now
            self._file.write_table(plain.cast(self._file.schema))

        return write

    def _write_out(self, held: list[Any]) -> None:
        self._weighed = 0
        if self._file is not None and not held:
            return
        table = table_of_values(held, self._rows.names or (), self._types)
        schema = table.schema
        if self._schema is not None:
            schema = join_schemas(self._schema, schema)
        if self._file is None:
            self._file = pq.ParquetWriter(self._output.part(), schema)
        elif schema != self._schema:
            self._widen(schema)
        self._schema = schema
        self._file.write_table(table.cast(schema))

    def follow(self, before: Writer) -> None:
        super().follow(before)
        assert isinstance(before, ParquetWriter)  # noqa: S101
        self._schema = before._schema  # noqa: SLF001

    def _widen(self, schema: Any) -> None:
        """Rewrite the file, because a column of None has other values now."""
        path = self._output.part()
        self._file.close()
        with path.open("rb") as opened, pq.ParquetFile(opened) as before:
            path.unlink()
            self._file = pq.ParquetWriter(path, schema)
            for group in range(before.num_row_groups):
                self._file.write_table(before.read_row_group(group).cast(schema))

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()


def _open(output: OutputPlace) -> BinaryIO:
    try:
        return output.part().open("wb")
    except OSError as error:
        output.abort()
        raise output_error(output.path, error) from error
