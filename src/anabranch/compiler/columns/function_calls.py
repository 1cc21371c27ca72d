"""Calls in kernel text: functions, constructors and methods."""

from __future__ import annotations

import datetime as dt
import functools
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.compiler.columns import times
from anabranch.compiler.columns.arithmetic import (
    kinds_in,
)
from anabranch.compiler.columns.builtin_functions import (
    FUNCTIONS,
    STRING_METHODS,
    call_math,
)
from anabranch.compiler.columns.read_parts import call_table_method
from anabranch.compiler.columns.values import (
    Bound,
    GeneratorValue,
    Group,
    Known,
    Made,
    NoColumnsError,
    RecordValue,
    Scalar,
    Value,
    describe,
    flatten_all,
    is_record_type,
    kind_of_known,
    parts_of,
    rebuild,
)
from anabranch.plan.column_kernels import TIMES
from anabranch.python import ir

if TYPE_CHECKING:
    from anabranch.compiler.columns.translate import FunctionText


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
        case Known(value=function):
            return _call_known(this, function, args, keywords)
    return this.refuse("calls a function that it makes itself")


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
        if function is zip:
            keywords = {n: v for n, v in keywords.items() if n != "strict"}
        if keywords:
            this.refuse(f"calls {function.__name__} with names")
        return FUNCTIONS[function](this, args)
    if getattr(function, "__module__", "") == "math" and not keywords:
        return call_math(this, function.__name__, args)
    name = getattr(function, "__name__", type(function).__name__)
    return this.refuse(f"calls {name}")


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


def _call_method(  # noqa: PLR0911 - a table
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
    if isinstance(value, Group) and name == "append" and len(args) == 1:
        append(this, value, args[0])
        return Known(None)
    if isinstance(value, Known) and type(value.value) is dict and not keywords:
        return call_table_method(this, value.value, name, args)
    if {*kinds_in(value)} & {*TIMES}:
        return times.call_method(this, value, name, args, keywords)
    kind = this.string_kind(value)
    known = all(isinstance(a, Known) and kind_of_known(a.value) for a in args)
    if kind is not None and name in STRING_METHODS and known and not keywords:
        texts = [repr(a.value) for a in args]  # type: ignore[union-attr]
        gives = STRING_METHODS[name]
        gives = kind if gives == "str" else gives
        if name in ("encode", "decode", "hex"):
            gives = "bytes" if kind == "str" else "str"
        return this.look_up(f"s.{name}({', '.join(texts)})", gives, value)
    return this.refuse(f"calls .{name} of a {describe(value)}")


def append(this: FunctionText, container: Value, added: Value) -> None:
    """Append to a list of known length; all its names see that."""
    if not isinstance(container, Group) or container.loops != len(this.loops):
        this.refuse("adds to a list in a loop")
    assert isinstance(container, Group)  # noqa: S101 - for the checker
    names = this.frame.names
    if any(_holds(value, container) for value in names.values()):
        this.refuse("adds to a list that is part of another value")
    known_as = [name for name, value in names.items() if value is container]
    if not known_as:
        this.refuse("adds to a list that has no name")
    made = Group((*container.values, added), True, container.loops)
    names.update(dict.fromkeys(known_as, made))


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
        case Group(values=values) | RecordValue(values=values):
            return any(one is group or _holds(one, group) for one in values)
        case Made(names=names) | GeneratorValue(made=Made(names=names)):
            return any(one is group or _holds(one, group) for one in names.values())
    return False
