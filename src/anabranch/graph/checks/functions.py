"""Can the user's functions be called with what they will be given."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from anabranch.errors import Fault
from anabranch.graph.attributes import may_be
from anabranch.graph.blocks import Block
from anabranch.graph.checks.streams import Streams, fault
from anabranch.graph.custom import Apply, Operator, Scan
from anabranch.graph.graph import Op
from anabranch.graph.iterate import Iterate
from anabranch.graph.joins import Join
from anabranch.graph.kinds import Barrier, shown
from anabranch.graph.sources import Generate
from anabranch.graph.types import parameter_type, type_name
from anabranch.graph.windows import Aggregate

_STATE = object()  # an argument whose type nobody knows


@dataclass(frozen=True)
class ListOf:
    """The type of an argument that holds several items."""

    item: Any


@dataclass(frozen=True)
class Call:
    """How the runtime calls a function of the user's."""

    role: str
    function: Any
    arguments: tuple[Any, ...]  # the type of each; None where it is not known


def functions(streams: Streams) -> Iterator[Fault]:
    """Yield a fault for each function that cannot take what it will be given."""
    for op in streams.ops:
        if isinstance(op.kind, Apply):
            yield from _operator_class(op, op.kind, streams.item_type(op))
            continue
        for call in _calls(op, streams):
            yield from _call_faults(op, call)


def _calls(op: Op, streams: Streams) -> Iterator[Call]:
    item = streams.item_type(op)
    match op.kind:
        case Generate(factory=factory):
            yield Call("factory", factory, ())
        case Scan(step=step):
            yield Call("step", step, (_STATE, item))
        case Aggregate(function=function) if function is not None:
            yield Call("function", function, (ListOf(item),))
        case Block(function=function):
            yield Call("function", function, (ListOf(item),))
        case Iterate(until=until) if until is not None:
            yield Call("until", until, (ListOf(op.type),))
        case Join() | Barrier():
            for role, function in op.kind.user_code:
                yield Call(role, function, tuple(streams.types(op)))
        case Iterate():
            return
        case _:
            for role, function in op.kind.user_code:
                yield Call(role, function, (item,))


def _call_faults(op: Op, call: Call) -> Iterator[Fault]:
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
            f"{call.role} must take {_counted(len(call.arguments))}; "
            f"{shown(call.function)} does not: {refused}",
            "change its parameters",
        )
        return
    yield from _parameter_faults(op, call, offset=0)


def _parameter_faults(op: Op, call: Call, offset: int) -> Iterator[Fault]:
    for index, given in enumerate(call.arguments):
        annotation = parameter_type(call.function, index + offset)
        if given is _STATE or annotation is None or _fits(given, annotation):
            continue
        yield fault(
            op,
            f"{call.role} takes {type_name(annotation)}, but is given "
            f"{_described(given)}; see {shown(call.function)}",
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


def _described(given: Any) -> str:
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
    else:
        yield from _parameter_faults(op, Call("process", process, (item,)), offset=1)
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
    """Return why a function cannot be called with so many arguments, or None.

    >>> why_not_called(lambda a: a, 2)
    'too many positional arguments'
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin that does not tell
        return None
    try:
        signature.bind(*(None,) * count, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    return None


def _counted(count: int) -> str:
    if count == 0:
        return "no arguments"
    return "one argument" if count == 1 else f"{count} arguments"
