"""The code of the user's that engines and sources run without being told to.

The code of the user's that engines run without being told to.

They read the attributes that are named as keys, in windows and in columns, compare and
add what they find there, make the items of a file by the constructor of their type, and
send items from process to process by pickling them.
"""

from __future__ import annotations

import ast
import datetime as dt
import enum
import types
import uuid
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from anabranch.graph.graph import Op
from anabranch.graph.types import fields_of
from anabranch.operators.clock import EventTime, InOrder
from anabranch.operators.getters import KeyFunction
from anabranch.operators.join import Join
from anabranch.operators.lookup import Lookup
from anabranch.operators.stateless import Merge
from anabranch.operators.windows import Aggregate, Window
from anabranch.python.classes import classes_of, items_of
from anabranch.python.interpret import Interpreter, outermost
from anabranch.python.objects import (
    class_attribute,
    function_in,
    is_instance_of_users,
    is_users_class,
    is_users_code,
)
from anabranch.python.universe import Universe
from anabranch.python.values import (
    Arguments,
    Bound,
    Findings,
    Frame,
    Fresh,
    Input,
    Known,
    Plain,
    Root,
    Value,
)


def findings_of_items(universe: Universe, items: Any) -> Findings | None:
    """Return what reading the items of an object does; None if that runs no code.

    >>> findings_of_items(Universe([]), [1, 2]) is None
    True
    """
    if not is_instance_of_users(items):
        return None
    interpreter = Interpreter(universe)
    frame = outermost(type(items).__iter__)
    value = interpreter.existing(items, "the source", frame.node, frame)
    given = interpreter.elements(value, frame.node, frame)  # runs `__iter__`
    interpreter.elements(given, frame.node, frame)  # and `__next__` of what that gives
    return interpreter.found


_HASHING: Final = ("__hash__", "__eq__")
_COMPARING: Final = ("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__bool__")
_ADDING: Final = ("__add__", "__radd__", "__truediv__", "__rtruediv__")
_MEASURING: Final = (
    *_COMPARING,
    *(
        f"__{r}{name}__"
        for name in ("sub", "floordiv", "mul", "add")
        for r in ("", "r")
    ),
)
_OF_COLUMN: Final = {
    **dict.fromkeys(("sum", "mean"), _ADDING),
    **dict.fromkeys(("min", "max"), _COMPARING),
}
_PICKLING: Final = (
    *("__reduce__", "__reduce_ex__", "__getstate__", "__getnewargs__"),
    *("__getnewargs_ex__", "__setstate__"),
)
# A copy of one of these is made by its `__new__`.
_MADE_BY_NEW: Final = (tuple, str, bytes, int, float, complex, frozenset, dt.date)
# What a key may be, as far as engines know how to spread it.
_KEYS: Final = (int, str, float, bytes, tuple, dt.date, dt.time, uuid.UUID, enum.Enum)


class _Reading(NamedTuple):
    """An attribute that an engine reads, and the special methods that it then runs."""

    attribute: str
    runs: tuple[str, ...]
    is_key: bool = False


def findings_of_readings(
    universe: Universe, op: Op, items: Iterable[Any]
) -> Findings | None:
    """Return what reading the attributes does that an operator is told to read.

    `items` are the annotations of the items on each input.
    """
    wanted = list(_readings(op))
    if not wanted:
        return None
    interpreter = Interpreter(universe)
    frame = _frame(op)
    given = frozenset[Any]().union(*(items_of(each, universe) for each in items))
    for reading in wanted:
        value: Value = given
        for name in reading.attribute.split("."):
            value = interpreter.attribute(value, name, frame.node, frame)
        reached = interpreter.operands(value)
        if reading.is_key:
            _check_key(interpreter, reached, reading.attribute, frame)
        interpreter.run_specials(reached, reading.runs, frame.node, frame)
    return interpreter.found


def _readings(op: Op) -> Iterator[_Reading]:
    for name in op.keyed_by:
        if isinstance(name, KeyFunction):
            continue  # what it gives is in the findings about the function
        yield _Reading(name, (), is_key=True)
    by_time = isinstance(op.kind, Join) and op.kind.within is not None
    if op.timing is not None and (by_time or op.timing.forget_after is not None):
        yield _Reading(op.timing.on, _MEASURING)
    if isinstance(op.kind, Join | Lookup):
        yield from (_Reading(name, (), is_key=True) for name in op.kind.on)
    yield from _readings_of_kind(op)


def _readings_of_kind(op: Op) -> Iterator[_Reading]:
    windows: tuple[Window, ...] = ()
    match op.kind:
        case Aggregate(window=window, columns=columns):
            windows = (window,)
            for _, column in columns:
                if column.attribute is not None:
                    yield _Reading(
                        column.attribute, _OF_COLUMN.get(column.function, ())
                    )
        case Join(left_window=left, right_window=right):
            windows = (left, right)
        case EventTime(on=name) | InOrder(on=name):
            yield _Reading(name, _MEASURING)
        case Merge(by=name):
            yield _Reading(name, _COMPARING)
    for window in windows:
        if window.on is not None:
            yield _Reading(window.on, _MEASURING)


def _check_key(
    interpreter: Interpreter, value: Value, attribute: str, frame: Frame
) -> None:
    """Refuse keys that may be equal although an engine tells them apart."""
    universe = interpreter.universe
    for root in value:
        classes = classes_of(root, universe)
        for cls in universe.classes if classes is None else classes:
            if (
                is_users_class(cls)
                and issubclass(cls, _KEYS)
                and _decides_equality(cls)
            ):
                text = f"{attribute} may be a {cls.__name__}, which says itself what equals"
                interpreter.unknown(text, frame.node, frame)


def _decides_equality(cls: type) -> bool:
    return any(_is_users(class_attribute(cls, name)) for name in _HASHING)


def _is_users(raw: Any) -> bool:
    code = getattr(function_in(raw), "__code__", None)
    return isinstance(code, types.CodeType) and is_users_code(code)


def findings_of_construction(universe: Universe, op: Op, kind: Any) -> Findings | None:
    """Return what making an item of a record type does, as a source makes it.

    What cannot be followed is not counted: a check of values may be anything.
    """
    fields = fields_of(kind)
    if fields is None or not is_users_class(kind):
        return None
    interpreter = Interpreter(universe)
    frame = _frame(op)
    values = [_read_value(interpreter, each) for each in fields.values()]
    cls = interpreter.existing(kind, kind.__name__, frame.node, frame)
    interpreter.call(cls, Arguments(values), frame.node, frame)
    return _proved(interpreter.found)


def _proved(found: Findings) -> Findings | None:
    """Return findings unless nothing but what cannot be followed is among them."""
    proved = any(each.kind != "unknown" for each in found.effects)
    return found if proved else None


def _read_value(interpreter: Interpreter, annotation: Any) -> Value:
    """Return a value that was just read, of the type that a field is annotated with."""
    if is_users_class(annotation) and fields_of(annotation) is None:
        return frozenset([Fresh(interpreter.heap.site(annotation), annotation)])
    return frozenset([Plain(annotation if isinstance(annotation, type) else None)])


def findings_of_pickling(universe: Universe, op: Op, kind: Any) -> Findings | None:
    """Return what sending items to another process changes, beside making a copy.

    What cannot be followed is not counted here: such hooks reach into their object.
    """
    found: Findings | None = None
    for cls in {*universe.arriving.types, *([kind] if isinstance(kind, type) else [])}:
        for callee, args in _sending(cls) if is_users_class(cls) else ():
            interpreter = Interpreter(universe)
            frame = _frame(op)
            interpreter.call(frozenset([callee]), args, frame.node, frame)
            found = _proved(interpreter.found) or found
    return found


def _sending(cls: type) -> Iterator[tuple[Root, Arguments]]:
    """Yield the calls by which an object of a class is taken apart and made again."""
    for name in _PICKLING:
        function = function_in(class_attribute(cls, name))
        if isinstance(function, types.FunctionType) and _is_users(function):
            yield (
                Bound(Fresh(0, cls), function),
                Arguments([frozenset([Plain(), Input(object)])]),
            )
    if issubclass(cls, _MADE_BY_NEW) and _is_users(class_attribute(cls, "__new__")):
        yield Known(cls, cls.__name__), Arguments(rest=frozenset([Plain()]))


def _frame(op: Op) -> Frame:
    """Return the frame in which an operator reads: the line that made it."""
    frame = outermost(findings_of_readings)
    node = ast.Name(op.name, ast.Load())
    node.lineno = op.site.line
    return Frame(node, op.site.file, frame.function, None, frozenset())
