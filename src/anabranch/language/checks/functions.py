"""Checks of the user's functions against their arguments, and of keys."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from anabranch.errors import Fault
from anabranch.graph.graph import Op
from anabranch.graph.types import (
    attribute_type,
    fields_of,
    lacks,
    may_be,
    parameter_type,
    there_is,
    type_name,
)
from anabranch.language.checks.structure import Streams, fault
from anabranch.operators.blocks import Block
from anabranch.operators.custom import Apply, Operator, Scan
from anabranch.operators.fan_in import Barrier, Merge, Union
from anabranch.operators.getters import KeyFunction
from anabranch.operators.iterate import Iterate
from anabranch.operators.join import Join, Lookup
from anabranch.operators.sources import Generate
from anabranch.operators.stateless import FlatMap, describe_function
from anabranch.operators.windows import Aggregate

_STATE = object()  # an argument of unknown type


@dataclass(frozen=True)
class ListOf:
    """The type of an argument that holds several items."""

    item: Any


@dataclass(frozen=True)
class ExpectedCall:
    """How the runtime calls a user's function."""

    role: str
    function: Any
    arguments: tuple[Any, ...]  # the type of each; None if unknown


def functions(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each function that cannot take its arguments."""
    for op in streams.ops:
        if isinstance(op.kind, Apply):
            yield from _operator_class(op, op.kind, streams.item_type(op))
            continue
        for call in _calls(op, streams):
            yield from _call_faults(op, call)


def _calls(op: Op, streams: Streams) -> Iterator[ExpectedCall]:
    item = streams.item_type(op)
    match op.kind:
        case Generate(factory=factory):
            yield ExpectedCall("factory", factory, ())
        case Scan(step=step):
            yield ExpectedCall("step", step, (_STATE, item))
        case Aggregate(function=function) if function is not None:
            yield ExpectedCall("function", function, (ListOf(item),))
        case Block(function=function):
            yield ExpectedCall("function", function, (ListOf(item),))
        case Iterate(until=until) if until is not None:
            yield ExpectedCall("until", until, (ListOf(op.type),))
        case Join() | Barrier() | Lookup():
            types = tuple(streams.types(op))
            given = (item, _STATE) if isinstance(op.kind, Lookup) else types
            for role, function in op.kind.user_code:
                yield ExpectedCall(role, function, given)
        case Iterate():
            return
        case _:
            for role, function in op.kind.user_code:
                yield ExpectedCall(role, function, (item,))


def _call_faults(op: Op, call: ExpectedCall) -> Iterator[Fault]:
    if not callable(call.function):
        yield fault(
            op,
            f"{call.role} must be a function; got {call.function!r}",
            "pass the function itself, without calling it",
        )
        return
    refused = why_not_called(call.function, len(call.arguments))
    if refused is not None:
        yield fault(
            op,
            f"{call.role} must take {_format_count(len(call.arguments))}; "
            f"{describe_function(call.function)} does not: {refused}",
            "change its parameters",
        )
        return
    yields = isinstance(op.kind, _MAY_YIELD) and call.role in ("function", "factory")
    unfit = _why_not_plain(call.function, may_yield=yields)
    if unfit is not None:
        what, fix = unfit
        yield fault(
            op,
            f"{call.role} must be a plain function; "
            f"{describe_function(call.function)} is {what}",
            fix,
        )
        return
    yield from _parameter_faults(op, call, offset=0)


_MAY_YIELD = (FlatMap, Generate, Block)


def _why_not_plain(function: Any, *, may_yield: bool) -> tuple[str, str] | None:
    """Return what a function is instead of a plain one, and what to do; or None.

    A call of it would not run its code, and give an object that stands for the call.

    >>> async def fetch(item): ...
    >>> _why_not_plain(fetch, may_yield=True)[0]
    'an async function'
    >>> _why_not_plain(len, may_yield=False) is None
    True
    """
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    if not inspect.isroutine(called) and not isinstance(called, type):
        called = getattr(type(called), "__call__", called)  # noqa: B004 - the method itself
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        return (
            "an async function",
            "write def, and asyncio.run(...) in it for what has to be awaited",
        )
    if inspect.isgeneratorfunction(called) and not may_yield:
        return (
            "a generator function",
            "return the value instead of yielding it; use flat_map for several outputs",
        )
    return None


def _parameter_faults(op: Op, call: ExpectedCall, offset: int) -> Iterator[Fault]:
    for index, given in enumerate(call.arguments):
        annotation = parameter_type(call.function, index + offset)
        if given is _STATE or annotation is None or _fits(given, annotation):
            continue
        yield fault(
            op,
            f"{call.role} takes {type_name(annotation)}, but is given "
            f"{_describe(given)}; see {describe_function(call.function)}",
            "correct the annotation, or map the stream to that type first",
        )


def _fits(given: Any, annotation: Any) -> bool:
    if not isinstance(given, ListOf):
        return may_be(given, annotation)
    if not may_be(list, annotation):
        return False
    elements = get_args(annotation)
    if get_origin(annotation) is None or len(elements) != 1:
        return True
    return may_be(given.item, elements[0])


def _describe(given: Any) -> str:
    if not isinstance(given, ListOf):
        return type_name(given)
    return "a list" if given.item is None else f"a list of {type_name(given.item)}"


def _operator_class(op: Op, kind: Apply, item: Any) -> Iterator[Fault]:
    given: Any = kind.operator
    if not isinstance(given, type):
        is_instance = isinstance(given, Operator)
        yield fault(
            op,
            f"apply must be given a subclass of ab.Operator; got {given!r}",
            "pass the class; its arguments go to apply" if is_instance else _SUBCLASS,
        )
    elif not issubclass(given, Operator):
        yield fault(
            op,
            f"apply must be given a subclass of ab.Operator; {given.__name__} is none",
            _SUBCLASS,
        )
    elif not kind.overrides("process"):
        yield fault(
            op,
            f"an Operator must define process; {given.__name__} does not",
            "add def process(self, item), which yields the outputs",
        )
    else:
        yield from _operator_calls(op, kind, item)


_SUBCLASS = "derive it from ab.Operator, or use .map or .flat_map for a function"


def _operator_calls(op: Op, kind: Apply, item: Any) -> Iterator[Fault]:
    process: Any = kind.operator.process
    refused = why_not_called(process, 2)
    if refused is not None:
        yield fault(
            op,
            f"process must take self and an item; that of "
            f"{kind.operator.__name__} does not: {refused}",
            "change its parameters",
        )
    elif (unfit := _why_not_plain(process, may_yield=True)) is not None:
        yield fault(
            op,
            f"process must be a plain method; that of {kind.operator.__name__} is "
            f"{unfit[0]}",
            unfit[1],
        )
    else:
        yield from _parameter_faults(
            op, ExpectedCall("process", process, (item,)), offset=1
        )
    refused = why_not_called(
        kind.operator, len(kind.arguments), dict(kind.keywords).keys()
    )
    if refused is not None:
        yield fault(
            op,
            f"{kind.operator.__name__} cannot be made with these arguments: {refused}",
            "pass apply the arguments of its constructor behind the class",
        )


def why_not_called(function: Any, count: int, keywords: Any = ()) -> str | None:
    """Return why a function cannot be called with that number of arguments, or None.

    What counts is what is called, not what a decorator has wrapped.

    >>> why_not_called(lambda a: a, 2)
    'too many positional arguments'
    """
    written = isinstance(function, types.FunctionType | types.MethodType)
    try:
        signature = inspect.signature(function, follow_wrapped=not written)
    except (TypeError, ValueError):  # a builtin without a signature
        return None
    try:
        signature.bind(*(None,) * count, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    return None


def _format_count(count: int) -> str:
    if count == 0:
        return "no arguments"
    return "one argument" if count == 1 else f"{count} arguments"


def keys(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each key that items lack, or that cannot be compared."""
    for op in streams.ops:
        match op.kind:
            case Join(on=on):
                yield from _check_shared(op, streams, on, "on")
            case Merge(by=by, on=on):
                yield from _check_shared(op, streams, (by,), "by")
                yield from _check_shared(op, streams, on, "on")
            case Barrier(on=on):
                yield from _check_shared(op, streams, on, "on")
            case Lookup(on=on):
                yield from _check_shared(op, streams, on, "on")
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
    for name in op.keyed_by:
        if isinstance(name, KeyFunction):
            yield from _call_faults(
                op, ExpectedCall("key_by", name.function, (tuple_type,))
            )
        elif lacks(tuple_type, name):
            yield fault(
                op,
                f"key_by names {name!r}, which {type_name(tuple_type)} does not have",
                f"{there_is(name, fields_of(tuple_type) or ())}; key_by with another "
                f"attribute changes the key, key_by() ends it",
            )


def _check_shared(
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
    """Yield a fault if streams have an attribute of one name but of different types."""
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
