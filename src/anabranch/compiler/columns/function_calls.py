"""Calls in kernel text: functions, constructors, methods and built-in functions.

A built-in function gives Python's result, to the last bit, or gives up where Python
might raise. The routines of `math` are those of the C library, which Python calls as
well.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import types
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.compiler.columns import times
from anabranch.compiler.columns.arithmetic import (
    NEAR,
    ROUND_DIGITS,
    float_text,
    kinds_in,
    only_kind,
)
from anabranch.compiler.columns.control_flow import find_element_shape, go_through
from anabranch.compiler.columns.lists import (
    append,
    extend_list,
    find_view,
    make_list,
    need_room,
    number_view,
    read_element_of_view,
    reverse,
    sort_view,
    zip_views,
)
from anabranch.compiler.columns.read_parts import (
    call_table_method,
    read_element,
    read_item,
)
from anabranch.compiler.columns.times import time_kind
from anabranch.compiler.columns.values import (
    KIND_OF,
    ZERO,
    Bound,
    GeneratorValue,
    Group,
    Items,
    Iteration,
    KernelFrame,
    Known,
    ListValue,
    ListView,
    Made,
    NoColumnsError,
    RecordValue,
    Scalar,
    Span,
    TextParts,
    Value,
    describe,
    elements_of,
    find_constant,
    flatten_all,
    is_record_type,
    leaves,
    parts_of,
    rebuild,
    shape_of,
)
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import TIMES, StringTable
from anabranch.plan.column_kernels import ColumnKind as Kind
from anabranch.plan.column_kernels import ColumnShape as Shape
from anabranch.python import ir
from anabranch.python.known import SUM_NOTES_LOSSES

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText


def call_math(this: FunctionText, name: str, args: list[Value]) -> Value:  # noqa: C901, PLR0911, PLR0912 - a table
    """Translate a call of a function of `math`."""
    if len(args) == 1 and isinstance(args[0], Known):
        return this.fold(getattr(math, name), args[0].value)
    if name in ("floor", "ceil", "trunc") and len(args) == 1:
        number = this.number(args[0])
        if only_kind(number) != "float":
            return this.whole(number)
        text = this.text(number)
        this.check(f"not (-4e18 < {text} < 4e18)")
        return this.variable("int", f"int(math.{name}({text}))")
    if name in ("isnan", "isinf", "isfinite") and len(args) == 1:
        text = this.as_float(this.number(args[0]), exact=True)
        if name == "isfinite":
            return this.variable(
                "bool", f"not (math.isinf({text}) or math.isnan({text}))"
            )
        return this.variable("bool", f"math.{name}({text})")
    if name == "log" and len(args) == 2:  # noqa: PLR2004
        top, bottom = (call_math(this, name, [arg]) for arg in args)
        return this.binary("/", top, bottom)
    if name == "gcd" and len(args) == 2:  # noqa: PLR2004
        a, b = (this.text(this.whole(this.number(arg))) for arg in args)
        lowest = -(1 << 63) + 1  # of one below that, the divisor may be 2**63
        this.check(f"({a} < {lowest}) or ({b} < {lowest})")
        return this.variable("int", f"math.gcd({a}, {b})")
    if name == "pow" and len(args) == 2:  # noqa: PLR2004
        floats = [
            Scalar(("float",), this.as_float(this.number(arg), exact=True))
            for arg in args
        ]
        return this.binary("**", *floats)
    if name in ("degrees", "radians") and len(args) == 1:
        factor = 180.0 / math.pi if name == "degrees" else math.pi / 180.0
        text = this.as_float(this.number(args[0]), exact=True)
        return this.variable("float", f"{text} * {float_text(factor)}")
    if name in _MATH_OF_TWO and len(args) == 2:  # noqa: PLR2004
        x, y = (
            this.variable("float", this.as_float(this.number(arg), exact=True)).text
            for arg in args
        )
        this.check(_MATH_OF_TWO[name].format(x=x, y=y))
        call = "np.fmod" if name == "fmod" else f"math.{name}"
        return this.variable("float", f"{call}({x}, {y})")
    if name not in _MATH or len(args) != 1:
        this.refuse(f"calls math.{name}")
    x = this.variable("float", this.as_float(this.number(args[0]), exact=True)).text
    before, after = _MATH[name]
    if before:
        this.check(before.format(x=x))
    made = this.variable("float", f"math.{name}({x})")
    if after:
        this.check(after.format(x=x, y=made.text))
    return made


def _sum(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        return _sum_from(this, *args)
    shape = find_element_shape(this, args[0])
    kinds = tuple(kind for kind in shape.kinds if kind != "none")
    if kinds not in (("int",), ("float",), ("bool",)):
        this.refuse("adds up other values than numbers of one kind")
    return _add_up(this, args[0], floats=kinds == ("float",))


def _sum_from(this: FunctionText, values: Value, start: Value) -> Value:
    """Return a sum from a start of the same type."""
    shape = find_element_shape(this, values)
    kinds = kinds_in(start)
    if len(kinds) != 1 or kinds[0] not in ("int", "float") or shape.kinds != kinds:
        this.refuse("adds up values of another type than the start")
    return _add_up(this, values, floats=kinds == ("float",), start=start)


def _add_up(
    this: FunctionText, values: Value, *, floats: bool, start: Value | None = None
) -> Value:
    total = this.module.new("v")
    first = "0.0" if floats else "0"
    this.emit(f"{total} = {first if start is None else this.text(start)}")
    lost = this.module.new("v") if floats and SUM_NOTES_LOSSES else None
    if lost is not None:
        this.emit(f"{lost} = 0.0")
    some = this.module.new("v")
    mark = len(this.lines)

    def add(one: Value) -> None:
        one = this.number(one)
        if lost is not None:
            x = this.variable("float", this.text(one)).text
            added = this.variable("float", f"{total} + {x}").text
            this.emit(
                f"{lost} = {lost} + ((({total} - {added}) + {x}) "
                f"if abs({total}) >= abs({x}) else (({x} - {added}) + {total}))"
            )
            this.emit(f"{total} = {added}")
        elif floats:
            this.emit(f"{total} = {total} + {this.text(one)}")
        else:
            made = this.of_ints("+", Scalar(("int",), total), one)
            this.emit(f"{total} = {made.text}")  # type: ignore[union-attr]
        this.emit(f"{some} = True")

    certain = go_through(this, values, add) or start is not None
    if lost is not None:  # adding 0.0 would lose a sign, and a NaN everything
        this.emit(f"if {lost} != 0.0 and {lost} - {lost} == 0.0:")
        this.lines.append((this.depth + 1, f"{total} = {total} + {lost}"))
    if floats and not certain:
        this.lines.insert(mark, (this.depth, f"{some} = False"))
        this.check(f"not {some}")  # the sum of nothing is an integer
    else:
        this.lines[mark:] = [
            line for line in this.lines[mark:] if line[1] != f"{some} = True"
        ]
    return Scalar(("float",) if floats else ("int",), total)


def _best(op: str) -> Callable[..., Value]:
    def best(
        this: FunctionText, args: list[Value], default: Value | None = None
    ) -> Value:
        if not args:
            this.refuse("calls min or max of nothing")
        values: Value = args[0] if len(args) == 1 else Group(tuple(args))
        if not isinstance(values, _SEVERAL):
            this.refuse(f"takes the least or greatest of a {describe(values)}")
        shape = find_element_shape(this, values)
        if shape.kinds == ("int", "float") and default is None:
            return _best_number(this, op, values, shape)
        if len(shape.kinds) != 1 or shape.kinds[0] in ("none", "enum"):
            this.refuse("compares values that are not all of one kind")
        found, some = this.module.new("v"), this.module.new("v")
        best = this.module.new("v")  # for strings, the rank
        this.emit(f"{found} = {best} = {ZERO[shape.kinds[0]]}")
        this.emit(f"{some} = False")

        def take(one: Value) -> None:
            text = this.text(one)
            rank = this.rank(one) if this.string_kind(one) else text
            this.emit(f"if (not {some}) or ({rank} {op} {best}):")
            this.lines.append((this.depth + 1, f"{found} = {text}"))
            this.lines.append((this.depth + 1, f"{best} = {rank}"))
            this.emit(f"{some} = True")

        certain = go_through(this, values, take)
        if default is not None:
            if kinds_in(default) != shape.kinds:
                this.refuse("has a default of another type")
            this.emit(f"if not {some}:")
            this.lines.append((this.depth + 1, f"{found} = {this.text(default)}"))
        elif not certain:
            this.check(f"not {some}")
        return Scalar(shape.kinds, found)

    return best


def _best_number(this: FunctionText, op: str, values: Value, shape: Shape) -> Value:
    """Return the least or greatest of ints and floats, as what it is."""
    found = this.declare_variables(shape)
    assert isinstance(found, Scalar)  # noqa: S101 - a number
    best, some = this.module.new("v"), this.module.new("v")
    for text, zero in zip(found.texts, ("0", "0", "0.0"), strict=True):
        this.emit(f"{text} = {zero}")
    this.emit(f"{best} = 0.0")
    this.emit(f"{some} = False")

    def take(one: Value) -> None:
        number = this.as_float(this.number(one, like="float"), exact=True)
        this.emit(f"if (not {some}) or ({number} {op} {best}):")
        with this.deeper():
            this.assign(found, one, shape)
            this.emit(f"{best} = {number}")
        this.emit(f"{some} = True")

    if not go_through(this, values, take):
        this.check(f"not {some}")
    return found


def _best_by_key(this: FunctionText, op: str, args: list[Value], key: Value) -> Value:
    """Return the first item of a window whose key is least or greatest."""
    if len(args) != 1 or not isinstance(args[0], Items):
        this.refuse("compares other values than the items of a window by a key")
    (items,) = args
    assert isinstance(items, Items)  # noqa: S101 - for the checker
    at, place = this.module.new("v"), this.module.new("v")
    kept, this.lines = this.lines, []
    try:
        shape = shape_of(_read_sort_key(this, key, read_item(items, at)))
    finally:
        this.lines = kept
    if any(len(one.kinds) != 1 or one.kinds == ("none",) for one in shape.scalars()):
        this.refuse("compares keys of several types")
    best = this.declare_variables(shape)
    for one, scalar in zip(leaves(best, shape), shape.scalars(), strict=True):
        this.emit(f"{this.text(one)} = {ZERO[scalar.kinds[0]]}")
    this.emit(f"{place} = 0")
    this.emit(f"for {at} in range({items.count}):")
    with this.deeper():
        found = _read_sort_key(this, key, read_item(items, at))
        better = this.truth_text(this.compare(op, found, best))
        this.emit(f"if {at} == 0 or {better}:")
        with this.deeper():
            this.assign(best, found, shape)
            this.emit(f"{place} = {at}")
    return read_item(items, place)


def _read_sort_key(this: FunctionText, key: Value, item: Value) -> Value:
    """Return the key of an item; give up where a part of it is None."""
    found = this.call(key, [item], {})
    parts = found.values if isinstance(found, Group) else (found,)
    made: list[Value] = []
    for part in parts:
        kinds = [kind for kind in kinds_in(part) if kind != "none"]
        if isinstance(part, Scalar) and len(part.kinds) > len(kinds) == 1:
            made.append(Scalar((kinds[0],), this.plain(part, kinds[0]), type=part.type))
        else:
            made.append(part)
    return Group(tuple(made)) if isinstance(found, Group) else made[0]


def _len(this: FunctionText, args: list[Value]) -> Value:  # noqa: PLR0911 - a table
    match args:
        case [Items(count=count) | ListView(count=count)]:
            return Scalar(("int",), count)
        case [ListValue(name=name)]:
            return this.variable("int", f"{name}_n")
        case [TextParts() as parts]:
            return this.look_up(f"len({parts.text})", "int", parts.value)
        case [Known(value=known)]:
            return this.fold(len, known)
        case [Scalar() as text] if this.string_kind(text):
            return this.look_up("len(s)", "int", text)
        case [Group(values=values) | RecordValue(values=values)]:
            return Known(len(values))
    return this.refuse("asks for the length of something else")


def _abs(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1 or isinstance(args[0], Known):
        return this.fold(abs, *(a.value for a in args))  # type: ignore[union-attr]
    if time_kind(args[0]) is not None:
        return times.negate(this, "abs", args[0])
    number = this.number(args[0])
    if only_kind(number) == "float":
        return this.variable("float", f"abs({this.text(number)})")
    text = this.text(this.whole(number))
    this.check(f"{text} < {-NEAR}")
    return this.variable("int", f"abs({text})")


def _float(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        this.refuse("calls float without a value")
    if isinstance(args[0], Known):
        return this.fold(float, args[0].value)
    if this.string_kind(args[0]) is not None:
        return this.look_up("float(s)", "float", args[0])
    return this.variable("float", this.as_float(this.number(args[0])))


def _int(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        this.refuse("calls int with a base")
    if isinstance(args[0], Known):
        return this.fold(int, args[0].value)
    if this.string_kind(args[0]) is not None:
        return this.look_up("int(s)", "int", args[0])
    number = this.number(args[0])
    if only_kind(number) != "float":
        return this.whole(number)
    text = this.text(number)
    this.check(f"not (-4e18 < {text} < 4e18)")
    return this.variable("int", f"int({text})")


def _round(this: FunctionText, args: list[Value]) -> Value:
    if all(isinstance(arg, Known) for arg in args):
        return this.fold(round, *(a.value for a in args))  # type: ignore[union-attr]
    number = this.number(args[0])
    if len(args) == 2 and not _is_none(args[1]):  # noqa: PLR2004
        return _round_digits(this, number, args[1])
    if only_kind(number) != "float":
        return this.whole(number)
    text = this.text(number)
    this.check(f"not (-4e18 < {text} < 4e18)")
    return this.variable("int", f"int(np.rint({text}))")


def _is_none(value: Value) -> bool:
    return isinstance(value, Known) and value.value is None


def _round_digits(this: FunctionText, number: Value, digits: Value) -> Value:
    known = digits.value if isinstance(digits, Known) else None
    if type(known) is not int or not 0 <= known <= _MOST_DIGITS:
        this.refuse(f"rounds to other digits than 0 to {_MOST_DIGITS}")
    if only_kind(number) != "float":
        return this.whole(number)
    this.module.helper(ROUND_DIGITS)
    scale = float_text(float(10**known))
    return this.call_helper("float", f"round_digits({this.text(number)}, {scale})")


def _divmod(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 2:  # noqa: PLR2004
        this.give_up()
    if time_kind(args[0]) is not None:
        return times.divide(this, *args)
    return Group((this.binary("//", *args), this.binary("%", *args)))


def _pow(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 2:  # noqa: PLR2004
        this.refuse("calls pow with a modulus")
    return this.binary("**", *args)


def _truth_of_all(wanted: bool) -> Callable[[FunctionText, list[Value]], Value]:
    """Return the translation of `all` or `any`, without short-circuiting, which is
    invisible.
    """

    def truth(this: FunctionText, args: list[Value]) -> Value:
        if len(args) != 1:
            this.give_up()
        found = this.module.new("v")
        this.emit(f"{found} = {wanted}")

        def take(one: Value) -> None:
            text = this.truth_text(this.truth(one))
            this.emit(f"{found} = {found} {'and' if wanted else 'or'} {text}")

        go_through(this, args[0], take)
        return Scalar(("bool",), found)

    return truth


def _isinstance(this: FunctionText, args: list[Value]) -> Value:
    types_of = find_constant(args[1]) if len(args) == 2 else None  # noqa: PLR2004
    if types_of is None:
        this.refuse("asks for a type that is not known")
    asked: Any = types_of.value
    if not all(
        type(one) is type for one in (asked if type(asked) is tuple else [asked])
    ):
        this.refuse("asks for a type with ways of its own")
    match args[0]:
        case RecordValue(type=kind):
            return Known(issubclass(kind, asked))
        case Scalar(kinds=(kind,), type=own):
            of = {name: python for python, name in KIND_OF.items()}
            return Known(issubclass(own or of[kind], asked))
        case Scalar(kinds=kinds, type=own):
            types = {name: python for python, name in KIND_OF.items()} | {"enum": own}
            found = [kind for kind in kinds if issubclass(types[kind], asked)]
            tag = args[0].tag
            texts = [f"({tag} == {KINDS.index(kind)})" for kind in found] or ["False"]
            return this.variable("bool", " or ".join(texts))
        case Known(value=known):
            return this.fold(isinstance, known, asked)
    return this.refuse(f"asks for the type of a {describe(args[0])}")


def _str(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1 or kinds_in(args[0]) != ("str",):
        this.refuse("makes a str of something else")
    return args[0]


def _bool(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        this.refuse("calls bool without a value")
    return this.truth(args[0])


def _range(this: FunctionText, args: list[Value]) -> Value:
    if all(isinstance(a, Known) for a in args):
        return this.fold(range, *(a.value for a in args))  # type: ignore[union-attr]
    match args:
        case [stop]:
            bounds = [Known(0), stop, Known(1)]
        case [start, stop]:
            bounds = [start, stop, Known(1)]
        case [_, _, _]:
            bounds = args
        case _:
            this.refuse("calls range with other arguments")
    return Span(*map(this.whole, bounds))


def _collect(is_list: bool) -> Callable[[FunctionText, list[Value]], Value]:
    """Return the translation of `list` or `tuple`, for a known number of values."""

    def collect(this: FunctionText, args: list[Value]) -> Value:
        if args and isinstance(args[0], GeneratorValue):
            return _store_all(this, args[0])
        view = find_view(this, args[0]) if args else None
        if view is not None:
            return view
        values = elements_of(args[0]) if args else ()
        return Group(tuple(values), is_list, this.place, () if is_list else tuple(args))

    return collect


def _iterate(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        this.refuse("calls iter with an end")
    if isinstance(args[0], Iteration):
        return args[0]
    view = find_view(this, args[0])
    if view is not None:
        return Iteration((), (), view)
    return Iteration(elements_of(args[0]), tuple(args))


def _store_all(this: FunctionText, values: Value) -> ListValue:
    """Return a list of all that a generator gives."""
    made = make_list(this, find_element_shape(this, values), ())
    go_through(this, values, lambda one: append(this, made, one))
    return made


def _sort(
    this: FunctionText,
    args: list[Value],
    key: Value | None = None,
    reverse: Value | None = None,
) -> Value:
    if len(args) != 1 or not isinstance(reverse, Known | None):
        this.refuse("sorts in an order that is not known")
    view = find_view(this, args[0]) or find_view(this, _store_all(this, args[0]))
    assert view is not None  # noqa: S101 - a list has one

    def find_key(one: Value) -> Value:
        return one if key is None or _is_none(key) else _read_sort_key(this, key, one)

    falls = reverse is not None and bool(reverse.value)
    return sort_view(this, view, find_key, falls=falls)


def _zip(this: FunctionText, args: list[Value], *, is_strict: bool = False) -> Value:
    views = [find_view(this, arg) for arg in args]
    found = [view for view in views if view is not None]
    if found and len(found) == len(views):
        for view in found[1:] if is_strict else ():
            this.check(f"{view.count} != {found[0].count}")
        return Iteration((), (), zip_views(this, found))
    columns = [elements_of(arg) for arg in args]
    if is_strict and len({*map(len, columns)}) > 1:
        this.give_up()
    rows = tuple(Group(tuple(row)) for row in zip(*columns, strict=False))
    return Iteration(rows, tuple(args))


def _pair_up(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        this.give_up()
    view = find_view(this, args[0])
    if view is not None:
        others = read_element_of_view(this, view, Known(slice(1, None)))
        assert isinstance(others, ListView)  # noqa: S101 - a part of a list
        return Iteration((), (), zip_views(this, [view, others]))
    values = elements_of(args[0])
    return Iteration(tuple(map(Group, pairwise(values))), tuple(args))


def _reverse(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1 or isinstance(args[0], Iteration):
        this.give_up()
    view = find_view(this, args[0])
    if view is not None:
        return Iteration((), (), reverse(view))
    return Iteration(tuple(parts_of(args[0]))[::-1], tuple(args))


def _enumerate(this: FunctionText, args: list[Value]) -> Value:
    if not 1 <= len(args) <= 2:  # noqa: PLR2004
        this.give_up()
    first = args[1].value if len(args) > 1 and isinstance(args[1], Known) else 0
    if len(args) > 1 and (type(first) is not int or not isinstance(args[1], Known)):
        this.refuse("counts from a number that is not known")
    view = find_view(this, args[0])
    if view is not None:
        return Iteration((), (), number_view(view, first))
    pairs = enumerate(elements_of(args[0]), first)
    return Iteration(tuple(Group((Known(n), v)) for n, v in pairs), tuple(args))


FUNCTIONS: dict[Any, Callable[[FunctionText, list[Value]], Value]] = {
    abs: _abs,
    all: _truth_of_all(True),
    any: _truth_of_all(False),
    bool: _bool,
    divmod: _divmod,
    enumerate: _enumerate,
    float: _float,
    int: _int,
    isinstance: _isinstance,
    iter: _iterate,
    len: _len,
    list: _collect(True),
    max: _best(">"),
    pairwise: _pair_up,
    min: _best("<"),
    pow: _pow,
    range: _range,
    reversed: _reverse,
    round: _round,
    sorted: _sort,
    str: _str,
    sum: _sum,
    tuple: _collect(False),
    zip: _zip,
}
STRING_METHODS: dict[str, Kind] = {
    **dict.fromkeys(("upper", "lower", "strip", "lstrip", "rstrip", "title"), "str"),
    **dict.fromkeys(("capitalize", "casefold", "swapcase", "replace", "zfill"), "str"),
    **dict.fromkeys(("removeprefix", "removesuffix", "ljust", "rjust"), "str"),
    **dict.fromkeys(("startswith", "endswith", "isdigit", "isalpha"), "bool"),
    **dict.fromkeys(("isupper", "islower", "isalnum", "isspace", "isnumeric"), "bool"),
    **dict.fromkeys(("find", "rfind", "count", "index"), "int"),
    **dict.fromkeys(("encode", "decode", "hex"), "str"),
}
_SEVERAL = Items | GeneratorValue | Group | Iteration | ListValue | ListView
_SPLITTING = ("split", "rsplit", "splitlines", "partition", "rpartition")
_MOST_DIGITS = 22  # ten to this power is a float
# name -> when Python raises, or does not call the C routine
_MATH_OF_TWO = {
    "copysign": "False",
    "fmod": "{y} == 0.0 or math.isinf({x}) or math.isinf({y})",
    "atan2": "{x} == 0.0 or {y} == 0.0 or math.isinf({x}) or math.isinf({y})"
    " or math.isnan({x}) or math.isnan({y})",
}
# name -> when Python raises, by the argument and the result of the C routine
_MATH = {
    "sqrt": ("{x} < 0.0", ""),
    "sin": ("math.isinf({x})", ""),
    "cos": ("math.isinf({x})", ""),
    "tan": ("math.isinf({x})", ""),
    "atan": ("", ""),
    "exp": ("", "math.isinf({y}) and not math.isinf({x})"),
    "log": ("{x} <= 0.0", ""),
    "log2": ("{x} <= 0.0", ""),
    "log10": ("{x} <= 0.0", ""),
    "log1p": ("{x} <= -1.0", ""),
    "expm1": ("", "math.isinf({y}) and not math.isinf({x})"),
    "asin": ("{x} < -1.0 or {x} > 1.0", ""),
    "acos": ("{x} < -1.0 or {x} > 1.0", ""),
    "sinh": ("", "math.isinf({y}) and not math.isinf({x})"),
    "cosh": ("", "math.isinf({y}) and not math.isinf({x})"),
    "tanh": ("", ""),
    "fabs": ("", ""),
}


def read_arguments(
    this: FunctionText, arguments: Sequence[ir.Argument]
) -> tuple[list[Value], dict[str, Value]]:
    """Return the arguments of a call, by position and by name."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    for one in arguments:
        value = this.get(one.value)
        match one.name:
            case "":
                positional.append(value)
            case "*":
                positional += parts_of(value)
            case "**":
                this.refuse("unpacks arguments by name")
            case name:
                keywords[name] = value
    return positional, keywords


def call(
    this: FunctionText, called: Value, args: list[Value], keywords: dict[str, Value]
) -> Value:
    match called:
        case Bound():
            return _call_method(this, called, args, keywords)
        case Made(function=function) if function.generator and len(args) == 1:
            return GeneratorValue(called, args[0])
        case Made() if not keywords:
            return _call_made(this, called, args)
        case Known(value=function):
            return _call_known(this, function, args, keywords)
    return this.refuse("calls a function that it makes itself")


def _call_made(this: FunctionText, made: Made, args: list[Value]) -> Value:
    """Translate the body of a lambda in place."""
    *body, last = made.function.body
    if (
        not isinstance(last, ir.Return)
        or any(isinstance(one, ir.Return | ir.Yield) for one in ir.walk(tuple(body)))
        or len(made.function.parameters) != len(args)
    ):
        this.refuse("calls a function that it makes itself")
    outer, loops = this.frame, this.loops
    names = dict(zip(made.function.parameters, args, strict=True))
    this.frame, this.loops = KernelFrame(names, outer.scope, made.names), []
    try:
        this.block(tuple(body))
        return this.get(last.value)
    finally:
        this.frame, this.loops = outer, loops


def _call_known(  # noqa: PLR0911 - a table
    this: FunctionText, function: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    if is_record_type(function):
        return _make_record(this, function, args, keywords)
    if isinstance(function, types.FunctionType):
        return call_function(this, function, args, keywords)
    if isinstance(function, functools.partial):
        given: list[Value] = [*map(Known, function.args), *args]
        named = {n: Known(v) for n, v in function.keywords.items()} | keywords
        return _call_known(this, function.func, given, named)
    if any(function is one for one in (dt.datetime, dt.date, dt.timedelta)):
        return times.make_time(this, function, args, keywords)
    if function in FUNCTIONS if _hashable(function) else False:
        return _call_builtin(this, function, args, keywords)
    if getattr(function, "__module__", "") == "math" and not keywords:
        return call_math(this, function.__name__, args)
    name = getattr(function, "__name__", type(function).__name__)
    return this.refuse(f"calls {name}")


def _call_builtin(
    this: FunctionText, function: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    if function is zip and keywords.keys() == {"strict"}:
        strict = keywords["strict"]
        if not isinstance(strict, Known):
            this.refuse("calls zip with a strictness that is not known")
        return _zip(this, args, is_strict=bool(strict.value))
    if function in (min, max) and keywords.keys() == {"key"}:
        op = ">" if function is max else "<"
        return _best_by_key(this, op, args, keywords["key"])
    if function in (min, max) and keywords.keys() == {"default"} and len(args) == 1:
        return _best(">" if function is max else "<")(this, args, keywords["default"])
    if function is sorted and not keywords.keys() - {"key", "reverse"}:
        return _sort(this, args, **keywords)
    if function in (enumerate, sum) and keywords.keys() == {"start"}:
        args, keywords = [*args, keywords["start"]], {}
    if keywords:
        this.refuse(f"calls {function.__name__} with names")
    return FUNCTIONS[function](this, args)


def _make_record(
    this: FunctionText, kind: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    names = kind._fields
    given = dict(zip(names, args, strict=False))
    if (
        len(args) > len(names)
        or keywords.keys() - set(names)
        or given.keys() & keywords
    ):
        this.give_up()
    given.update(keywords)
    for name, default in kind._field_defaults.items():
        given.setdefault(name, Known(default))
    if len(given) != len(names):
        this.give_up()
    return RecordValue(kind, tuple(given[name] for name in names))


def call_function(
    this: FunctionText,
    function: types.FunctionType,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    function, args = bind(function, args, keywords)
    line = this.line
    made = this.translate_other(function, args)
    this.line = line
    scalars = list(flatten_all(args))
    texts = []
    for number in sorted(made.uses):
        texts += scalars[number].texts
    result = this.module.new("r")
    this.emit(
        f"{result} = {made.name}(C, Q, W, lo, size{''.join(', ' + t for t in texts)})"
    )
    this.check(f"{result}[0]")
    values: list[Value] = []
    place = 1
    for shape, source in zip(made.gives.scalars(), made.forwards, strict=True):
        if source is not None:
            values.append(scalars[source])
            continue
        value = Scalar(shape.kinds, this.module.new("v"), type=shape.type)
        if shape.kinds == ("none",):
            values.append(Known(None))
            continue
        for suffix in shape.suffixes:
            this.emit(f"{value.text}{suffix} = {result}[{place}]")
            place += 1
        values.append(value)
    return rebuild(made.gives, iter(values))


def _call_method(  # noqa: C901, PLR0911 - a table
    this: FunctionText, bound: Bound, args: list[Value], keywords: dict[str, Value]
) -> Value:
    value, name = bound.value, bound.name
    if isinstance(value, RecordValue):
        if name == "_replace":
            if args or keywords.keys() - set(value.type._fields):
                this.give_up()
            pairs = zip(value.type._fields, value.values, strict=True)
            return RecordValue(value.type, tuple(keywords.get(n, v) for n, v in pairs))
        return call_function(this, vars(value.type)[name], [value, *args], keywords)
    if isinstance(value, Group | ListValue) and len(args) == 1 and not keywords:
        if name == "append":
            extend(this, value, args)
        else:
            extend_by(this, value, args[0])
        return Known(None)
    if isinstance(value, Known) and type(value.value) is dict and not keywords:
        return call_table_method(this, value.value, name, args)
    if {*kinds_in(value)} & {*TIMES}:
        return times.call_method(this, value, name, args, keywords)
    kind = this.string_kind(value)
    if kind is not None and name in _SPLITTING:
        return _split(this, value, name, args, keywords)
    if kind is not None and name == "join" and len(args) == 1:
        return _join_parts(this, value, args[0])
    known = all(find_constant(a) is not None for a in args)
    if kind is not None and name in STRING_METHODS and known and not keywords:
        texts = [this.literal(a) for a in args]
        gives = STRING_METHODS[name]
        gives = kind if gives == "str" else gives
        if name in ("encode", "decode", "hex"):
            gives = "bytes" if kind == "str" else "str"
        return this.look_up(f"s.{name}({', '.join(texts)})", gives, value)
    return this.refuse(f"calls .{name} of a {describe(value)}")


def _split(
    this: FunctionText,
    value: Value,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    texts = [this.literal(arg) for arg in args]
    texts += [f"{word}={this.literal(arg)}" for word, arg in keywords.items()]
    text, kind = f"s.{name}({', '.join(texts)})", this.string_kind(value)
    assert kind is not None  # noqa: S101 - the caller has asked
    if isinstance(value, Known):
        return this.fold_any(StringTable(text, kind).function(), value.value)
    return TextParts(value, text, kind)


def _join_parts(this: FunctionText, value: Value, parts: Value) -> Value:
    """Return parts of one string, joined by one that is known."""
    if not isinstance(value, Known) or not isinstance(parts, TextParts):
        this.refuse("joins strings that are not known")
    text = f"{value.value!r}.join({parts.text})"
    return this.look_up(text, parts.kind, parts.value)


def extend(this: FunctionText, container: Value, added: Sequence[Value]) -> Value:
    """Extend a list, and return it; all its names see that."""
    if isinstance(container, ListValue):
        for one in added:
            append(this, container, one)
        return container
    if not isinstance(container, Group) or container.made is None:
        return this.refuse(f"adds to a {describe(container)}")
    names = this.frame.names
    apart = container.made != this.place
    if apart or any(_holds(value, container) for value in names.values()):
        if container.site:
            need_room(container, added)
        this.refuse("adds to a list in a loop, or that is part of another value")
    known_as = [name for name, value in names.items() if value is container]
    if not known_as:
        this.refuse("adds to a list that has no name")
    made = Group((*container.values, *added), True, this.place, site=container.site)
    names.update(dict.fromkeys(known_as, made))
    return made


def extend_by(this: FunctionText, container: Value, added: Value) -> Value:
    """Extend a list by all elements of another value, and return it."""
    many = isinstance(added, GeneratorValue) or find_view(this, added) is not None
    if isinstance(container, ListValue):
        if isinstance(added, GeneratorValue):
            added = _store_all(this, added)
        extend_list(this, container, added)
        return container
    if many and isinstance(container, Group) and container.site:
        need_room(container, ())
    return extend(this, container, elements_of(added))


def take_element(this: FunctionText, value: Value, index: Value) -> Value:
    """Return an element, or a part of a list."""
    cut = isinstance(index, Known) and isinstance(index.value, slice)
    if isinstance(value, ListValue | ListView) or (isinstance(value, Items) and cut):
        view = find_view(this, value)
        assert view is not None  # noqa: S101 - it is a list
        return read_element_of_view(this, view, index)
    return read_element(this, value, index)


def join_strings(this: FunctionText, parts: Sequence[Value]) -> Value:
    """Return the text of an f-string with one unknown string."""
    unknown = [part for part in parts if not isinstance(part, Known)]
    if not all(kinds_in(part) == ("str",) for part in parts):
        this.refuse("makes a str of something else")
    if len(unknown) > 1:
        this.refuse("joins strings that are not known")
    known = [part.value if isinstance(part, Known) else None for part in parts]
    if not unknown:
        return Known("".join(map(str, known)))
    texts = ["s" if word is None else repr(word) for word in known]
    return this.look_up(" + ".join(texts), "str", unknown[0])


def bind(
    function: Any, args: Sequence[Value], keywords: dict[str, Value]
) -> tuple[types.FunctionType, list[Value]]:
    """Return a function and its positional arguments, with those of a partial."""
    given = list(args)
    while isinstance(function, functools.partial):
        given = [*map(Known, function.args), *given]
        keywords = {n: Known(v) for n, v in function.keywords.items()} | keywords
        function = function.func
    if not isinstance(function, types.FunctionType):
        msg = f"calls {getattr(function, '__name__', type(function).__name__)}"
        raise NoColumnsError(msg)
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(names[::-1], (function.__defaults__ or ())[::-1], strict=False))
    named = dict(keywords)
    for name in names[len(given) :]:
        if not named:
            break
        if name in named:
            given.append(named.pop(name))
        elif name in defaults:
            given.append(Known(defaults[name]))
        else:
            break
    if named:
        msg = f"calls {function.__name__} with other names"
        raise NoColumnsError(msg)
    return function, given


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _holds(value: Value, group: Group) -> bool:
    """Tell whether a group is part of another value."""
    match value:
        case Group(values=values, read=read) | Iteration(values=values, read=read):
            return any(one is group or _holds(one, group) for one in (*values, *read))
        case RecordValue(values=values):
            return any(one is group or _holds(one, group) for one in values)
        case Made(names=names) | GeneratorValue(made=Made(names=names)):
            return any(one is group or _holds(one, group) for one in names.values())
    return False
