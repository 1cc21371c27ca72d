"""Of which types the objects are that reach and leave each operator.

Of which types the items are on each stream of a program.

Sources are looked at, operators give what their functions were found to give. Where the
order of a set matters to an operator, those who hand the set on are told so.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Mapping
from typing import Any

from anabranch.graph.graph import Graph, Op
from anabranch.graph.kind import SourceKind
from anabranch.graph.types import fields_of
from anabranch.operators.blocks import Block, Collect, Deal
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.lookup import Lookup
from anabranch.operators.sources import Generate, Offered
from anabranch.operators.stateless import (
    Filter,
    FlatMap,
    Map,
    Merge,
    Punctuate,
    Split,
    Union,
)
from anabranch.operators.windows import Aggregate
from anabranch.python.arrivals import (
    ANYTHING,
    NOBODY,
    SOMETHING,
    Arrival,
    arrival_of,
    look_into,
)
from anabranch.python.classes import classes_of
from anabranch.python.interpret import Interpreter
from anabranch.python.objects import CALLABLES, is_scalar_type
from anabranch.python.values import (
    Bound,
    Closure,
    Findings,
    Fresh,
    Input,
    Known,
    Method,
    Place,
    Plain,
    Root,
    Scalar,
    Shared,
    Value,
)

_FUNCTIONS = (Bound, Method, Closure)


def departing(interpreter: Interpreter, value: Value) -> Arrival:
    """Return the types of a value that an operator gives, and of what it holds."""
    found = NOBODY
    local = {made for made, _ in interpreter.local_classes.values()}
    for root in interpreter.operands(value):
        found |= _seen(interpreter, root)
        if isinstance(root, Fresh) and (root.type is None or root.type in local):
            for made in local:  # whoever gets it may run its methods
                interpreter.program.add_class(made)
    top = [_seen(interpreter, root).top for root in value]
    return found._replace(top=frozenset().union(*top))


def _seen(  # noqa: C901, PLR0911 - one case for each kind
    interpreter: Interpreter, root: Root
) -> Arrival:
    universe = interpreter.universe
    match root:
        case Plain(kind):
            return arrival_of([Scalar if kind is None else kind])
        case Fresh(site) if site in interpreter.opaque_sites:
            return SOMETHING
        case Fresh(_, type() as kind):
            return arrival_of([kind])
        case Fresh():
            return SOMETHING
        case Input(None):  # an item, or any part of one
            return universe.arriving._replace(top=universe.arriving.types)
        case Input() | Shared():
            classes = classes_of(root, universe)
            unknown = universe.arriving if isinstance(root, Input) else ANYTHING
            if classes is None:
                return SOMETHING._replace(sets=unknown.sets)
            return arrival_of(classes)
        case Known(obj=obj) if isinstance(obj, (*CALLABLES, types.ModuleType)):
            return NOBODY
        case Known(obj=obj):
            return look_into([obj])
    if isinstance(root, _FUNCTIONS) or not interpreter.found.effects:
        return NOBODY  # nothing was lost: such a call fails
    return ANYTHING


def annotated_arrival(kind: Any) -> Arrival:
    """Return the types of items that are made by their annotation, as rows of a file are.

    >>> annotated_arrival(int).complete, annotated_arrival(None).complete
    (True, False)
    """
    if is_scalar_type(kind):
        return arrival_of([kind])
    fields = fields_of(kind)
    if fields is None:
        return ANYTHING
    known = all(map(is_scalar_type, fields.values()))
    if not known:
        return SOMETHING._replace(top=frozenset([kind]))
    made = arrival_of([*fields.values(), type(None)])
    return Arrival(frozenset([kind]), made.types | {kind}, complete=True, sets=False)


_LOOKED_INTO = (list, tuple, set, frozenset, dict, str, bytes, collections.deque)


def arriving_at(op: Op, given: Mapping[str, Arrival]) -> Arrival:
    """Return of which types the items are that reach an operator."""
    found = NOBODY
    for each in op.inputs:
        found |= given.get(each.operator, ANYTHING)
    return found


def offered_by(kind: SourceKind, item: Any) -> Arrival:
    """Return of which types the items of a source are.

    Only the containers of Python's own are looked into; of other iterables, which may
    run code, nothing is known.
    """
    items: Any = getattr(kind, "items", None)
    if isinstance(kind, Offered) and items is None:
        return arrival_of([int])
    if type(items) is range:
        return arrival_of([int])
    if type(items) in _LOOKED_INTO:
        return look_into([*items]) if len(items) else SOMETHING
    return SOMETHING if item is None else annotated_arrival(item)


def departing_from(op: Op, arrival: Arrival, found: list[Findings]) -> Arrival:
    """Return of which types the items are that an operator gives."""
    kind = op.kind
    if isinstance(kind, Map | FlatMap | Scan | Apply | Block | Generate) or (
        isinstance(kind, Aggregate) and kind.function is not None
    ):
        given = NOBODY
        for each in found:
            given |= each.gives
        if given != NOBODY and (given.complete or not given.sets):
            return given
        return annotated_arrival(op.type)._replace(sets=given.sets and op.type is None)
    if isinstance(kind, Filter | Punctuate | Split | Union | Merge | Deal | Collect):
        return arrival
    if isinstance(kind, SourceKind):
        return arrival
    given = SOMETHING._replace(sets=arrival.sets)
    if isinstance(kind, Lookup):
        given |= look_into([*kind.table.values(), *kind.default])
    for each in found:
        given |= each.gives
    return given


def blame_givers(
    graph: Graph, found: dict[str, list[Findings]], given: Mapping[str, Arrival]
) -> None:
    """Keep a set in one process from where it is made to where its order matters."""
    for op in reversed(graph.ops):
        if not any(each.orders_items for each in found[op.name]):
            continue
        for name in {each.operator for each in op.inputs if each.operator in graph}:
            if given[name].sets:
                effect = Findings(orders_items=True)
                text = f"gives a set, and {op.name} depends on its order"
                site = graph[name].site
                effect.effect("impure", text, Place(site.file, site.line))
                found[name].append(effect)
