"""How many outputs the code of an operator gives, and which attributes they keep."""

from __future__ import annotations

from types import FunctionType
from typing import Any, NamedTuple

from anabranch.analysis.callables import Written, written
from anabranch.analysis.forwards import (
    NOTHING,
    Forwards,
    Outputs,
)
from anabranch.analysis.objects import field_names
from anabranch.analysis.rates import Helpers, count_outputs
from anabranch.analysis.records import is_plain_record
from anabranch.analysis.scopes import own_names
from anabranch.analysis.source import FunctionNode, file_of, node_of
from anabranch.analysis.traits import Evidence, Push, Trait
from anabranch.graph.blocks import Block
from anabranch.graph.custom import Apply, Scan
from anabranch.graph.graph import Op
from anabranch.graph.joins import Join
from anabranch.graph.kinds import FlatMap, Map
from anabranch.graph.windows import Aggregate

_COPIES = ("any", "first", "last", "min", "max")


class Rated(NamedTuple):
    """The push range of an operator and why."""

    push: Push
    evidence: Evidence


class Forwarded(NamedTuple):
    """The forwarded attributes of an operator and why."""

    attributes: Forwards
    evidence: Evidence


def push_of(op: Op) -> Rated | None:
    """Return what the user's code says about the push range; None if it says nothing."""
    match op.kind:
        case FlatMap(function=function):
            return _counted(op, function, "flat_map")
        case Apply(operator=cls) if not op.kind.overrides("punctuation"):
            return _counted(op, cls.process, f"{cls.__name__}.process")
    return None  # at a punctuation an operator may give more than for an item


def _counted(op: Op, function: Any, name: str) -> Rated:
    source = written(function)
    if source is None:
        text = f"the source of {name} is not at hand, so it may give any number"
        return Rated(Push(0, None), _evidence(op, None, "rate", text))
    push, line = count_outputs(source.node, _helpers_of(source.function))
    most = "any number of" if push.most is None else str(push.most)
    least = f"{push.least} to " if push.least != push.most else ""
    text = f"gives {least}{most} outputs for an item"
    if push.most is None and not push.least:
        text = "gives any number of outputs for an item"
    return Rated(push, Evidence("rate", text, source.file, line))


def _helpers_of(function: Any) -> Helpers:
    """Return how the functions are found that a function calls by a global name."""

    def find(name: str) -> FunctionNode | None:
        helper = function.__globals__.get(name)
        node = node_of(function.__code__)
        hidden = node is None or name in own_names(node)
        if hidden or name in function.__code__.co_freevars:
            return None
        if type(helper) is not FunctionType or helper.__globals__ is not (
            function.__globals__
        ):
            return None
        parsed = file_of(function.__code__.co_filename)
        if parsed is None or parsed.bindings(name) != 1 or vars(helper):
            return None
        return node_of(helper.__code__)

    return find


def forwards_of(  # noqa: PLR0911 - one return for each kind of operator
    op: Op, item_type: Any
) -> Forwarded | None:
    """Return what the user's code forwards; None if the kind alone says it."""
    match op.kind:
        case Map(function=function):
            return _read_off(op, function, ("item",), item_type, Outputs.of_result)
        case FlatMap(function=function):
            return _read_off(op, function, ("item",), item_type, Outputs.of_elements)
        case Scan(step=step):
            return _read_off(op, step, ("", "item"), item_type, Outputs.of_pair)
        case Apply(operator=cls):
            return _of_apply(op, cls, item_type)
        case Aggregate():
            return _of_aggregate(op, op.kind, item_type)
        case Join(into=into):
            found = _read_off(op, into, ("item", "item"), None, Outputs.of_result)
            return _restricted(found, op.state_key)
        case Block(function=function, peek=peek):
            found = _read_off(op, function, ("items",), item_type, Outputs.of_elements)
            return found if peek == 1 else _restricted(found, op.state_key)
    return None


def _of_apply(op: Op, cls: Any, item_type: Any) -> Forwarded:
    for method in ("punctuation", "finish"):
        if op.kind.overrides(method):  # type: ignore[attr-defined]
            text = f"no item stands behind what {cls.__name__}.{method}() gives"
            source = written(getattr(cls, method))
            return Forwarded(NOTHING, _evidence(op, source, "forwards", text))
    return _read_off(op, cls.process, ("", "item"), item_type, Outputs.of_elements)


def _of_aggregate(op: Op, kind: Aggregate, item_type: Any) -> Forwarded:
    key = op.state_key
    if kind.function is not None:
        found = _read_off(op, kind.function, ("items",), item_type, Outputs.of_result)
        return _restricted(found, key)
    kept = frozenset(
        name
        for name, column in kind.columns
        if name == column.attribute and name in key and column.function in _COPIES
    )
    if kind.into is not None and not (
        field_names(kind.into) is not None and is_plain_record(kind.into)
    ):
        kept = NOTHING
    return Forwarded(kept, _evidence(op, None, "forwards", _phrase(kept)))


def _restricted(found: Forwarded, key: tuple[str, ...]) -> Forwarded:
    """Keep of what comes from any item of a window what is the same in all of them."""
    kept = frozenset(key) if found.attributes is None else found.attributes & set(key)
    return Forwarded(kept, found.evidence._replace(text=_phrase(kept)))


def _read_off(
    op: Op, function: Any, roles: tuple[str, ...], item_type: Any, read: Any
) -> Forwarded:
    source = None if function is None else written(function)
    if source is None:
        text = "the source is not at hand, so no attribute counts as forwarded"
        return Forwarded(NOTHING, _evidence(op, None, "forwards", text))
    inputs = {
        name: role for name, role in zip(source.parameters, roles, strict=False) if role
    }
    outputs = Outputs(source.node, source.function, inputs, item_type)
    found: Forwards = read(outputs)
    return Forwarded(found, _evidence(op, source, "forwards", _phrase(found)))


def _phrase(found: Forwards) -> str:
    if found is None:
        return "gives the item itself, with all its attributes"
    if not found:
        return "copies no attribute unchanged under its own name"
    return f"copies {', '.join(sorted(found))} unchanged"


def _evidence(op: Op, source: Written | None, trait: Trait, text: str) -> Evidence:
    if source is None:
        return Evidence(trait, text, op.site.file, op.site.line)
    return Evidence(trait, text, source.file, source.node.lineno)
