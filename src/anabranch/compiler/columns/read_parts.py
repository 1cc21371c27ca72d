"""Attributes and elements of values in kernel text."""

from __future__ import annotations

import datetime as dt
import operator
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.compiler.columns import times
from anabranch.compiler.columns.arithmetic import (
    kinds_in,
)
from anabranch.compiler.columns.values import (
    KIND_OF,
    Bound,
    Group,
    Items,
    Iteration,
    Known,
    ListValue,
    RecordValue,
    Scalar,
    TextParts,
    Value,
    describe,
    is_enum_type,
    is_record_type,
    join,
    kind_of_known,
    parts_of,
    rebuild,
    shape_of,
)
from anabranch.plan.column_kernels import TIMES
from anabranch.plan.column_kernels import ColumnKind as Kind
from anabranch.plan.column_kernels import ColumnShape as Shape

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText

_MOST_LOOKED_UP = 32
_MISSING = object()  # an attribute that is not there; None may be one


def read_attribute(this: FunctionText, value: Value, name: str) -> Value:  # noqa: C901, PLR0911, PLR0912 - a table
    match value:
        case RecordValue(type=kind, values=values):
            if name in kind._fields:
                place: int = kind._fields.index(name)
                return values[place]
            found = vars(kind).get(name, _MISSING)
            if isinstance(found, property) and found.fget is not None:
                return this.call(Known(found.fget), [value], {})
            if name == "_replace" or isinstance(found, types.FunctionType):
                return Bound(value, name)
            if kind_of_known(found) is not None:
                return Known(found)
            this.refuse(f"reads .{name} of {kind.__name__}")
        case Known(value=types.ModuleType() as module):
            if not hasattr(module, name):
                this.refuse(f"reads .{name} of {module.__name__}")
            return Known(getattr(module, name))
        case Known(value=known) if is_record_type(type(known)):
            if name in known._fields:
                return Known(getattr(known, name))
        case Known(value=known) if type(known) is dict:
            return Bound(value, name)
        case Group(is_list=True) | ListValue() if name in ("append", "extend"):
            return Bound(value, name)
        case Known(value=types.FunctionType() | type() as known):
            return _read_member(this, known, name)
        case Scalar(kinds=("enum",), type=kind):
            return _read_enum_attribute(this, value, kind, name)
        case Known(value=known) if is_enum_type(type(known)):
            return this.fold_any(getattr, known, name)
        case Scalar() | Known() if {*kinds_in(value)} & {*TIMES}:
            if isinstance(value, Known):
                found = getattr(value.value, name, _MISSING)
                if kind_of_known(found) is not None:
                    return Known(found)
            read = times.read(this, value, name)
            return _bind_method(this, value, name) if read is None else read
        case Scalar() | Known() if this.string_kind(value) or isinstance(value, Scalar):
            return _bind_method(this, value, name)
    return this.refuse(f"reads .{name} of a {describe(value)}")


def _bind_method(this: FunctionText, value: Value, name: str) -> Value:
    types = {one: kind for kind, one in KIND_OF.items()}
    if not any(hasattr(types.get(kind), name) for kind in kinds_in(value)):
        this.give_up()
    return Bound(value, name)


def _read_member(this: FunctionText, known: Any, name: str) -> Value:
    """Return an attribute of a class: a member of an Enum, or a constant."""
    found = getattr(known, name, _MISSING)
    if isinstance(known, type) and kind_of_known(found) is not None:
        return Known(found)
    if known in (dt.datetime, dt.date, dt.timedelta) and found is not _MISSING:
        return Known(found)
    return this.refuse(f"reads .{name} of {known.__name__}")


def _read_enum_attribute(
    this: FunctionText, value: Value, kind: Any, name: str
) -> Value:
    """Return the name or the value of an Enum member."""
    if name not in ("name", "value"):
        this.refuse(f"reads .{name} of {kind.__name__}")
    values = [getattr(member, name) for member in kind]
    found, own = _find_kind(this, values, f"reads values of {kind.__name__}")
    return this.look_up(f"s.{name}", found, value, None, own)


def _find_kind(
    this: FunctionText, values: Sequence[Any], what: str
) -> tuple[Kind, Any]:
    """Return the only kind of some values, and their type if they are of an Enum."""
    gives = {shape_of(Known(one)) for one in values if kind_of_known(one) is not None}
    (shape, *others) = gives or [Shape()]
    known = all(kind_of_known(one) is not None for one in values)
    if others or not known or shape.kinds in ((), ("none",)):
        this.refuse(f"{what}, which are not of one type")
    return shape.kinds[0], shape.type


def read_element(  # noqa: C901, PLR0911, PLR0912 - a table
    this: FunctionText, value: Value, index: Value
) -> Value:
    match value, index:
        case Items(), _:
            return read_item_at(this, value, index)
        case TextParts(value=text, kind=gives), Known(value=int() as at):
            return this.look_up(f"{value.text}[{at}]", gives, text)
        case TextParts(value=text, kind=gives), Known(value=slice() as cut):
            return TextParts(text, f"{value.text}[{_write_cut(this, cut)}]", gives)
        case (Scalar(), Known(value=int() as at)) if this.string_kind(value) == "str":
            return this.look_up(f"s[{at}]", "str", value)
        case (Scalar(), Known(value=int() as at)) if this.string_kind(value):
            return this.look_up(f"s[{at}]", "int", value)
        case (Scalar(), Known(value=slice() as cut)) if kind := this.string_kind(value):
            return this.look_up(f"s[{_write_cut(this, cut)}]", kind, value)
        case Group(values=values, is_list=listed), Known(value=slice() as cut):
            kept = this.fold_any(operator.getitem, values, cut)
            assert isinstance(kept, Known)  # noqa: S101 - for the checker
            return Group(kept.value, listed, this.place)
        case (Known(value=str() | bytes() as known), Known(value=at)):
            return this.fold_any(operator.getitem, known, at)
        case (Known(value=known), _) if type(known) in (dict, list, tuple):
            return _read_table(this, known, index)
        case Group(values=parts), Scalar():
            known = [part.value for part in parts if isinstance(part, Known)]
            if len(known) == len(parts):
                return _read_table(this, known, index)
        case _, Known(value=int() as at):
            values = parts_of(value)
            if not -len(values) <= at < len(values):
                this.give_up()
            return values[at]
    return this.refuse(f"reads an element of a {describe(value)}")


def _write_cut(this: FunctionText, cut: slice) -> str:
    bounds = (cut.start, cut.stop, cut.step)
    if any(type(bound) not in (int, type(None)) for bound in bounds):
        this.refuse("cuts at a place that is no number")
    return ":".join("" if bound is None else repr(bound) for bound in bounds)


def split_parts(this: FunctionText, parts: TextParts, count: int) -> list[Value]:
    """Return the parts of a string; give up if their number is another."""
    found = this.look_up(f"len({parts.text})", "int", parts.value)
    this.check(f"{this.text(found)} != {count}")
    texts = [f"{parts.text}[{n}]" for n in range(count)]
    return [this.look_up(text, parts.kind, parts.value) for text in texts]


def _look_up_parts(
    this: FunctionText,
    text: str,
    values: Sequence[Any],
    index: Value,
    table: tuple[tuple[Any, Any], ...],
) -> Value:
    """Return what a table has for a string: a scalar, or a tuple of such."""
    lengths = {len(one) if isinstance(one, tuple) else None for one in values}
    shapes = {type(one) for one in values}
    if lengths == {None} or len(lengths) > 1 or len(shapes) > 1:
        kind, own = _find_kind(this, values, "reads the values of a table")
        return this.look_up(text, kind, index, table, own)
    (length,), (of,) = lengths, shapes
    assert length is not None  # noqa: S101 - see above
    if of is not tuple and not is_record_type(of):
        this.refuse(f"reads values of the type {of.__name__} of a table")
    parts = tuple(
        _look_up_parts(this, f"{text}[{n}]", [one[n] for one in values], index, table)
        for n in range(length)
    )
    return Group(parts) if of is tuple else RecordValue(of, parts)


def _read_table(this: FunctionText, table: Any, index: Value) -> Value:
    """Return an element of a table of the program."""
    if isinstance(index, Known):
        return this.fold_any(operator.getitem, table, index.value)
    kinds = kinds_in(index)
    pairs = table.items() if type(table) is dict else enumerate(table)
    found = [(key, value) for key, value in pairs]
    values = [value for _, value in found]
    if type(table) is dict and kinds == ("str",):
        return _look_up_parts(this, "d[s]", values, index, tuple(found))
    shapes = {shape_of(Known(value)) for value in values}
    if len(shapes) != 1 or ("none",) in {one.kinds for one in shapes}:
        this.refuse("reads the values of a table, which are not of one type")
    if type(table) is not dict:
        found += [(n - len(table), value) for n, value in found]
    if kinds != ("int",) or any(type(key) is not int for key, _ in found):
        this.refuse(f"looks up a {describe(index)} in a table")
    if len(found) > _MOST_LOOKED_UP:
        this.refuse(f"looks up a number in a table of {len(found)}")
    made = this.declare_variables(shapes.pop())
    _choose_by_number(this, made, this.text(index), found)
    this.emit("else:")
    this.lines.append((this.depth + 1, "FAIL"))
    return made


def _choose_by_number(
    this: FunctionText, made: Value, index: str, found: Sequence[tuple[int, Any]]
) -> None:
    shape = shape_of(made)
    for number, (key, value) in enumerate(found):
        this.emit(f"{'el' * bool(number)}if {index} == {key}:")
        with this.deeper():
            this.assign(made, Known(value), shape)


def call_table_method(
    this: FunctionText, table: dict[Any, Any], name: str, args: list[Value]
) -> Value:
    """Translate a call of a method of a dict of the program."""
    if name in ("keys", "values", "items") and not args:
        return Iteration(tuple(map(Known, getattr(table, name)())), ())
    if name != "get" or not 1 <= len(args) <= 2:  # noqa: PLR2004
        this.refuse(f"calls .{name} of a dict")
    key, default = args[0], (args[1] if len(args) > 1 else Known(None))
    if isinstance(key, Known):
        there = this.fold_any(table.__contains__, key.value)
        return Known(table[key.value]) if getattr(there, "value", False) else default
    found, kinds = tuple(table.items()), kinds_in(key)
    values = [value for _, value in found]
    kind, own = _find_kind(this, values, "reads the values of a table")
    numbered = kinds == ("int",) and all(type(key) is int for key, _ in found)
    if not (kinds == ("str",) or (numbered and len(found) <= _MOST_LOOKED_UP)):
        this.refuse(f"looks up a {describe(key)} in a table of {len(found)}")
    if (
        kinds == ("str",)
        and isinstance(default, Known)
        and type(default.value) in (int, str, bytes, bool)
        and kinds_in(default) == (kind,)
    ):
        return this.look_up(f"d.get(s, {default.value!r})", kind, key, found)
    shape = join(shape_of(Known(found[0][1])), shape_of(default))
    made = this.declare_variables(shape)
    if numbered:
        _choose_by_number(this, made, this.text(key), found)
    else:
        there = this.look_up("s in d", "bool", key, found)
        this.emit(f"if {this.text(there)}:")
        with this.deeper():
            value = this.look_up("d[s]", kind, key, found, own)
            this.assign(made, value, shape)
    this.emit("else:")
    with this.deeper():
        this.assign(made, default, shape)
    return made


def read_item_at(this: FunctionText, items: Items, index: Value) -> Value:
    if isinstance(index, Known) and type(index.value) is int:
        at = index.value
        if at >= 0:
            this.check(f"{items.count} <= {at}")
            return read_item(items, str(at))
        this.check(f"{items.count} < {-at}")
        return read_item(items, f"({items.count} - {-at})")
    if not isinstance(index, Scalar):
        this.refuse("takes a part of a window")
    whole = this.text(this.whole(index))
    this.check(f"({whole} >= {items.count}) or ({whole} < -{items.count})")
    at_text = this.variable(
        "int", f"({whole} if {whole} >= 0 else {whole} + {items.count})"
    )
    return read_item(items, at_text.text)


def read_item(items: Items, at: str) -> Value:
    place = f"({items.first} + {at})"
    columns = [_at(column, place) for column in items.columns]
    return rebuild(items.shape, iter(columns))


def _at(column: Scalar, place: str) -> Scalar:
    """Return the value of a column at an index."""
    text = column.text.replace("{at}", place)
    parts = tuple(part.replace("{at}", place) for part in column.parts)
    return Scalar(column.kinds, text, None, parts, column.type)
