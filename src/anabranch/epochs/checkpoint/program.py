"""The identity of a checkpoint's program: what its states and positions depend on.

The code inside functions may change between two runs, and stateless operators may come
and go, with tuple types of their own. What must stay: the sources, the sinks, the
stateful operators (their kind, parameters, key and producers), where states are kept,
and the attributes of each tuple type. States name a type by its number, so a checkpoint
keeps the numbers that it has given; those of new types come behind.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from anabranch.connectors import base as connectors
from anabranch.epochs.checkpoint.region_kind import CHAINS, GRAPHS
from anabranch.epochs.layout import EpochLayout, Unit
from anabranch.epochs.transport.pickle import Pickler
from anabranch.errors import CheckpointError
from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SinkKind, SourceKind
from anabranch.graph.types import fields_of
from anabranch.operators.clock import EventTime
from anabranch.operators.sinks import WriteFiles
from anabranch.plan.plan import Plan
from anabranch.runtime.interpreter import kernel_of

# Parameters that concern only the future, or are irrelevant to a file.
_FREE = (
    "default",
    "mode",
    "roll_s",
    "roll_items",
    "roll_bytes",
    "steps",
    "initial",
    "items",
    "dsn",
    "options",
    "patience_s",
    "registry",
    "site",
)
COLUMNS = "columns"
# Properties of an operator that may change; an output is compared with its columns.
_MAY_CHANGE = ("line", COLUMNS)
_SECONDS, _TEXT = "seconds", "text"  # descriptions of values that JSON lacks


def program_of(layout: EpochLayout, *, chains: bool = False) -> dict[str, Any]:
    """Return a checkpoint's description of a program, as plain data.

    Where states are kept depends on whether regions are `chains` of operators, as in
    earlier releases: a job continues with those of its checkpoint.
    """
    kept = [op for op in layout.graph if _role(op) is not None]
    classes = Pickler(layout.graph).classes
    return {
        "regions": CHAINS if chains else GRAPHS,
        "operators": {op.name: _describe_operator(layout.graph, op) for op in kept},
        "states": {
            name: _place(layout.graph, unit, name, number)
            for unit in layout.units
            for number, name in enumerate(stateful_operators(layout, unit.operators))
        },
        "types": [_type_text(one) for one in classes],
        "defaults": {one.__qualname__: _list_defaults(one) for one in classes},
        "durations": True,  # are among the parameters
    }


def _list_defaults(kind: Any) -> list[str]:
    """Return the attributes for which a class has defaults.

    >>> import typing
    >>> _list_defaults(typing.NamedTuple("Trade", [("price", float)]))
    []
    """
    defaults = getattr(kind, "_field_defaults", None)
    names = fields_of(kind) or ()
    if defaults is not None:
        return [name for name in names if name in defaults]
    slots = any("__slots__" in vars(base) for base in kind.__mro__)
    return [name for name in names if not slots and hasattr(kind, name)]


def _place(graph: Graph, unit: Unit, name: str, number: int) -> dict[str, Any]:
    """Return the location of an operator's state.

    Incomplete groups are in the records, and so is a clock kept by ranges.
    """
    place = {"unit": unit.name, "number": number, "region_key": list(unit.key)}
    if unit.replicated and isinstance(graph[name].kind, EventTime):
        place["by_ranges"] = True
    return place if unit.period == 1 else {**place, "period": unit.period}


def stateful_operators(layout: EpochLayout, operators: tuple[str, ...]) -> list[str]:
    """Return the stateful ones of some operators, in graph order."""
    inside = set(operators)
    return [
        op.name
        for op in layout.graph
        if op.name in inside and op.inputs and kernel_of(op).stateful
    ]


def _role(op: Op) -> str | None:
    if isinstance(op.kind, SourceKind):
        return "source"
    if isinstance(op.kind, SinkKind):
        return "sink"
    return "state" if kernel_of(op).stateful else None


def _describe_operator(graph: Graph, op: Op) -> dict[str, Any]:
    return {
        "role": _role(op),
        "kind": op.kind.label,
        "key": list(op.key),
        "type": _type_text(op.type),
        **_describe_columns(graph, op),
        "fed by": [sorted(_origins(graph, out.operator)) for out in op.inputs],
        "parameters": dict(_parameters(op.kind)),
        "timing": None if op.timing is None else dict(_parameters(op.timing)),
        "line": str(op.site),
    }


def _describe_columns(graph: Graph, op: Op) -> dict[str, str | None]:
    """Return the types of a file's columns, for a migration to keep."""
    if not isinstance(op.kind, WriteFiles) or op.kind.format == "jsonl":
        return {}
    return {COLUMNS: _type_text(graph[op.inputs[0].operator].type)}


def _origins(graph: Graph, name: str) -> set[str]:
    """Return the sources and stateful operators that a stream comes from."""
    if _role(graph[name]) is not None:
        return {name}
    inputs = graph[name].inputs
    return set().union(*(_origins(graph, out.operator) for out in inputs))


def _parameters(kind: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(kind):
        value = getattr(kind, field.name)
        if isinstance(value, connectors.Source | connectors.Sink):
            if not type(value).__module__.startswith("anabranch."):  # ours have a label
                yield "class", type(value).__qualname__
            if dataclasses.is_dataclass(value):
                yield from _parameters(value)
        elif field.name == "path" and isinstance(value, str):
            yield field.name, str(Path(value).absolute())
        elif field.name not in _FREE and (plain := _plain(value)) is not None:
            yield field.name, plain


def _plain(value: Any) -> Any:
    """Return a parameter as plain data; None for code and anything else.

    >>> _plain(dt.timedelta(minutes=2)), _plain(Decimal("0.10"))
    ({'seconds': 120.0}, {'text': '0.10'})
    """
    match value:
        case enum.Enum() | bytes() | dt.date() | dt.time() | Decimal() | uuid.UUID():
            return {_TEXT: str(value)}
        case bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [_plain(one) for one in value]
        case type():
            return _type_text(value)
        case dt.timedelta():
            return {_SECONDS: value.total_seconds()}
    return dict(_parameters(value)) if dataclasses.is_dataclass(value) else None


def _type_text(kind: Any) -> str | None:
    """Return a tuple type with its attributes.

    >>> _type_text(int), _type_text(None)
    ('int', None)
    """
    if kind is None:
        return None
    name = getattr(kind, "__qualname__", str(kind))
    fields = fields_of(kind)
    if fields is None:
        return name
    inside = ", ".join(f"{one}: {_type_text(t)}" for one, t in fields.items())
    return f"{name}({inside})"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the differences that make a program incompatible with a checkpoint.

    >>> old = {"operators": {}, "states": {}, "types": ["A(x: int)"]}
    >>> differences(old, old)
    []
    >>> differences(old, old | {"types": ["B(y: int)", "A(x: int)"]})
    []
    >>> differences(old, old | {"types": ["A(x: str)"]})
    ['tuple types: were A(x: int); are A(x: str)']
    """
    found = []
    knew_all = old.get("durations", False)
    was, now = old["operators"], new["operators"]
    for name in [*was, *(name for name in now if name not in was)]:
        one = now.get(name, was.get(name))
        what = f"{one['role'] if one['role'] != 'state' else 'operator'} {name!r}"
        what = f"{what} ({one['kind']}, {one['line']})"
        if name not in now:
            found.append(f"{what} is gone")
        elif name not in was:
            found.append(f"{what} is new")
        else:
            found += [
                f"{what}: {field} was {_format_value(was[name][field])}; "
                f"is {_format_value(now[name][field])}"
                for field in was[name]
                if field not in _MAY_CHANGE
                and not _is_same(
                    _without_sites(was[name][field]),
                    now[name].get(field),
                    knew_all=knew_all,
                )
            ]
    if found:
        return found
    found = [
        f"operator {name!r}: its state was kept in {_format_value(place)}; "
        f"is kept in {_format_value(new['states'].get(name))}"
        for name, place in old["states"].items()
        if place != new["states"].get(name)
    ]
    found += _compare_types(old["types"], new["types"])
    found += [
        f"tuple type {name!r}: attribute {attribute!r} was added, so it must have a "
        f"default in the class, which must have no slots"
        for name, attributes in old.get("added", {}).items()
        for attribute in attributes
        if attribute not in new["defaults"].get(name, ())
    ]
    return found


def _compare_types(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """Return why the types of a program cannot have the numbers of a checkpoint's.

    A type that is gone does no harm: an item of it in a state stops the job.
    """
    if list(old) == list(new):
        return []
    names = {text.partition("(")[0] for text in new}
    changed = [
        text for text in old if text not in new and text.partition("(")[0] in names
    ]
    several = len({*old}) < len(old) or len({*new}) < len(new)
    if not changed and not several:
        return []
    return [f"tuple types: were {', '.join(old)}; are {', '.join(new)}"]


def number_types(old: Sequence[str], new: Sequence[str]) -> tuple[list[int], list[str]]:
    """Return the numbers of a program's types in a checkpoint, and all of its types.

    >>> number_types(["A(x: int)", "B(y: int)"], ["C(z: int)", "B(y: int)"])
    ([2, 1], ['A(x: int)', 'B(y: int)', 'C(z: int)'])
    """
    if list(old) == list(new):  # even if some are alike
        return [*range(len(new))], [*new]
    types = [*old, *(text for text in new if text not in old)]
    return [types.index(text) for text in new], types


def suggest_additions(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the additions that would migrate a checkpoint to a program.

    >>> old, new = {"types": ["A(x: int)"]}, {"types": ["A(x: int, y: str, z: int)"]}
    >>> suggest_additions(old, new)
    ['A.y=str', 'A.z=int']
    """
    found = []
    now = {text.partition("(")[0]: text for text in new["types"]}
    for was in old["types"]:
        name, opened, inside = was.partition("(")
        before, after = inside[:-1], now.get(name, "")[len(name) + 1 : -1]
        if opened and after.startswith(f"{before}, "):
            added = _split_attributes(after[len(before) + 2 :])
            found += [f"{name}.{one.replace(': ', '=', 1)}" for one in added]
    return found


def _split_attributes(text: str) -> list[str]:
    """Return the attributes in a type's description.

    >>> _split_attributes("a: int, b: B(x: int, y: int)")
    ['a: int', 'b: B(x: int, y: int)']
    """
    found = [""]
    depth = 0
    for letter in text:
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found]


def _is_same(was: Any, now: Any, *, knew_all: bool = True) -> bool:
    """Tell whether two descriptions mean the same.

    An option unknown to an earlier release changes nothing if it is off or empty.
    Without `knew_all`, durations and the like were left out.

    >>> _is_same({"count": 3}, {"count": 3, "clocked": False, "default": []})
    True
    >>> _is_same({"count": 3}, {"count": 3, "clocked": True})
    False
    >>> _is_same({"gap": {"seconds": 9.0}}, {"gap": {"seconds": 8.0}})
    False
    >>> _is_same({}, {"gap": {"seconds": 8.0}}, knew_all=False)
    True
    """
    if was is None and not knew_all and _was_left_out(now):
        return True
    if isinstance(was, dict) and isinstance(now, dict):
        new = [now[name] for name in now if name not in was]
        return all(
            one is False or one == [] or (not knew_all and _was_left_out(one))
            for one in new
        ) and all(
            name in now and _is_same(one, now[name], knew_all=knew_all)
            for name, one in was.items()
        )
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(
            _is_same(*pair, knew_all=knew_all) for pair in zip(was, now, strict=True)
        )
    return bool(was == now)


def _was_left_out(value: Any) -> bool:
    """Tell whether earlier releases left a parameter out of the description."""
    return isinstance(value, dict) and value.keys() in ({_SECONDS}, {_TEXT})


def _without_sites(value: Any) -> Any:
    """Return a description without code lines, which formats 2 and 3 had in places.

    >>> _without_sites({"ops": [{"name": "map", "site": {"line": 7}}]})
    {'ops': [{'name': 'map'}]}
    """
    if isinstance(value, dict):
        return {k: _without_sites(one) for k, one in value.items() if k != "site"}
    if isinstance(value, list):
        return [_without_sites(one) for one in value]
    return value


def _format_value(value: Any) -> str:
    if isinstance(value, dict) and value.keys() == {_SECONDS}:
        return f"{value[_SECONDS]:g} s"
    if isinstance(value, dict):
        return ", ".join(f"{name}={_format_value(one)}" for name, one in value.items())
    if isinstance(value, list):
        return f"({', '.join(map(_format_value, value))})"
    return "unknown" if value is None else str(value)


def refuse_hidden_state(layout: EpochLayout, plan: Plan) -> None:
    """Refuse operators whose state no checkpoint can find."""
    planned = {op.name: op for op in plan.operators}
    faults = []
    for unit in layout.units:
        for name in unit.operators if unit.in_driver else ():
            if not planned[name].effects:
                continue
            why = next((r for r in planned[name].reasons if r.trait == "state"), None)
            told = "" if why is None else f": {why.text} ({why.file}:{why.line})"
            faults.append(f"  operator {name!r} ({layout.graph[name].site}){told}")
    if faults:
        lines = "\n".join(faults)
        msg = (
            f"with a checkpoint, what an operator remembers must be in its state; "
            f"these may remember or do something elsewhere:\n{lines}\n"
            f"keep it in a scan or an Operator; or, if nothing of it matters, say so "
            f'with @ab.declare(state="stateless"); or run without a checkpoint'
        )
        raise CheckpointError(msg)
