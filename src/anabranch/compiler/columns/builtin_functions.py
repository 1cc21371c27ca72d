"""Built-in functions in kernel text.

Each gives Python's result, to the last bit, or gives up where Python might raise. The
routines of `math` are those of the C library, which Python calls as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anabranch.compiler.columns import times
from anabranch.compiler.columns.arithmetic import (
    NEAR,
    float_text,
    kinds_in,
    only_kind,
)
from anabranch.compiler.columns.exact_helpers import ROUND_DIGITS
from anabranch.compiler.columns.loops import find_element_shape, go_through
from anabranch.compiler.columns.times import time_kind
from anabranch.compiler.columns.values import (
    KIND_OF,
    ZERO,
    GeneratorValue,
    Group,
    Items,
    Known,
    RecordValue,
    Scalar,
    Span,
    Value,
    describe,
    parts_of,
)
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import ColumnKind as Kind
from anabranch.python.known import SUM_NOTES_LOSSES

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText


def call_math(this: FunctionText, name: str, args: list[Value]) -> Value:  # noqa: C901, PLR0911 - a table
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
        this.refuse("gives sum a start")
    shape = find_element_shape(this, args[0])
    kinds = tuple(kind for kind in shape.kinds if kind != "none")
    if kinds not in (("int",), ("float",), ("bool",)):
        this.refuse("adds up other values than numbers of one kind")
    total = this.module.new("v")
    floats = kinds == ("float",)
    this.emit(f"{total} = {'0.0' if floats else '0'}")
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

    certain = go_through(this, args[0], add)
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


def _best(op: str) -> Callable[[FunctionText, list[Value]], Value]:
    def best(this: FunctionText, args: list[Value]) -> Value:
        if not args:
            this.refuse("calls min or max of nothing")
        values: Value = args[0] if len(args) == 1 else Group(tuple(args))
        if not isinstance(values, Items | GeneratorValue | Group):
            this.refuse(f"takes the least or greatest of a {describe(values)}")
        shape = find_element_shape(this, values)
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

        if not go_through(this, values, take):
            this.check(f"not {some}")
        return Scalar(shape.kinds, found)

    return best


def _len(this: FunctionText, args: list[Value]) -> Value:
    match args:
        case [Items(count=count)]:
            return Scalar(("int",), count)
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
    if len(args) != 2 or not isinstance(args[1], Known):  # noqa: PLR2004
        this.refuse("asks for a type that is not known")
    asked: Any = args[1].value
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
            return Span(Known(0), stop, Known(1))
        case [start, stop]:
            return Span(start, stop, Known(1))
        case [start, stop, step]:
            return Span(start, stop, step)
    return this.refuse("calls range with other arguments")


def _collect(is_list: bool) -> Callable[[FunctionText, list[Value]], Value]:
    """Return the translation of `list` or `tuple`, for a known number of values."""

    def collect(this: FunctionText, args: list[Value]) -> Value:
        values = parts_of(args[0]) if args else ()
        return Group(tuple(values), is_list, len(this.loops))

    return collect


def _zip(this: FunctionText, args: list[Value]) -> Value:
    columns = [parts_of(arg) for arg in args]
    if len({*map(len, columns)}) > 1:
        this.refuse("goes through tuples of different lengths")
    return Group(tuple(Group(tuple(row)) for row in zip(*columns, strict=True)))


def _enumerate(this: FunctionText, args: list[Value]) -> Value:
    if len(args) != 1:
        this.refuse("counts from another number than 0")
    pairs = enumerate(parts_of(args[0]))
    return Group(tuple(Group((Known(n), value)) for n, value in pairs))


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
    iter: _collect(False),
    len: _len,
    list: _collect(True),
    max: _best(">"),
    min: _best("<"),
    pow: _pow,
    range: _range,
    round: _round,
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
