"""Checks of paths, of sources and sinks that overlap, and of readable types."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from anabranch.connectors.base import Sink
from anabranch.connectors.files.values import find_row_faults
from anabranch.connectors.storage import StorePath, locate, why_no_store
from anabranch.errors import Fault
from anabranch.graph.graph import Op
from anabranch.graph.kind import SourceKind
from anabranch.graph.paths import is_store_url, path_advice, why_not_path
from anabranch.graph.shapes import why_not_column
from anabranch.graph.types import (
    fields_of,
    members_of,
    type_name,
    why_not_tuple_type,
)
from anabranch.language.checks.structure import Streams, fault
from anabranch.operators.sinks import Mode, WriteFiles, WriteSink
from anabranch.operators.sources import (
    FromIterable,
    Generate,
    ReadFiles,
    ReadSource,
)


def _is_in_parts(given: Any) -> bool:
    """Tell whether a type is of plain tuples or tables, which a map may give too."""
    return (get_origin(given) or given) in (dict, tuple) or members_of(
        given
    ) is not None


def sources(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each source that cannot produce items of its type."""
    for op in streams.ops:
        if not isinstance(op.kind, SourceKind):
            continue
        given = op.kind.type if isinstance(op.kind, ReadFiles) else op.type
        known = given is not None or isinstance(op.kind, ReadFiles)
        made = isinstance(op.kind, FromIterable | Generate)  # its items exist already
        if made and _is_in_parts(given):
            known = False
        why = why_not_tuple_type(given) if known else None
        if why is not None:
            yield fault(
                op,
                f"a source must give items of a tuple type; {why}",
                "use a typing.NamedTuple, a dataclass(frozen=True) or a scalar"
                + (", or leave the type out" if made else ""),
            )
        else:
            yield from _rows(op, given)
        if isinstance(op.kind, FromIterable):
            yield from _collection(op, op.kind.items)


def _rows(op: Op, given: Any) -> Iterator[Fault]:
    """Yield a fault for each attribute that no row of the source can hold."""
    found: Iterable[tuple[str, str]] = ()
    match op.kind:
        case ReadSource(source):
            found = source.find_faults(given)
        case ReadFiles():
            found = find_row_faults(op.kind.format, given, op.kind.delimiter)
    for what, advice in found:
        yield fault(op, what, advice)


def locations(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each path that names neither a local file nor one of a
    store.
    """
    for op in streams.ops:
        if not isinstance(op.kind, ReadFiles | WriteFiles):
            continue
        why = _why_not_location(op)
        if why is not None:
            yield fault(
                op,
                f"a path must name a file or directory of this machine or of a store; "
                f"{why}",
                path_advice(op.kind.path) + _by_spark(op, why),
            )
        elif isinstance(op.kind, WriteFiles) and locate(_path(op)).name in ("", ".."):
            yield fault(
                op,
                f"an output must have a name of its own; got {_path(op)!r}",
                "name the new file or directory, as in 'out' or 'out.csv'",
            )
        elif isinstance(op.kind, WriteFiles):
            yield from _ending(op, op.kind)
            yield from _in_store(op, op.kind)
            yield from _mode(op, op.kind)


_FILES = ("csv", "tsv", "txt", "json", "jsonl", "ndjson", "parquet", "gz")


def _ending(op: Op, kind: WriteFiles) -> Iterator[Fault]:
    """Yield a fault for a directory of parts that is named like a file."""
    name = locate(kind.path).name
    stem, _, ending = name.rpartition(".")
    if kind.single or not stem or ending not in _FILES:
        return
    stem = stem.removesuffix(f".{kind.format}")  # of x.csv.gz
    if ending == "gz":
        yield fault(
            op,
            f"an output must not be compressed with gzip, which is only read; got {name!r}",
            f"name one file '{stem}.{kind.format}', or a directory '{stem}', and compress "
            f"it afterwards; or use write_parquet, which compresses",
        )
        return
    others = {"csv": "write_csv", "jsonl": "write_jsonl", "parquet": "write_parquet"}
    instead = f", or use {others[ending]}" if ending in others else ""
    yield fault(
        op,
        f"one file must end in .{kind.format}, and a directory of parts in no ending of "
        f"files; {name!r} ends in .{ending}",
        f"name one file '{stem}.{kind.format}', or a directory '{stem}'{instead}",
    )


def _mode(op: Op, kind: WriteFiles) -> Iterator[Fault]:
    if kind.mode not in get_args(Mode):
        yield fault(
            op,
            f"mode must be one of {', '.join(get_args(Mode))}; got {kind.mode!r}",
            "choose what happens to an output that exists",
        )
    elif kind.single and (kind.rolls or kind.mode == "append"):
        what = "parts that appear one by one" if kind.rolls else "mode='append'"
        yield fault(
            op,
            f"{what} must have a directory; {kind.path!r} is one file",
            f"leave out the ending .{kind.format}",
        )


def _in_store(op: Op, kind: WriteFiles) -> Iterator[Fault]:
    """Yield a fault for an output in a store that only a disk supports."""
    if is_store_url(kind.path) and (kind.rolls or kind.mode == "append"):
        asked = "roll" if kind.rolls else "mode='append'"
        yield fault(
            op,
            f"an output that grows must be on a disk; {kind.path!r} is in a store, and "
            f"{asked} was asked for",
            "write to a local path, or leave it out",
        )


def paths(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each sink whose path is read, or written by another one."""
    usable = [op for op in streams.ops if _has_usable_path(op)]
    reading = [op for op in usable if isinstance(op.kind, ReadFiles)]
    writing = [op for op in usable if isinstance(op.kind, WriteFiles)]
    for index, op in enumerate(writing):
        for other in writing[:index]:
            if _overlap(_path(op), _path(other)):
                yield fault(
                    op,
                    f"it writes to {_path(op)!r}, as {other.name!r} ({other.site}) does",
                    "give each sink a path of its own",
                )
        for other in reading:
            if _reads(_path(other), _path(op)):
                yield fault(
                    op,
                    f"it writes to {_path(op)!r}, which {other.name!r} "
                    f"({other.site}) reads",
                    "write to another path",
                )


def outputs(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each sink that cannot take the items of its stream."""
    for op in streams.ops:
        found: Iterable[tuple[str, str]] = ()
        match op.kind:
            case WriteFiles(format="parquet"):
                found = _columns(streams.item_type(op))
            case WriteSink(Sink() as sink):
                found = sink.find_faults(streams.item_type(op))
        for what, advice in found:
            yield fault(op, what, advice)


def _columns(given: Any) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with each column of Parquet that has several types."""
    fields = fields_of(given)
    for name, annotation in ({"value": given} if fields is None else fields).items():
        why = None if annotation is None else why_not_column(annotation)
        if why is not None:
            what = (
                f"a column of Parquet must be of one type; {name!r} of "
                f"{type_name(given)} is {type_name(annotation)}, and {why}"
            )
            yield what, "write JSON lines, or map it to one type first"


def _collection(op: Op, items: Any) -> Iterator[Fault]:
    if isinstance(items, Iterator):
        yield fault(
            op,
            f"from_iterable must be able to read its items again; got the "
            f"{type(items).__name__} {items!r}, which can be read once",
            "pass list(...) of it, or use ab.generate with a function that makes it",
        )
    elif not isinstance(items, Iterable) and not hasattr(items, "__getitem__"):
        yield fault(
            op,
            f"from_iterable must be given a collection; got {items!r}",
            "pass for instance a list",
        )


def _why_not_location(op: Op) -> str | None:
    """Return why engines cannot read or write a path; or None."""
    path: Any = op.kind.path  # type: ignore[attr-defined]
    why = why_not_path(path)
    return why_no_store(path) if is_store_url(path) else why


def _by_spark(op: Op, why: str) -> str:
    """Return how Spark can access the URL of an unknown store."""
    if "is a URL" not in why:
        return ""
    if isinstance(op.kind, ReadFiles):
        return ", or read it with Spark: ab.from_spark(spark.read...)"
    return ", or write it with Spark: .to_spark(...)"


def _has_usable_path(op: Op) -> bool:
    given = isinstance(op.kind, ReadFiles | WriteFiles)
    return given and _why_not_location(op) is None


def _path(op: Op) -> str:
    assert isinstance(op.kind, ReadFiles | WriteFiles)  # noqa: S101
    return op.kind.path


def _overlap(one: str, two: str) -> bool:
    """Tell whether paths are equal, or one lies within the other."""
    first, second = Path(_absolute(one)), Path(_absolute(two))
    return first == second or first in second.parents or second in first.parents


def _reads(source: str, target: str) -> bool:
    return _overlap(source, target) or fnmatch.fnmatch(
        _absolute(target), _absolute(source)
    )


def _absolute(path: str) -> str:
    """Return an absolute path; one of a store has its URL."""
    place = locate(path)
    if isinstance(place, StorePath):
        return place.url
    return os.path.abspath(path)  # noqa: PTH100 - resolve() would follow links to what is not there yet
