"""Are windows well formed, and do columns fit what they are made of and into."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator
from typing import Any

from anabranch.errors import Fault
from anabranch.graph.attributes import attribute_type, is_number, may_be, there_is
from anabranch.graph.checks.functions import why_not_called
from anabranch.graph.checks.keys import missing
from anabranch.graph.checks.streams import Streams, fault
from anabranch.graph.graph import Op
from anabranch.graph.joins import Join
from anabranch.graph.kinds import shown
from anabranch.graph.types import fields_of, type_name
from anabranch.graph.windows import Aggregate, Column, Window

_SIZES = ("count", "time", "delta")


def windows(streams: Streams) -> Iterator[Fault]:
    """Yield the faults of the windows of aggregates and joins."""
    for op in streams.ops:
        match op.kind:
            case Aggregate(window=window):
                yield from _window(op, window, "window", streams.types(op))
                yield from _aggregate(op, op.kind, streams.item_type(op))
            case Join(left_window=left, right_window=right):
                for side, window in (("left_window", left), ("right_window", right)):
                    yield from _join_window(op, window, side, streams.types(op))
                if _keeps_nothing(left) and _keeps_nothing(right):
                    yield fault(
                        op,
                        "a side of a join must keep items; both windows have count 0",
                        "give the side whose items wait for the other a larger window",
                    )


def _join_window(op: Op, window: Window, use: str, types: list[Any]) -> Iterator[Fault]:
    if window.punctuation or window.every is not None:
        what = "punctuation" if window.punctuation else "every"
        yield fault(
            op,
            f"{use} must hold the latest items; it is given {what}",
            "give ab.Window(count=n), ab.Window(time=t, on=...) or delta=",
        )
    elif not _keeps_nothing(window):
        yield from _window(op, window, use, types)


def _keeps_nothing(window: Window) -> bool:
    """Tell whether items of this side of a join meet others and are then forgotten."""
    return type(window.count) is int and window == Window(count=0)


def _window(op: Op, window: Window, use: str, types: list[Any]) -> Iterator[Fault]:
    given = [name for name in _SIZES if getattr(window, name) is not None]
    given += ["punctuation"] if window.punctuation else []
    if len(given) != 1:
        yield fault(
            op,
            f"{use} must have exactly one of count, time, delta and punctuation; "
            f"it has {' and '.join(given) or 'none'}",
            "give one of them",
        )
        return
    (kind,) = given
    if kind != "punctuation":
        yield from _size(op, window, use, kind)
    yield from _every(op, window, use, kind)
    yield from _on(op, window, use, kind, types)
    yield from _late(op, window, use, kind)


def _size(op: Op, window: Window, use: str, kind: str) -> Iterator[Fault]:
    size = getattr(window, kind)
    if not _positive(size, whole=kind == "count"):
        number = "a whole number" if kind == "count" else "a number"
        yield fault(
            op,
            f"{kind} of {use} must be {number} above 0; got {size!r}",
            f"give {kind}= a positive number",
        )


def _every(op: Op, window: Window, use: str, kind: str) -> Iterator[Fault]:
    if window.every is None:
        return
    if kind == "punctuation":
        yield fault(
            op,
            f"{use} ends at punctuations, so it cannot slide by every={window.every!r}",
            "leave out every=, or slide by count, time or delta",
        )
    elif not _positive(window.every, whole=kind == "count"):
        number = "a whole number" if kind == "count" else "a number"
        yield fault(
            op,
            f"every of {use} must be {number} above 0; got {window.every!r}",
            "give every= a positive number, or leave it out for a tumbling window",
        )


def _on(
    op: Op, window: Window, use: str, kind: str, types: list[Any]
) -> Iterator[Fault]:
    if kind in ("count", "punctuation"):
        if window.on is not None:
            yield fault(
                op,
                f"{use} by {kind} looks at no attribute; it is given on={window.on!r}",
                "leave out on=, or use time= or delta=",
            )
    elif window.on is None:
        yield fault(
            op,
            f"{use} by {kind} must know the attribute to look at; on is missing",
            'add on="...", the name of a numeric attribute',
        )
    else:
        for tuple_type in dict.fromkeys(types):
            yield from missing(op, tuple_type, window.on, f"on of {use}")
            yield from _numeric(op, tuple_type, window.on, f"on of {use}")


def _late(op: Op, window: Window, use: str, kind: str) -> Iterator[Fault]:
    if window.late not in ("error", "drop", "current"):
        yield fault(
            op,
            f"late of {use} must be 'error', 'drop' or 'current'; got {window.late!r}",
            "give one of these",
        )
    elif window.late != "error" and kind != "time":
        yield fault(
            op,
            f"only a window by time has late items; {use} is by {kind} and has "
            f"late={window.late!r}",
            "leave out late=",
        )


def _aggregate(op: Op, kind: Aggregate, item: Any) -> Iterator[Fault]:
    if (kind.function is None) == (not kind.columns):
        has = "both" if kind.columns else "neither"
        yield fault(
            op,
            f"aggregate must be given a function or columns; it has {has}",
            'write .aggregate(f) or .aggregate(total=ab.sum("x"), ...)',
        )
    if kind.function is not None and kind.into is not None:
        yield fault(
            op,
            "into is for columns; with a function it means nothing",
            "let the function return what into makes",
        )
    made: dict[str, Any] = {}
    for name, column in kind.columns:
        if not isinstance(column, Column):
            yield fault(
                op,
                f"column {name!r} must be made by ab.sum, ab.count or the like; got "
                f"{column!r}",
                'write for instance total=ab.sum("volume")',
            )
            continue
        yield from _column(op, name, column, item)
        made[name] = _column_type(column, item)
    if kind.columns and kind.into is not None:
        yield from _into(op, kind.into, made)


def _column(op: Op, name: str, column: Column, item: Any) -> Iterator[Fault]:
    if column.attribute is None:
        return
    use = f"column {name!r}"
    yield from missing(op, item, column.attribute, use)
    if column.function in ("sum", "mean"):
        yield from _numeric(op, item, column.attribute, f"{column.function} of {use}")


def _numeric(op: Op, item: Any, name: str, use: str) -> Iterator[Fault]:
    found = attribute_type(item, name)
    if not is_number(found):
        yield fault(
            op,
            f"{use} must look at a number; {name!r} of {type_name(item)} is "
            f"{type_name(found)}",
            "name a numeric attribute, or map the stream so that it has one",
        )


def _column_type(column: Column, item: Any) -> Any:
    if column.attribute is None:
        return int
    return (
        float if column.function == "mean" else attribute_type(item, column.attribute)
    )


def _into(op: Op, into: Any, made: dict[str, Any]) -> Iterator[Fault]:
    if not callable(into):
        yield fault(op, f"into must be a type or a function; got {into!r}", "pass one")
        return
    fields = fields_of(into)
    refused = why_not_called(into, 0, made)
    if refused is not None:
        there = "" if fields is None else f"; {there_is('', fields)}"
        yield fault(
            op,
            f"into must take the columns {', '.join(made)}; {_named(into)} does not: "
            f"{refused}",
            f"name the columns as into does{there}",
        )
    for name, found in made.items():
        if not may_be(found, (fields or {}).get(name)):
            yield fault(
                op,
                f"column {name!r} is {type_name(found)}, but {type_name(into)} has it "
                f"as {type_name((fields or {})[name])}",
                "change the column or the type of the attribute",
            )


def _named(into: Any) -> str:
    return type_name(into) if isinstance(into, type) else shown(into)


def _positive(size: Any, *, whole: bool) -> bool:
    kind = numbers.Integral if whole else numbers.Real
    if isinstance(size, bool) or not isinstance(size, kind):
        return False
    return 0 < float(size) < math.inf
