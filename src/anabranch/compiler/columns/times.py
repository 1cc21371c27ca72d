"""Datetimes, dates and timedeltas in kernel text: integers.

A naive datetime is microseconds since 1970, a date the number of its day, a timedelta
microseconds: as `datetime` itself computes them, in integers. A result outside its
range of years or 64 bits makes the kernel give up.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from anabranch.compiler.columns.arithmetic import CIVIL, kinds_in
from anabranch.compiler.columns.values import Group, Known, Scalar, Value, describe
from anabranch.plan.column_kernels import TIMES, count_time
from anabranch.plan.column_kernels import ColumnKind as Kind

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText

_DAY = 86_400_000_000
_EPOCH_DAY = dt.date(1970, 1, 1).toordinal()
_RANGES = {
    "datetime": (count_time(dt.datetime.min), count_time(dt.datetime.max)),  # noqa: DTZ901 - without a zone
    "date": (1, dt.date.max.toordinal()),
}
_CLOCK = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "microsecond": 1,
}
_UNITS = {
    "weeks": 7 * _DAY,
    "days": _DAY,
    "hours": 3_600_000_000,
    "minutes": 60_000_000,
    "seconds": 1_000_000,
    "milliseconds": 1000,
    "microseconds": 1,
}
_ORDER = (
    "days",
    "seconds",
    "microseconds",
    "milliseconds",
    "minutes",
    "hours",
    "weeks",
)


def time_kind(value: Value) -> Kind | None:
    """Return the kind of a value that may be a time, None if it is none."""
    found = [kind for kind in kinds_in(value) if kind in TIMES]
    return found[0] if len(found) == 1 else None


def compute(this: FunctionText, op: str, left: Value, right: Value) -> Value:  # noqa: PLR0911 - a table
    """Apply an operator with at least one time operand."""
    one, two = time_kind(left), time_kind(right)
    if None in (one, two):
        return _scale(this, op, left, right)
    a, b = this.plain(left, one), this.plain(right, two)  # type: ignore[arg-type]
    match one, op, two:
        case "datetime", "-", "datetime":
            return this.variable("timedelta", f"{a} - {b}")
        case "date", "-", "date":
            return this.variable("timedelta", f"({a} - {b}) * {_DAY}")
        case ("datetime" | "date") as kind, "+" | "-", "timedelta":
            return _move(this, kind, op, a, b)
        case "timedelta", "+", ("datetime" | "date") as kind:
            return _move(this, kind, op, b, a)
        case "timedelta", "+" | "-" | "%" | "//", "timedelta":
            number = this.of_ints(op, Scalar(("int",), a), Scalar(("int",), b))
            gives: Kind = "int" if op == "//" else "timedelta"
            return Scalar((gives,), this.text(number))
        case "timedelta", "/", "timedelta":
            return this.binary("/", Scalar(("int",), a), Scalar(("int",), b))
    return this.refuse(f"computes a {one} {op} a {two}")


def _move(this: FunctionText, kind: Kind, op: str, time: str, by: str) -> Value:
    low, high = _RANGES[kind]
    this.check(f"({by} > {1 << 61}) or ({by} < {-(1 << 61)})")
    by = by if kind == "datetime" else f"({by} // {_DAY})"
    made = this.variable(kind, f"{time} {op} {by}")
    this.check(f"({made.text} < {low}) or ({made.text} > {high})")
    return made


def _scale(this: FunctionText, op: str, left: Value, right: Value) -> Value:
    """Return a timedelta times an integer, or divided by one."""
    if time_kind(left) != "timedelta":
        left, right = right, left
        op = {"*": "*"}.get(op, "")
    if time_kind(left) != "timedelta" or op not in ("*", "//"):
        this.refuse(f"computes with a {describe(left)} and a {describe(right)}")
    if {*kinds_in(right)} & {"float"}:
        this.refuse("computes with a timedelta and a float")
    number = Scalar(("int",), this.plain(left, "timedelta"))
    return Scalar(
        ("timedelta",), this.text(this.of_ints(op, number, this.whole(right)))
    )


def negate(this: FunctionText, op: str, value: Value) -> Value:
    """Return `-value`, `+value` or `abs(value)` of a timedelta."""
    if time_kind(value) != "timedelta":
        this.refuse(f"computes with a {describe(value)}")
    text = this.plain(value, "timedelta")
    return this.variable("timedelta", {"abs": f"abs({text})"}.get(op, f"{op}{text}"))


def compare(this: FunctionText, op: str, left: Value, right: Value) -> Value:
    """Return the comparison of two times."""
    one, two = time_kind(left), time_kind(right)
    if one is None or one != two:
        this.refuse(f"compares a {describe(left)} with a {describe(right)}")
    a, b = this.plain(left, one), this.plain(right, one)
    return this.variable("bool", f"{a} {op} {b}")


def read(this: FunctionText, value: Value, name: str) -> Value | None:
    """Return an attribute of a time; None if this kind has no such attribute."""
    kind = time_kind(value)
    if kind == "timedelta" and name in ("days", "seconds", "microseconds"):
        text = this.plain(value, kind)
        seconds = f"({text} % {_DAY})"
        texts = {
            "days": f"{text} // {_DAY}",
            "seconds": f"{seconds} // 1000000",
            "microseconds": f"{seconds} % 1000000",
        }
        return this.variable("int", texts[name])
    if kind == "datetime" and name in _CLOCK:
        rest = f"{this.plain(value, kind)} % {_DAY}"
        whole = {"hour": 24, "microsecond": 1_000_000}.get(name, 60)
        return this.variable("int", f"({rest}) // {_CLOCK[name]} % {whole}")
    if kind in ("datetime", "date") and name in ("year", "month", "day"):
        this.module.helper(CIVIL)
        made = this.module.new("r")
        this.emit(f"{made} = civil({_day_of(this, value)} - {_EPOCH_DAY})")
        place = ("year", "month", "day").index(name)
        return this.variable("int", f"{made}[{place}]")
    return None


def _day_of(this: FunctionText, value: Value) -> str:
    """Return the day number of a datetime or a date."""
    kind = time_kind(value)
    assert kind is not None  # noqa: S101 - the caller has asked
    text = this.plain(value, kind)
    return f"({text} // {_DAY} + {_EPOCH_DAY})" if kind == "datetime" else text


def call_method(  # noqa: PLR0911 - a table
    this: FunctionText,
    value: Value,
    name: str,
    args: list[Value],
    keywords: dict[str, Value],
) -> Value:
    """Translate a call of a method of a time."""
    kind = time_kind(value)
    if kind == "timedelta" and name == "total_seconds" and not args:
        whole = Scalar(("int",), this.plain(value, kind))
        return this.binary("/", whole, Known(1_000_000))
    if kind in ("datetime", "date") and not args and not keywords:
        match name:
            case "toordinal":
                return this.variable("int", _day_of(this, value))
            case "weekday":
                return this.variable("int", f"({_day_of(this, value)} + 6) % 7")
            case "isoweekday":
                return this.variable("int", f"({_day_of(this, value)} + 6) % 7 + 1")
            case "date" if kind == "datetime":
                return this.variable("date", _day_of(this, value))
    if kind == "datetime" and name == "replace" and not args:
        return _replace(this, value, keywords)
    return this.refuse(f"calls .{name} of a {describe(value)}")


def _replace(this: FunctionText, value: Value, keywords: dict[str, Value]) -> Value:
    if not keywords or keywords.keys() - _CLOCK.keys():
        this.refuse("replaces other parts of a datetime than hours to microseconds")
    made = this.plain(value, "datetime")
    for name, given in keywords.items():
        part = read(this, value, name)
        assert part is not None  # noqa: S101 - see above
        new = this.text(this.whole(given))
        most = {"hour": 24, "microsecond": 1_000_000}.get(name, 60)
        this.check(f"({new} < 0) or ({new} >= {most})")
        made = f"{made} + ({new} - {this.text(part)}) * {_CLOCK[name]}"
    return this.variable("datetime", made)


def make_timedelta(
    this: FunctionText, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Return a timedelta of whole numbers."""
    given = dict(zip(_ORDER, args, strict=False)) | keywords
    twice = len(given) < len(args) + len(keywords)
    if len(args) > len(_ORDER) or twice or given.keys() - _UNITS.keys():
        this.give_up()
    total: Value = Known(0)
    for name, value in given.items():
        if "float" in kinds_in(value):
            this.refuse("makes a timedelta of floats")
        part = this.binary("*", this.whole(value), Known(_UNITS[name]))
        total = this.binary("+", total, part)
    if isinstance(total, Known):
        return this.fold_any(lambda n: dt.timedelta(microseconds=n), total.value)
    return Scalar(("timedelta",), this.text(total))


def make_time(
    this: FunctionText, function: Any, args: list[Value], keywords: dict[str, Value]
) -> Value:
    """Translate a call of the constructor of a time."""
    given = [*args, *keywords.values()]
    known = [one.value for one in given if isinstance(one, Known)]
    if len(known) == len(given):
        named = dict(zip(keywords, known[len(args) :], strict=True))
        return this.fold_any(lambda: function(*known[: len(args)], **named))
    if function is dt.timedelta:
        return make_timedelta(this, args, keywords)
    return this.refuse(f"makes a {function.__name__} of what is not known")


def divide(this: FunctionText, left: Value, right: Value) -> Value:
    """Translate `divmod` of two timedeltas."""
    return Group((compute(this, "//", left, right), compute(this, "%", left, right)))
