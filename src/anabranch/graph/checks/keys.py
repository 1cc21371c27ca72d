"""Do the attributes that operators name exist, and can they be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.errors import Fault
from anabranch.graph.attributes import attribute_type, lacks, may_be, there_is
from anabranch.graph.checks.streams import Streams, fault
from anabranch.graph.graph import Op
from anabranch.graph.joins import Join
from anabranch.graph.kinds import Merge, Union
from anabranch.graph.types import fields_of, type_name


def keys(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each key that items do not have, or that cannot be compared."""
    for op in streams.ops:
        match op.kind:
            case Join(on=on):
                yield from _shared(op, streams, on, "on")
            case Merge(by=by):
                yield from _shared(op, streams, (by,), "by")
            case Union():
                yield from _union(op, streams)
            case _:
                yield from _key(op, streams.item_type(op))


def missing(op: Op, tuple_type: Any, name: str, use: str) -> Iterator[Fault]:
    """Yield a fault if items of a type lack an attribute that `use` names."""
    if lacks(tuple_type, name):
        yield fault(
            op,
            f"{use} names {name!r}, which {type_name(tuple_type)} does not have",
            there_is(name, fields_of(tuple_type) or ()),
        )


def _key(op: Op, tuple_type: Any) -> Iterator[Fault]:
    for name in op.state_key:
        if lacks(tuple_type, name):
            yield fault(
                op,
                f"key_by names {name!r}, which {type_name(tuple_type)} does not have",
                f"{there_is(name, fields_of(tuple_type) or ())}; key_by with another "
                f"attribute changes the key, key_by() ends it",
            )


def _shared(
    op: Op, streams: Streams, names: tuple[str, ...], use: str
) -> Iterator[Fault]:
    for name in names:
        for tuple_type in dict.fromkeys(streams.types(op)):
            yield from missing(op, tuple_type, name, use)
        yield from _alike(op, streams, name, use)


def _union(op: Op, streams: Streams) -> Iterator[Fault]:
    fields = [fields_of(tuple_type) or {} for tuple_type in streams.types(op)]
    for name in dict.fromkeys(name for names in fields for name in names):
        yield from _alike(op, streams, name, "union")


def _alike(op: Op, streams: Streams, name: str, use: str) -> Iterator[Fault]:
    """Yield a fault if streams have an attribute of one name but of other types."""
    first: Any = None
    for tuple_type in streams.types(op):
        found = attribute_type(tuple_type, name)
        if found is None:
            continue
        first = first or (tuple_type, found)
        if not may_be(found, first[1]):
            yield fault(
                op,
                f"{use}: {name!r} is {type_name(first[1])} in {type_name(first[0])} "
                f"but {type_name(found)} in {type_name(tuple_type)}",
                "map one of the streams, so that both have it of one type",
            )
            return
