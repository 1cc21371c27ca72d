"""The functions that start a program: one for each kind of source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from anabranch.graph.sources import FromIterable, Generate, ReadFiles
from anabranch.graph.stream import Stream, source


def from_iterable(
    items: Iterable[Any],
    type: Any = None,
    *,
    name: str | None = None,
) -> Stream:
    """Read a collection that can be read again, such as a list.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.from_iterable([1, 2]))
    [1, 2]
    """
    return source(FromIterable(items), type, name)


def generate(
    factory: Callable[[], Iterator[Any]],
    type: Any = None,
    *,
    name: str | None = None,
) -> Stream:
    """Read `factory()`, which gives a fresh, repeatable iterator, possibly endless.

    >>> import anabranch as ab
    >>> ab.testing.outputs(ab.generate(lambda: iter(range(3))))
    [0, 1, 2]
    """
    return source(Generate(factory), type, name)


def read_csv(
    path: str,
    type: Any,
    *,
    header: bool = True,
    delimiter: str = ",",
    follow: bool = False,
    name: str | None = None,
) -> Stream:
    r"""Read comma-separated values; columns are matched to attributes by name.

    Without a `header` they are matched by position. `path` is a file, a directory or
    a pattern; several files are read in the order of their names. With `follow` a
    directory or pattern is watched until the job is stopped: new files are read as
    they appear, each once it has not changed for a second (files whose names begin
    with `.` or `_` are left alone until they are renamed).

    >>> import anabranch as ab, pathlib, tempfile
    >>> from typing import NamedTuple
    >>> class Trade(NamedTuple):
    ...     symbol: str
    ...     volume: int
    >>> path = tempfile.mkdtemp() + "/trades.csv"
    >>> _ = pathlib.Path(path).write_text("symbol,volume\nA,1\n")
    >>> ab.testing.outputs(ab.read_csv(path, Trade))
    [Trade(symbol='A', volume=1)]
    """
    kind = ReadFiles(str(path), "csv", type, header, delimiter, follow)
    return source(kind, type, name)


def read_jsonl(
    path: str, type: Any, *, follow: bool = False, name: str | None = None
) -> Stream:
    r"""Read JSON lines, one object (or, for a scalar type, one value) a line.

    With `follow` a directory is watched, as by `ab.read_csv`.

    >>> import anabranch as ab, pathlib, tempfile
    >>> path = tempfile.mkdtemp() + "/numbers.jsonl"
    >>> _ = pathlib.Path(path).write_text("1\n2\n")
    >>> ab.testing.outputs(ab.read_jsonl(path, int))
    [1, 2]
    """
    return source(ReadFiles(str(path), "jsonl", type, follow=follow), type, name)


def read_text(path: str, *, follow: bool = False, name: str | None = None) -> Stream:
    r"""Read lines of text, without their line ends.

    With `follow` a directory is watched, as by `ab.read_csv`.

    >>> import anabranch as ab, pathlib, tempfile
    >>> path = tempfile.mkdtemp() + "/words.txt"
    >>> _ = pathlib.Path(path).write_text("one\ntwo\n")
    >>> ab.testing.outputs(ab.read_text(path))
    ['one', 'two']
    """
    return source(ReadFiles(str(path), "text", str, follow=follow), str, name)


def read_parquet(
    path: str, type: Any, *, follow: bool = False, name: str | None = None
) -> Stream:
    """Read Parquet; columns are matched to attributes by name.

    With `follow` a directory is watched, as by `ab.read_csv`.

    >>> import anabranch as ab, pyarrow as pa, pyarrow.parquet, tempfile
    >>> path = tempfile.mkdtemp() + "/numbers.parquet"
    >>> pa.parquet.write_table(pa.table({"value": [1, 2]}), path)
    >>> ab.testing.outputs(ab.read_parquet(path, int))
    [1, 2]
    """
    kind = ReadFiles(str(path), "parquet", type, follow=follow)
    return source(kind, type, name)
