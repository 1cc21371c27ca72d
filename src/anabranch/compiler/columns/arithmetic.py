"""Translation of expressions to kernel text, with exactly Python's results.

Floats are IEEE doubles on both sides. Integers have 64 bits here and are unbounded in
Python: every operation first checks that its result fits. If a check fails, the
function gives up and Python computes the item.

Powers, rounding and dates have helpers in kernel text. Each returns whether it gave up,
and the result. The order of operations is exactly the one written here; that makes
them exact.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

from anabranch.compiler.columns.values import (
    ZERO,
    Group,
    Items,
    Known,
    ListValue,
    ListView,
    NoColumnsError,
    RecordValue,
    Scalar,
    TextParts,
    Value,
    describe,
    find_constant,
    kind_of_known,
    leaves,
    parts_of,
    rebuild,
)
from anabranch.plan.column_kernels import (
    CODED,
    TIMES,
    StringTable,
    TableItems,
    count_time,
)
from anabranch.plan.column_kernels import COLUMN_KINDS as KINDS
from anabranch.plan.column_kernels import ColumnKind as Kind
from anabranch.plan.column_kernels import ColumnShape as Shape

_HEAD = '@njit(nogil=True, error_model="numpy", fastmath=False)\n'

INT_POWER = (
    _HEAD
    + """def int_power(a, b):
    made = 1
    while b > 0:
        if b & 1:
            if not (-9e18 < float(made) * float(a) < 9e18):
                return (True, 0)
            made = made * a
        b = b >> 1
        if b > 0:
            if not (-9e18 < float(a) * float(a) < 9e18):
                return (True, 0)
            a = a * a
    return (False, made)
"""
)

# Python calls the C library's `pow` with the absolute value of the base. LLVM would
# turn a power of 2 into `x * x`, which can differ in the last bit; it cannot know that
# `zero`, read from an array, changes nothing.
FLOAT_POWER = (
    _HEAD
    + """def float_power(a, b, zero):
    if math.isnan(a) or math.isinf(a) or math.isnan(b) or math.isinf(b):
        return (True, 0.0)
    if b == 0.0:
        return (False, 1.0)
    odd = np.fmod(abs(b), 2.0) == 1.0
    if a == 0.0:
        if b < 0.0:
            return (True, 0.0)
        return (False, a if odd else 0.0)
    if a < 0.0 and b != np.floor(b):
        return (True, 0.0)
    made = math.pow(abs(a), b + zero)
    if math.isinf(made) or made < 2.3e-308:
        return (True, 0.0)
    return (False, -made if a < 0.0 and odd else made)
"""
)

# Python rounds the exact decimal value, half to even. The product with a power of ten
# and its rounding error (Dekker) are exact together; the quotient of two integers below
# 2^53 and 10^22 is the float nearest to the decimal.
ROUND_DIGITS = (
    _HEAD
    + """def round_digits(x, scale):
    if math.isnan(x) or math.isinf(x):
        return (False, x)
    a = abs(x)
    if a < 1e-200:
        return (False, math.copysign(0.0, x))
    p = a * scale
    if not (p < 4503599627370496.0):
        return (True, 0.0)
    t = 134217729.0 * a
    ah = t - (t - a)
    al = a - ah
    t = 134217729.0 * scale
    sh = t - (t - scale)
    sl = scale - sh
    e = ((ah * sh - p) + ah * sl + al * sh) + al * sl
    f = np.floor(p)
    d = p - f
    odd = np.fmod(f, 2.0) == 1.0
    if d > 0.5 or (d == 0.5 and (e > 0.0 or (e == 0.0 and odd))):
        f = f + 1.0
    return (False, math.copysign(f / scale, x))
"""
)

# Year, month and day of a day number since 1970: years begin in March, so that the leap
# day is the last of its year.
CIVIL = (
    _HEAD
    + """def civil(days):
    z = days + 719468
    era = z // 146097
    doe = z - era * 146097
    yoe = (doe - doe // 1460 + doe // 36524 - doe // 146096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    day = doy - (153 * mp + 2) // 5 + 1
    month = mp + 3 if mp < 10 else mp - 9
    year = yoe + era * 400 + (1 if month <= 2 else 0)
    return (year, month, day)
"""
)


NEAR = (1 << 62) - 1  # sums of two numbers up to it fit 64 bits
FAR = 1 << 60  # of three numbers up to it, any sum fits 64 bits
EXACT = 1 << 53  # every integer up to here is a float


@dataclass
class Module:
    """The functions of one kernel, with their constants and tables.

    A constant is a coded value: a str, bytes or a member of an Enum.
    """

    texts: list[str] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    tables: list[StringTable] = field(default_factory=list)
    functions: dict[Any, Any] = field(default_factory=dict)  # translated so far
    names: int = 0

    def code(self, value: Any) -> str:
        """Return the text of a constant's code."""
        for number, known in enumerate(self.constants):
            if type(known) is type(value) and known == value:
                return f"C[{number}]"
        self.constants.append(value)
        return f"C[{len(self.constants) - 1}]"

    def table(self, table: StringTable) -> int:
        """Return the number of a table."""
        for number, known in enumerate(self.tables):
            # 0.0 and -0.0 are equal, and so are 1 and True
            if known == table and repr(known) == repr(table):
                return number
        self.tables.append(table)
        return len(self.tables) - 1

    def helper(self, text: str) -> None:
        """Add a helper function in front of the others, once."""
        if text not in self.texts:
            self.texts.insert(0, text)

    def new(self, prefix: str) -> str:
        """Return a unique name."""
        self.names += 1
        return f"{prefix}{self.names}"


@dataclass
class ReturnLine:
    value: Value
    line: int


@dataclass
class YieldLine:
    value: Value


class DeadError(Exception):
    """The rest of a block is unreachable."""


class Arithmetic:
    """Writes the text of one function, and translates operators."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[tuple[int, str | ReturnLine | YieldLine]] = []
        self.depth = 1
        self.line = 0

    def refuse(self, why: str) -> NoReturn:
        """Refuse the code on the current line."""
        raise NoColumnsError(why, self.line)

    def give_up(self) -> NoReturn:
        """Give up whenever this is reached; the rest is unreachable."""
        self.emit("FAIL")
        raise DeadError

    def end_dead(self) -> None:
        """Give up at the end of a block whose rest is unreachable.

        What is dead may be in a loop that runs no round, or in lines that were dropped.
        """
        depth, line = self.lines[-1] if self.lines else (0, "")
        left = isinstance(line, ReturnLine) or line in ("FAIL", "break", "continue")
        if depth != self.depth or not left:
            self.emit("FAIL")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def emit(self, text: str) -> None:
        self.lines.append((self.depth, text))

    def check(self, wrong: str) -> None:
        """Give up if a condition holds."""
        self.emit(f"if {wrong}:")
        self.lines.append((self.depth + 1, "FAIL"))

    def check_zero(self, wrong: str) -> None:
        """Leave if Python would raise `ZeroDivisionError`."""
        self.check(wrong)

    def variable(self, kind: Kind, text: str) -> Scalar:
        name = self.module.new("v")
        self.emit(f"{name} = {text}")
        return Scalar((kind,), name)

    def text(self, value: Value) -> str:
        """Return the expression of a scalar of one kind."""
        match value:
            case Scalar(kinds=(_,), text=text):
                return text
            case Known(value=known):
                kind = kind_of_known(known)
                if kind in CODED:
                    return self.module.code(known)
                if kind == "float":
                    return float_text(known)
                if kind in ("int", "bool"):
                    return f"({known!r})"
                if kind in TIMES:
                    return f"({count_time(known)})"
        msg = f"computes with a {describe(value)}"
        raise NoColumnsError(msg)

    def list_stored(self, value: Value, shape: Shape) -> list[str]:
        """Return the expressions for the variables of a scalar of some shape."""
        kinds = kinds_in(value)
        if len(shape.kinds) == 1:
            return [] if shape.kinds == ("none",) else [self.text(value)]
        tag, parts = "", {}
        if len(kinds) == 1:
            tag = str(KINDS.index(kinds[0]))
            if kinds[0] != "none":
                parts[kinds[0]] = self.text(value)
        else:
            assert isinstance(value, Scalar)  # noqa: S101 - a known value has one kind
            tag = value.tag
            parts = {k: value.part(k) for k in kinds if k != "none"}
        return [tag, *(parts.get(k, ZERO[k]) for k in shape.kinds if k != "none")]

    def declare_variables(self, shape: Shape) -> Value:
        """Return new variables of a shape."""
        scalars = [
            Scalar(s.kinds, self.module.new("v"), type=s.type) for s in shape.scalars()
        ]
        return rebuild(shape, iter(scalars))

    def assign(self, target: Value, value: Value, shape: Shape) -> None:
        self.assign_all([(target, value, shape)])

    def assign_all(self, changes: Sequence[tuple[Value, Value, Shape]]) -> None:
        """Assign to several variables at once: one may be read by another's value."""
        names, texts = [], []
        for target, value, shape in changes:
            to, given = leaves(target, shape), leaves(value, shape)
            for one, scalar, kinds in zip(to, given, shape.scalars(), strict=True):
                assert isinstance(one, Scalar)  # noqa: S101 - declared above
                for suffix, text in zip(
                    kinds.suffixes, self.list_stored(scalar, kinds), strict=False
                ):
                    name = f"{one.text}{suffix}"
                    if name != text:
                        names.append(name)
                        texts.append(text)
        if names:
            self.emit(f"{', '.join(names)} = {', '.join(texts)}")

    def truth(self, value: Value) -> Value:  # noqa: C901, PLR0911 - a table
        match value:
            case Known(value=known) if kind_of_known(known) or isinstance(known, tuple):
                return Known(bool(known))
            case Scalar(kinds=(kind,)):
                return self._truth_of(kind, value.text)
            case Scalar(kinds=kinds):
                texts = []
                for kind in kinds:
                    if kind == "none":
                        continue
                    truth = self._truth_of(kind, value.part(kind))
                    found = self.truth_text(truth)
                    texts.append(f"(({value.tag} == {KINDS.index(kind)}) and {found})")
                return Scalar(("bool",), f"({' or '.join(texts)})")
            case Group(values=values) | RecordValue(values=values):
                return Known(bool(values))
            case Items():
                return Known(True)
            case ListValue(name=name):
                return self.variable("bool", f"{name}_n > 0")
            case ListView(count=count):
                return self.variable("bool", f"{count} > 0")
            case TextParts(value=text):
                return self.look_up(f"bool({value.text})", "bool", text)
        return self.refuse(f"asks whether a {describe(value)} is true")

    def truth_text(self, truth: Value) -> str:
        """Return the text of a bool, which may be known."""
        return str(truth.value) if isinstance(truth, Known) else self.text(truth)

    def _truth_of(self, kind: Kind, text: str) -> Value:  # noqa: PLR0911 - a table
        match kind:
            case "bool":
                return Scalar(("bool",), text)
            case "none":
                return Known(False)
            case "str":
                return Scalar(("bool",), f"({text} != {self.module.code('')})")
            case "bytes":
                return Scalar(("bool",), f"({text} != {self.module.code(b'')})")
            case "enum" | "date" | "datetime":
                return Known(True)
            case "float":
                return Scalar(("bool",), f"({text} != 0.0)")
        return Scalar(("bool",), f"({text} != 0)")

    def _unary(self, op: str, value: Value) -> Value:  # noqa: PLR0911 - a table
        if op == "not":
            truth = self.truth(value)
            if isinstance(truth, Known):
                return Known(not truth.value)
            return self.variable("bool", f"not {self.text(truth)}")
        if isinstance(value, Known):
            return self.fold(_UNARY[op], value.value)
        if {*kinds_in(value)} & {*TIMES}:
            return self.negate_time(op, value)
        number = self.number(value)
        kind, text = only_kind(number), self.text(number)
        if kind == "bool":
            kind, text = "int", f"int({text})"
        if op == "~":
            if kind != "int":
                self.give_up()
            return self.variable("int", f"~{text}")
        if op == "+":
            return self.variable(kind, text)
        if kind == "int":
            self.check(f"{text} < {-NEAR}")
        return self.variable(kind, f"-{text}")

    def fold(self, function: Callable[..., Any], *args: Any) -> Value:
        try:
            made = function(*args)
        except Exception:  # noqa: BLE001 - Python will raise it
            self.give_up()
        if kind_of_known(made) is None and not isinstance(made, tuple | range):
            self.refuse(f"computes a {type(made).__name__} of constants")
        return Known(made)

    def fold_any(self, function: Callable[..., Any], *args: Any) -> Value:
        """Compute with values that are the same for all items, as Python does."""
        try:
            return Known(function(*args))
        except Exception:  # noqa: BLE001 - Python will raise it
            return self.give_up()

    def number(self, value: Value, *, like: Kind | None = None) -> Value:
        """Return a value as a number of one kind; give up if it is none."""
        if not isinstance(value, Known | Scalar) or not kinds_in(value):
            self.refuse(f"computes with a {describe(value)}")
        kinds = [k for k in kinds_in(value) if k in ("int", "float", "bool")]
        if not kinds:
            if kinds_in(value) != ("none",):
                self.refuse(f"computes with a {describe(value)} and something else")
            self.give_up()
        if isinstance(value, Known) or len(kinds_in(value)) == 1:
            return value
        assert isinstance(value, Scalar)  # noqa: S101
        if kinds == ["int", "float"] and like == "float":
            tag, whole, exact = value.tag, value.part("int"), value.part("float")
            allowed = {KINDS.index("int"), KINDS.index("float")}
            if len(value.kinds) > 2:  # noqa: PLR2004
                self.check(f"{tag} > {max(allowed)}")
            self.check(
                f"({tag} == 0) and (({whole} > {EXACT}) or ({whole} < {-EXACT}))"
            )
            return self.variable(
                "float", f"(float({whole}) if {tag} == 0 else {exact})"
            )
        kind: Kind = "float" if "float" in kinds else kinds[0]
        self.check(f"{value.tag} != {KINDS.index(kind)}")
        return Scalar((kind,), value.part(kind))

    def whole(self, value: Value) -> Value:
        """Return a value as an int."""
        number = self.number(value)
        kind = only_kind(number)
        if kind == "float":
            self.give_up()
        if kind == "bool" and not isinstance(number, Known):
            return Scalar(("int",), f"int({self.text(number)})")
        return Known(int(number.value)) if isinstance(number, Known) else number

    def binary(self, op: str, left: Value, right: Value) -> Value:  # noqa: C901, PLR0911 - a table
        if isinstance(left, Known) and isinstance(right, Known):
            return self.fold(_BINARY[op], left.value, right.value)
        if op == "+" and isinstance(left, Group) and isinstance(right, Group):
            if left.is_list != right.is_list:
                self.give_up()
            return Group((*left.values, *right.values), left.is_list)
        kinds = {*kinds_in(left), *kinds_in(right)}
        if kinds & {*TIMES}:
            return self.compute_time(op, left, right)
        if kinds & {*CODED}:
            return self._binary_of_string(op, left, right)
        likes: list[Kind | None] = [None, None]
        for number, other in enumerate((right, left)):
            if op == "/" or kinds_in(other) == ("float",):
                likes[number] = "float"
        one = self.number(left, like=likes[0])
        two = self.number(right, like=likes[1])
        if op in ("&", "|", "^"):
            return self._bits(op, one, two)
        if op == "@":
            self.refuse("uses @")
        if op == "**":
            return self._power(one, two)
        if "float" in (only_kind(one), only_kind(two)) or op == "/":
            return self._of_floats(op, one, two)
        return self.of_ints(op, one, two)

    def compute_time(self, op: str, left: Value, right: Value) -> Value:
        """Apply an operator to times."""
        raise NotImplementedError

    def compare_time(self, op: str, left: Value, right: Value) -> Value:
        """Return the comparison of times."""
        raise NotImplementedError

    def negate_time(self, op: str, value: Value) -> Value:
        """Return `-value` or `+value` of a timedelta."""
        raise NotImplementedError

    def _binary_of_string(self, op: str, left: Value, right: Value) -> Value:
        if op in ("+", "%", "*"):
            one, two = self.string_kind(left), self.string_kind(right)
            if isinstance(left, Known) and two is not None:
                return self.look_up(f"{self.literal(left)} {op} s", two, right)
            if isinstance(right, Known) and one is not None and op != "%":
                return self.look_up(f"s {op} {self.literal(right)}", one, left)
        return self.refuse("joins strings that are not known")

    def literal(self, value: Value) -> str:
        """Return a value of the program as it is written in the text of a table."""
        found = find_constant(value)
        if found is not None:
            several = type(found.value) is tuple
            values = found.value if several else (found.value,)
            if all(type(one) in _LITERAL for one in values):
                return repr(found.value)
        return self.refuse(f"computes with a string and a {describe(value)}")

    def string_kind(self, value: Value) -> Kind | None:
        """Return whether a value is str or bytes, if it can be nothing else but
        None.
        """
        found = [kind for kind in kinds_in(value) if kind != "none"]
        return found[0] if found in (["str"], ["bytes"]) else None

    def _power(self, one: Value, two: Value) -> Value:
        """Translate a power: an integer to a non-negative integer."""
        kinds = {only_kind(one), only_kind(two)}
        negative = isinstance(two, Known) and two.value < 0
        if "float" in kinds or negative:
            self.module.helper(FLOAT_POWER)
            a, b = self.as_float(one), self.as_float(two)
            return self.call_helper(
                "float", f"float_power({a}, {b}, float(C[0]) * 0.0)"
            )
        self.module.helper(INT_POWER)
        a, b = self.text(self.whole(one)), self.text(self.whole(two))
        self.check(f"{b} < 0")
        return self.call_helper("int", f"int_power({a}, {b})")

    def call_helper(self, kind: Kind, call: str) -> Value:
        """Return the result of a helper, which reports whether it gave up."""
        pair = self.module.new("r")
        self.emit(f"{pair} = {call}")
        self.check(f"{pair}[0]")
        return self.variable(kind, f"{pair}[1]")

    def _bits(self, op: str, one: Value, two: Value) -> Value:
        kinds = {only_kind(one), only_kind(two)}
        if "float" in kinds:
            self.give_up()
        if kinds == {"bool"}:
            return self.variable("bool", f"{self.text(one)} {op} {self.text(two)}")
        a, b = self.text(self.whole(one)), self.text(self.whole(two))
        return self.variable("int", f"{a} {op} {b}")

    def as_float(self, value: Value, *, exact: bool = False) -> str:
        kind, text = only_kind(value), self.text(value)
        if kind == "float":
            return text
        if isinstance(value, Known):
            whole = int(value.value)
            if exact and abs(whole) > EXACT:
                self.give_up()
            return float_text(float(whole))
        if kind == "bool":
            return f"float(int({text}))"  # Numba has no float of a bool
        if exact:
            self.check(f"({text} > {EXACT}) or ({text} < {-EXACT})")
        return f"float({text})"

    def _of_floats(self, op: str, one: Value, two: Value) -> Value:
        divides = op == "/"  # for two integers, the exact quotient is rounded
        a, b = self.as_float(one, exact=divides), self.as_float(two, exact=divides)
        match op:
            case "+" | "-" | "*":
                return self.variable("float", f"{a} {op} {b}")
            case "/":
                self.check_zero(f"{b} == 0.0")
                return self.variable("float", f"{a} / {b}")
            case "%" | "//":
                self.check_zero(f"{b} == 0.0")
                rest = self.variable("float", f"np.fmod({a}, {b})")
                mod = self.module.new("v")
                self.emit(
                    f"{mod} = ({rest.text} + {b} if ({b} < 0.0) != ({rest.text} < 0.0) "
                    f"else {rest.text}) if {rest.text} != 0.0 "
                    f"else math.copysign(0.0, {b})"
                )
                if op == "%":
                    return Scalar(("float",), mod)
                div = self.module.new("v")
                self.emit(f"{div} = ({a} - {rest.text}) / {b}")
                self.emit(
                    f"if ({rest.text} != 0.0) and (({b} < 0.0) != ({rest.text} < 0.0)):"
                )
                self.lines.append((self.depth + 1, f"{div} = {div} - 1.0"))
                low = self.module.new("v")
                self.emit(f"{low} = np.floor({div})")
                self.emit(f"if {div} - {low} > 0.5:")
                self.lines.append((self.depth + 1, f"{low} = {low} + 1.0"))
                self.emit(f"if {div} == 0.0:")
                self.lines.append(
                    (self.depth + 1, f"{low} = math.copysign(0.0, {a} / {b})")
                )
                return Scalar(("float",), low)
        return self.give_up()

    def of_ints(self, op: str, one: Value, two: Value) -> Value:
        a, b = self.text(self.whole(one)), self.text(self.whole(two))
        match op:
            case "+" | "-":
                self.check(
                    " or ".join(is_beyond(self.whole(v), NEAR) for v in (one, two))
                )
            case "*":
                self.check(f"not (-9e18 < float({a}) * float({b}) < 9e18)")
            case "//" | "%":
                self.check_zero(f"{b} == 0")
                self.check(f"{a} < {-NEAR}")
            case "<<":
                self.check(
                    f"({b} < 0) or ({b} > 62) or ({a} > ({NEAR} >> {b})) "
                    f"or ({a} < -({NEAR} >> {b}))"
                )
            case ">>":
                self.check(f"({b} < 0) or ({b} > 62)")
        return self.variable("int", f"{a} {op} {b}")

    def compare(self, op: str, left: Value, right: Value) -> Value:  # noqa: PLR0911
        if op in ("is", "is not"):
            return self._is(op, left, right)
        if op in ("in", "not in"):
            found = self._contains(left, right)
            return self._unary("not", found) if op == "not in" else found
        if isinstance(left, Known) and isinstance(right, Known):
            return self.fold(_COMPARE[op], left.value, right.value)
        one, two = kinds_in(left), kinds_in(right)
        if all(map(_is_tuple, (left, right))):
            return self._compare_tuples(op, parts_of(left), parts_of(right))
        for value in (left, right):
            if not isinstance(value, Known | Scalar):
                self.refuse(f"compares a {describe(value)}")
        several = (
            len(one) > 1 or len(two) > 1 or (one != two and {*one, *two} - _NUMBERS)
        )
        if op in ("==", "!=") and several:
            return self._equal(op, left, right)
        if {*one, *two} & {*TIMES}:
            return self.compare_time(op, left, right)
        if {*one, *two} & {*CODED}:
            return self._compare_coded(op, left, right)
        return self._compare_numbers(op, self.number(left), self.number(right))

    def _compare_tuples(
        self, op: str, left: Sequence[Value], right: Sequence[Value]
    ) -> Value:
        """Compare the first parts that differ. Python asks first whether they are the
        same object, so a NaN may be equal to itself.
        """
        for value in (*left, *right):
            if not isinstance(value, Known | Scalar) or len(kinds_in(value)) != 1:
                self.refuse(f"compares a tuple that has a {describe(value)}")
            if kinds_in(value) == ("float",):
                self.check(f"math.isnan({self.text(value)})")
        pairs = list(zip(left, right, strict=False))
        found = self.variable(
            "bool", str(_COMPARE[op](len(left), len(right)))
        )  # if all parts are equal
        for one, two in reversed(pairs):
            same = self.truth_text(self.compare("==", one, two))
            differ = str(op == "!=")
            if op not in ("==", "!="):
                differ = self.truth_text(self.compare(op, one, two))
            found = self.variable("bool", f"{found.text} if {same} else {differ}")
        return found

    def _compare_coded(self, op: str, left: Value, right: Value) -> Value:
        """Compare two strings, through a table or by rank."""
        one, two = kinds_in(left), kinds_in(right)
        if one == two and op in ("==", "!="):
            return self.variable("bool", f"{self.text(left)} {op} {self.text(right)}")
        a, b = self.string_kind(left), self.string_kind(right)
        if a is None or a != b:
            self.refuse(f"compares a {describe(left)} with a {describe(right)}")
        if isinstance(right, Known):
            return self.look_up(f"s {op} {right.value!r}", "bool", left)
        if isinstance(left, Known):
            return self.look_up(f"{left.value!r} {op} s", "bool", right)
        first, second = self.rank(left), self.rank(right)
        return self.variable("bool", f"{first} {op} {second}")

    def rank(self, value: Value) -> str:
        """Return the rank of a string among all."""
        return self.text(self.look_up("rank", "int", value))

    def _compare_numbers(self, op: str, one: Value, two: Value) -> Value:
        if "float" in (only_kind(one), only_kind(two)):
            mixed = only_kind(one) != only_kind(two)
            a = self.as_float(one, exact=mixed)
            b = self.as_float(two, exact=mixed)
        else:
            a, b = self.text(self.whole(one)), self.text(self.whole(two))
        return self.variable("bool", f"{a} {op} {b}")

    def _equal(self, op: str, left: Value, right: Value) -> Value:
        """Compare values that may be None; others must be of one kind each."""
        one, two = kinds_in(left), kinds_in(right)
        plain = {*one, *two} - {"none"}
        if len(plain) > 1 and plain - _NUMBERS:
            self.refuse(f"compares a {describe(left)} with a {describe(right)}")
        none_left, none_right = self._text_of_none(left), self._text_of_none(right)
        if plain and ("none",) not in (one, two):
            kinds = [[k for k in kinds if k != "none"] for kinds in (one, two)]
            if any(len(found) != 1 for found in kinds):
                return self._compare_numbers(op, self.number(left), self.number(right))
            (a,), (b,) = kinds
            first = Scalar((a,), self._text_of(left, a))
            second = Scalar((b,), self._text_of(right, b))
            if a in _NUMBERS:
                same = self.text(self._compare_numbers("==", first, second))
            else:
                same = f"{first.text} == {second.text}"
        else:
            same = "False"
        found = self.variable(
            "bool",
            f"({none_left} and {none_right}) if ({none_left} or {none_right}) "
            f"else ({same})",
        )
        return found if op == "==" else self._unary("not", found)

    def _text_of(self, value: Value, kind: Kind) -> str:
        """Return the text of a value that is of a kind, or None."""
        if isinstance(value, Scalar) and len(value.kinds) > 1:
            return value.part(kind)
        return self.text(value)

    def plain(self, value: Value, kind: Kind) -> str:
        if isinstance(value, Scalar) and len(value.kinds) > 1:
            self.check(f"{value.tag} != {KINDS.index(kind)}")
            return value.part(kind)
        if kinds_in(value) != (kind,):
            self.give_up()
        return self.text(value)

    def _text_of_none(self, value: Value) -> str:
        if isinstance(value, Scalar) and len(value.kinds) > 1:
            return f"({value.tag} == {KINDS.index('none')})"
        return str(kinds_in(value) == ("none",))

    def _is(self, op: str, left: Value, right: Value) -> Value:
        if isinstance(left, Known) and left.value is None:
            left, right = right, left
        if kinds_in(left) == kinds_in(right) and kinds_in(left) in (
            ("enum",),
            ("bool",),
        ):
            return self.compare("==" if op == "is" else "!=", left, right)
        if not (isinstance(right, Known) and right.value is None):
            self.refuse("asks whether two values are the same object")
        if isinstance(left, Known):
            found: Value = Known(left.value is None)
        elif isinstance(left, Scalar):
            text = self._text_of_none(left)
            plain = len(left.kinds) == 1
            found = Known(text == "True") if plain else Scalar(("bool",), text)
        elif isinstance(left, RecordValue | Group | Items | ListValue | ListView):
            found = Known(False)
        else:
            self.refuse(f"asks whether a {describe(left)} is None")
        return self._unary("not", found) if op == "is not" else found

    def _contains(self, item: Value, container: Value) -> Value:  # noqa: PLR0911 - a table
        if isinstance(container, Known) and isinstance(container.value, str | bytes):
            if self.string_kind(item) in kinds_in(container):
                if isinstance(item, Known):
                    return self.fold(operator.contains, container.value, item.value)
                return self.look_up(f"s in {container.value!r}", "bool", item)
        elif isinstance(container, TextParts) and isinstance(item, Known):
            found = f"{self.literal(item)} in {container.text}"
            return self.look_up(found, "bool", container.value)
        elif self.string_kind(container) is not None and isinstance(item, Known):
            return self.look_up(f"{self.literal(item)} in s", "bool", container)
        elif isinstance(container, Known) and isinstance(
            container.value, tuple | list | set | frozenset | dict
        ):
            return self._is_among(item, container.value)
        elif isinstance(container, Group):
            return self._any_equal(item, container.values)
        elif isinstance(container, Known) and type(container.value) is range:
            return self._is_in_range(item, container.value)
        return self.refuse(f"looks for something in a {describe(container)}")

    def _is_in_range(self, item: Value, values: range) -> Value:
        if isinstance(item, Known):
            return self.fold(operator.contains, values, item.value)
        found = values if values.step > 0 else values[::-1]
        if (
            kinds_in(item) != ("int",)
            or max(map(abs, (found.start, found.stop))) > NEAR
        ):
            self.refuse(f"looks for a {describe(item)} in a range")
        text = self.text(item)
        return self.variable(
            "bool",
            f"{found.start} <= {text} < {found.stop}"
            f" and ({text} - ({found.start})) % {found.step} == 0",
        )

    def _is_among(self, item: Value, values: Any) -> Value:
        """Return whether an item is in a container that is the same for all items."""
        if isinstance(item, Known):
            return self.fold(operator.contains, values, item.value)
        words = list(values)
        if any(kind_of_known(word) is None for word in words):
            self.refuse("looks for a value among others of other types")
        if isinstance(item, Scalar) and len(item.kinds) == 2 and "none" in item.kinds:  # noqa: PLR2004
            found = self.variable("bool", str(None in words))
            self.emit(f"if {item.tag} != {KINDS.index('none')}:")
            with self.deeper():
                (kind,) = (kind for kind in item.kinds if kind != "none")
                there = Scalar((kind,), item.part(kind), type=item.type)
                text = self.truth_text(self._is_among(there, values))
                self.emit(f"{found.text} = {text}")
            return found
        if kinds_in(item) == ("str",) and all(type(word) is str for word in words):
            table = tuple((word, True) for word in words)
            return self.look_up("s in d", "bool", item, table)
        if len(words) > _MOST_COMPARED:
            self.refuse(f"looks for a value among {len(words)}")
        return self._any_equal(item, [Known(one) for one in words])

    def _any_equal(self, item: Value, values: Sequence[Value]) -> Value:
        kinds = kinds_in(item)
        # A NaN is equal to itself here if it is the same object; a constant is another.
        apart = all(isinstance(v, Known) and v.value == v.value for v in values)
        if not kinds or ("float" in kinds and not apart):
            self.refuse("looks for a value that may be NaN among others")
        texts = []
        for value in values:
            found = kinds_in(value)
            if len(found) != 1 or (
                found != kinds and {*found, *kinds} - _NUMBERS - {"none"}
            ):
                self.refuse("looks for a value among others of other types")
            texts.append(self.truth_text(self.compare("==", item, value)))
        return self.variable("bool", " or ".join(texts)) if texts else Known(False)

    def look_up(
        self,
        text: str,
        gives: Kind,
        value: Value,
        table: TableItems = None,
        kind: Any = None,
    ) -> Value:
        """Return a function of one string, through its table; `kind` is an Enum."""
        found = [kind for kind in kinds_in(value) if kind in CODED]
        of: Kind = found[0] if found else "str"
        return self.look_up_table(StringTable(text, gives, table, of, kind=kind), value)

    def look_up_table(self, table: StringTable, value: Value) -> Value:
        """Return a table's entry for a string."""
        if isinstance(value, Known):
            return self.fold(table.function(), value.value)
        code = self.plain(value, table.of)
        number = 2 * self.module.table(table)
        self.check(f"Q[{number + 1}][{code}]")
        made = self.variable(table.gives, f"Q[{number}][{code}]")
        return Scalar(made.kinds, made.text, type=table.kind)


def _is_tuple(value: Value) -> bool:
    match value:
        case Group(is_list=is_list):
            return not is_list
        case Known(value=known):
            return type(known) is tuple
    return isinstance(value, RecordValue)


_MOST_COMPARED = 64
_LITERAL = (str, bytes, int, bool, type(None))
_NUMBERS: set[Kind] = {"int", "float", "bool"}
_UNARY: dict[str, Callable[..., Any]] = {
    "+": operator.pos,
    "-": operator.neg,
    "~": operator.invert,
}
_BINARY: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "@": operator.matmul,
}
_COMPARE: dict[str, Callable[..., Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def float_text(value: float) -> str:
    if math.isnan(value):
        return "math.nan"
    if math.isinf(value):
        return "math.inf" if value > 0 else "(-math.inf)"
    return f"({value!r})"


def is_beyond(value: Value, most: int) -> str:
    """Return the text that tells whether an int is beyond a number, or minus that."""
    if isinstance(value, Known):
        return str(abs(value.value) > most)
    assert isinstance(value, Scalar)  # noqa: S101 - an int
    return f"({value.text} > {most}) or ({value.text} < {-most})"


def kinds_in(value: Value) -> tuple[Kind, ...]:
    match value:
        case Scalar(kinds=kinds):
            return kinds
        case Known(value=known):
            kind = kind_of_known(known)
            return () if kind is None else (kind,)
    return ()


def only_kind(value: Value) -> Kind:
    (kind,) = kinds_in(value)
    return kind
