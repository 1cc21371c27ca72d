"""The public base classes of connectors: a source or a sink is one class in one file.

Files and packages that only some programs need are loaded on first use.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar, Self

from anabranch.errors import ArgumentError, EngineError
from anabranch.graph.site import site_of
from anabranch.operators.sinks import SinkPart


def require(module: str, extra: str) -> ModuleType:
    """Return a module, or say how to install it.

    >>> require("json", "json").dumps(1)
    '1'
    >>> require("no_such_module", "kafka")
    Traceback (most recent call last):
    anabranch.errors.EngineError: this needs the module no_such_module; it is not installed; say pip install 'anabranch[kafka]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = (
            f"this needs the module {module}; it is not installed; "
            f"say pip install 'anabranch[{extra}]'"
        )
        raise EngineError(msg) from error


def load_connector(file: str) -> ModuleType:
    """Return a file of this folder; only programs that use its system load it.

    >>> load_connector("socket").SocketSink.label
    'to_socket'
    """
    return importlib.import_module(f"anabranch.connectors.{file}")


@dataclass(frozen=True)
class Malformed:
    """A row that cannot become an item.

    `Source.read` yields it in place of an item; `Sink.write` returns it for an item
    that the target does not accept. By default it stops the job; with `on_error="skip"`
    or `ab.dead_letter(...)` it is left out.

    `reason` is a phrase such as "must be a number; got 'x'", or the error itself.
    `where` is the location of the row; `advice` says what to do about it.

    >>> import anabranch as ab
    >>> class Numbers(ab.Source):
    ...     def read(self, partition, position):
    ...         for line, text in enumerate(["1", "x", "3"], 1):
    ...             try:
    ...                 yield int(text), line
    ...             except ValueError as error:
    ...                 yield ab.Malformed(text, error, f"line {line}"), line
    >>> out = ab.read(Numbers(), int).to_list()
    >>> _ = ab.run(out, on="sequential", on_error="skip")
    >>> out.items
    [1, 3]
    """

    raw: Any
    reason: str | Exception
    where: str = ""
    advice: str = "correct the input"


@dataclass(frozen=True)
class RowRange:
    """The rows of a range of offsets, as `Source.read_range` returns them.

    `rows` may be any sequence, also one that makes its rows on demand. `offsets` has the
    offset of each row. `born_s` has the birth time of each row in seconds since 1970, or
    is empty.

    >>> import anabranch as ab
    >>> class Squares(ab.Source):
    ...     def offsets(self, partition):
    ...         return 0, 4
    ...     def read(self, partition, position):
    ...         for n in range(position, 4):
    ...             yield n * n, n + 1
    ...     def read_range(self, partition, start, end):
    ...         return ab.RowRange([n * n for n in range(start, end)], range(start, end))
    >>> ab.testing.outputs(ab.read(Squares(), int))
    [0, 1, 4, 9]
    """

    rows: Sequence[Any]
    offsets: Sequence[int]
    born_s: Sequence[float | None] = ()


class Source:
    """The base class of sources. A source defines `read`; everything else is optional.

    Use it as `ab.read(MySource(...), Type)`. It runs on every engine. With a checkpoint
    each partition resumes after the last committed row, so that every row is read
    exactly once.

    **Partitions.** Each partition is read independently, from a position. Spark reads
    the partitions of a bounded source in parallel, in its workers; for that, the source
    must be picklable. The driver reads a source that has one partition, is live, or
    cannot be pickled; a live source that has `offsets` is read by workers.

    **Positions.** A position says where the next row of a partition is: an offset, a
    row id, a page token with the number of the row in its page. Each row has another
    one. It can be anything that survives a round trip through JSON: a number, a string,
    or lists and dicts of these; None means the start. Reading from the same position
    must give the same rows again.

    **Order.** A bounded source gives up to `block` rows of its first partition, then of
    its second, and so on, and begins again with the first. So the order is the same on
    every engine and in every run. A live source gives rows in order of arrival: those
    that have arrived together go partition by partition. In both cases the rows of a
    partition keep their order.

    >>> import anabranch as ab
    >>> class Countdown(ab.Source):
    ...     block = 2
    ...     def partitions(self):
    ...         return ["3", "5"]
    ...     def read(self, partition, position):
    ...         start = int(partition) if position is None else position
    ...         for n in range(start, 0, -1):
    ...             yield n, n - 1
    >>> ab.testing.outputs(ab.read(Countdown(), int))
    [3, 2, 5, 4, 1, 3, 2, 1]
    """

    label: ClassVar[str] = "read"  # the name of its operator, if the user gives none
    live: bool = False  # whether it runs until `job.stop()`
    block: int = 10_000  # rows that a bounded source gives of each partition in turn

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """Refuse to make an instance of a class that lacks a method."""
        _refuse_missing(cls, Source, "read", "self, partition, position")
        _refuse_surplus(cls, arguments, keywords)
        return super().__new__(cls)

    def partitions(self) -> Sequence[str]:
        """Return the names of the partitions, in order; by default there is one.

        A bounded source must return the same list in every run of a job. A live one is
        polled from time to time; new partitions are read from their beginning.
        """
        return ("all",)

    def read(self, partition: str, position: Any) -> Iterable[tuple[Any, Any]]:
        """Yield `(item, position after it)` from a position; None: from the start.

        A bounded source returns at the end of the partition. A live source returns when
        nothing more has arrived; it must not block. It is called again soon, with the
        last position. The engine may stop reading at any row, so release files and
        connections in `with` or `finally`.
        """
        raise NotImplementedError

    def has_ended(self) -> bool:
        """Tell whether a live source has ended; called when nothing has arrived."""
        return False

    def decode(self, rows: Sequence[Any]) -> Sequence[Any]:
        """Return the items of rows that `read` yielded, one per row, in order.

        A bad row becomes a `Malformed`. By default rows are items. Spark calls it in
        the workers, even if the driver has read the rows: so `read` may yield raw rows,
        and leave the parsing to `decode`.
        """
        return rows

    def decode_table(self, rows: Sequence[Any]) -> Any:
        """Return the items of rows as an Arrow table; None if `decode` has to do it.

        The table has a column for each attribute of the items, in order, or the one
        column `value` for plain values; int is int64, float is float64. A type with other
        attributes than bool, int, float, str and bytes, or None, has no table. Workers on
        Spark call it before `decode`, and make no objects if there is a table.
        """
        return None

    def offsets(self, partition: str) -> tuple[int, int] | None:
        """Return the first offset of a partition and its end offset; None: no answer.

        For a source whose positions are offsets. It is read by ranges: Spark assigns
        ranges of offsets to the workers, also those of a live source. `read` then
        yields `(row, offset + 1)`, up to the end offset at the time of the call;
        offsets may be missing. A live source gives each partition its share; a bounded
        one ends at the end offsets of its first call, and is read partition by
        partition.
        """
        return None

    def read_range(self, partition: str, start: int, end: int) -> RowRange | None:
        """Return the rows from offset `start` to `end` at once; None: by `read`.

        For a source with `offsets`. Workers on Spark call it for each of their ranges.
        """
        return None

    def first_offset(self, partition: str) -> int | None:
        """Return where a new job starts reading; None: no answer.

        By default, at the first offset. It is not called for a job that resumes, and
        partitions added later are read from their first offset.
        """
        found = self.offsets(partition)
        return None if found is None else found[0]

    def born_s(self, row: Any) -> float | None:
        """Return the birth time of a row, in seconds since 1970, if known.

        The latency of a live source is measured from then; by default, from the time
        the row was read.
        """
        return None

    def wait(self, at_most_s: float) -> None:
        """Wait until something may have arrived; called when nothing has."""
        time.sleep(at_most_s)

    def count_waiting(self, positions: Mapping[str, Any]) -> int | None:
        """Return the backlog of a live source in rows, if known.

        `positions` are those after the last row read of each partition. It is part of
        the backlog that `Job.metrics()` reports and controllers use. It may be called
        from another thread than `read`.
        """
        return None

    def find_faults(self, type: Any) -> Iterable[tuple[str, str]]:
        """Yield what is wrong before anything runs, each with what to do about it.

        That may be an argument of the source, or the type of its items; `type` is None
        if that is not known. A program with faults is refused, and all are reported at
        once, with the user's line.

        >>> import anabranch as ab
        >>> class Numbers(ab.Source):
        ...     def read(self, partition, position):
        ...         yield 1, 1
        ...     def find_faults(self, type):
        ...         if type is not int:
        ...             yield f"its items are numbers; got {type}", "say ab.read(..., int)"
        >>> ab.run(ab.read(Numbers(), str).to_list())
        Traceback (most recent call last):
        anabranch.errors.GraphError: ...its items are numbers; got <class 'str'>...
        """
        return ()

    def addresses(self) -> Sequence[tuple[str, int]]:
        """Return the hosts and ports it needs; `anabranch doctor` tries them."""
        return ()

    def close(self) -> None:
        """Release what `read` has kept open; nothing is read any more.

        A worker that has read ranges of offsets calls it when it has nothing to do, and
        may read again later.
        """


class Sink:
    """The base class of sinks. A sink defines `write`; everything else is optional.

    Use it as `stream.write(MySink(...))`. It receives the items in order, one epoch at
    a time, in one process. For each epoch that has items the engine calls
    `write(items)`, `prepare(epoch)` and `commit(epoch)`. If `write` or `prepare` fails,
    it calls `abort(epoch)`, and the job stops. Other sinks still get the items that came
    before the failure.

    **Exactly once.** Epoch numbers increase. A job on Spark with a checkpoint that was
    killed may deliver its last epoch again: the same items under the same number. A
    sink that stores the number together with the items, in one transaction, returns the
    last number from `open`; epochs up to that one are then not written again. A sink
    that does not know returns None and must make `commit(epoch)` idempotent, for
    instance by writing a file whose name contains the number.

    **Order.** A sink with `ordered = False` receives the items of an epoch in any order,
    which saves work behind a region: a fold that is commutative, such as a sum, or a
    table without an order.

    **Where.** By default it is called in the process that started the job. With
    `in_workers`, Spark calls it in a worker, and the items do not pass through the
    driver. The sink must then be picklable, and its target reachable from every worker
    as from the driver, which opens it first. After a failure another process may
    deliver an epoch again, and two may do so at the same time: rows and number of an
    epoch must be stored in one transaction, or under a name that contains the number.

    **Parts.** A sink that defines `write_part` and `commit_parts`, instead of `write`,
    is written in parallel. Spark's tasks call `write_part` on copies of the sink that
    nobody has opened, each with a contiguous range of the items of an epoch. When the
    epoch is recorded, the process that started the job (with `in_workers`, a worker)
    calls `commit_parts` with what they returned, in the order of the items. The sink must
    be picklable before it is opened. Other engines write one part per epoch.

    **Tables.** With `takes_tables`, the items that `write` or `write_part` gets may have an attribute
    `table`: they are then an Arrow table, with a column for each attribute, and become
    objects only if the sink looks at them one by one. Workers on Spark give tables to a
    sink whose items have a type of plain columns.

    >>> import anabranch as ab
    >>> class Printer(ab.Sink):
    ...     def write(self, items):
    ...         self.pending = list(items)
    ...     def commit(self, epoch):
    ...         print("epoch", epoch, self.pending)
    >>> _ = ab.run(ab.from_iterable("ab").write(Printer()), on="sequential")
    epoch 1 ['a', 'b']
    """

    label: ClassVar[str] = "write"  # the name of its operator, if the user gives none
    in_workers: bool = False  # whether Spark may call it in a worker
    ordered: bool = True  # whether it needs the items in order
    takes_tables: bool = False  # whether `write` may be given a table

    def __new__(cls, *arguments: Any, **keywords: Any) -> Self:
        """Refuse to make an instance of a class that lacks a method."""
        if cls.write_part is Sink.write_part:
            _refuse_missing(cls, Sink, "write", "self, items")
        else:
            _refuse_missing(cls, Sink, "commit_parts", "self, epoch, parts")
        _refuse_surplus(cls, arguments, keywords)
        return super().__new__(cls)

    @property
    def in_parts(self) -> bool:
        """Whether tasks write it in parts; by default, if it defines `write_part`."""
        return type(self).write_part is not Sink.write_part

    def open(self, job: str, type: Any) -> int | None:
        """Prepare; return the last committed epoch, or None if unknown.

        `job` identifies the job and the sink. It stays the same when a job resumes from
        its checkpoint, and is unique to the job. `type` is the type of the items, or
        None if it is not known.
        """
        return None

    def write(self, items: Sequence[Any]) -> Iterable[Malformed] | None:
        """Write all items of an epoch; return those that cannot be written, if any."""
        raise NotImplementedError

    def prepare(self, epoch: int) -> None:
        """Check and store what was written, so that `commit` can hardly fail."""

    def commit(self, epoch: int) -> None:
        """Make the epoch visible; it may be called twice and must count once."""

    def abort(self, epoch: int) -> None:
        """Discard what was written for an epoch that will not be committed."""

    def write_part(self, part: SinkPart, items: Sequence[Any]) -> Any:
        """Store some items of an epoch where no reader sees them; describe the part.

        The result may be anything that survives a round trip through JSON, such as a
        path; it should be small. Several attempts of a task may write the same items,
        also at the same time, each under its own name. One of them counts. The others
        are never committed, and nobody is told: what they have stored must not matter.

        >>> import anabranch as ab, pathlib, tempfile
        >>> class Lines(ab.Sink):
        ...     def __init__(self, directory):
        ...         self.directory = pathlib.Path(directory)
        ...     def write_part(self, part, items):
        ...         (self.directory / f".{part.name}").write_text("".join(items))
        ...         return part.name
        ...     def commit_parts(self, epoch, parts):
        ...         for name in parts:
        ...             if (hidden := self.directory / f".{name}").exists():
        ...                 hidden.rename(self.directory / name)
        >>> directory = tempfile.mkdtemp()
        >>> _ = ab.run(ab.from_iterable("abc").write(Lines(directory)), on="local")
        >>> "".join(p.read_text() for p in sorted(pathlib.Path(directory).iterdir()))
        'abc'
        """
        raise NotImplementedError

    def commit_parts(self, epoch: int, parts: Sequence[Any]) -> None:
        """Make the parts of an epoch visible, all at once, in their order.

        `parts` is what `write_part` returned. It may be called twice and must count
        once.
        """
        raise NotImplementedError

    def find_faults(self, type: Any) -> Iterable[tuple[str, str]]:
        """Yield what is wrong before anything runs, each with what to do about it.

        That may be an argument of the sink, or the type of the items it would be given;
        `type` is None if that is not known. A program with faults is refused, and all
        are reported at once, with the user's line.

        >>> import anabranch as ab
        >>> class Bill(ab.Sink):
        ...     def write(self, items):
        ...         print(sum(items))
        ...     def find_faults(self, type):
        ...         if type is not int:
        ...             yield f"a bill adds whole numbers; got {type}", "map them first"
        >>> ab.run(ab.from_iterable(["7"], str).write(Bill()))
        Traceback (most recent call last):
        anabranch.errors.GraphError: ...a bill adds whole numbers; got <class 'str'>...
        """
        return ()

    def addresses(self) -> Sequence[tuple[str, int]]:
        """Return the hosts and ports it needs; `anabranch doctor` tries them."""
        return ()

    def close(self) -> None:
        """Release connections; nothing is written any more."""


def advise_instance(given: Any, base: type) -> str:
    if isinstance(given, type) and issubclass(given, base):
        return f"make an instance: {given.__name__}(...)"
    return "see docs/connectors.md for an example"


def _refuse_missing(cls: type, base: type, method: str, parameters: str) -> None:
    if getattr(cls, method) is getattr(base, method):
        msg = (
            f"{cls.__name__} ({site_of(cls)}) must define {method}({parameters}), as "
            f"every ab.{base.__name__}; it does not; add the method"
        )
        raise ArgumentError(msg)


def _refuse_surplus(cls: type, arguments: tuple[Any, ...], keywords: Any) -> None:
    """Refuse arguments that no constructor takes: with a `__new__`, Python does not."""
    if (arguments or keywords) and cls.__init__ is object.__init__:  # type: ignore[misc]
        msg = f"{cls.__name__}() takes no arguments; define __init__ to take some"
        raise ArgumentError(msg)
