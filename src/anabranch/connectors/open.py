"""The choice of a source's reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.connectors.files.follow import FollowReader
from anabranch.connectors.partitions import open_source
from anabranch.connectors.reader import FileReader, ItemReader, Reader
from anabranch.errors import EngineError
from anabranch.graph.graph import Op
from anabranch.graph.kind import Kind
from anabranch.operators.sources import (
    FromIterable,
    FromSpark,
    Generate,
    ReadFiles,
    ReadSource,
)
from anabranch.runtime.failures import OnError


def open_reader(op: Op, on_error: OnError) -> Reader:
    """Return the reader of a source; unreadable rows go to `on_error`.

    >>> reader = open_reader(Op("n", FromIterable("ab")), print)
    >>> list(reader), list(reader.read_numbered()), reader.where(2)
    (['a', 'b'], [('a', 1), ('b', 2)], 'item 2 of n')
    """
    match op.kind:
        case FromIterable(items):
            return ItemReader(op, lambda: items)
        case Generate(factory):
            return ItemReader(op, factory)
        case ReadFiles(follow=True):
            return FollowReader(op, on_error)
        case FromSpark():
            msg = (
                f"from_spark needs the Spark engine; {op.name!r} ({op.site}) was run "
                f"on another; say on='spark', or read the data with another source"
            )
            raise EngineError(msg)
    return _READERS[type(op.kind)](op, on_error)


_READERS: Mapping[type[Kind], Callable[[Op, OnError], Reader]] = {
    ReadFiles: FileReader,
    ReadSource: open_source,
}
