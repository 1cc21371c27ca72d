"""Whether the code of an operator keeps state beyond what its kind gives it.

The findings about all operators are looked at together, since one operator may read
what another one changes.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Mapping
from typing import Any, NamedTuple

from anabranch.analysis.classes import typed
from anabranch.analysis.effects import Change, Effect, Findings, Read
from anabranch.analysis.interpret import Interpreter, follow, outermost
from anabranch.analysis.objects import (
    CALLABLES,
    MISSING,
    class_attribute,
    contents,
    holds_set,
    is_scalar,
    is_users_class,
)
from anabranch.analysis.source import FunctionNode, originals
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    ELEMENTS,
    NOTHING,
    Arguments,
    Fresh,
    Input,
    Plain,
    Value,
)
from anabranch.analysis.writers import Writers
from anabranch.graph.custom import Apply, Scan

_COPIED = (list, dict, set, tuple, frozenset, collections.deque)


class Code(NamedTuple):
    """A callable of the user's, and the annotations of what it is called with."""

    function: Any
    types: tuple[Any, ...]
    by_name: bool = False  # called with keywords that we do not list


def findings_of_function(universe: Universe, code: Code) -> Findings:
    """Return what a function does that is called with input items."""
    items: list[Value] = [frozenset([typed(each)]) for each in code.types]
    rest: Value = frozenset([Input()]) if code.by_name else NOTHING
    return follow(universe, code.function, Arguments(items, rest=rest))[0]


def findings_of_scan(universe: Universe, kind: Scan, item: Any) -> Findings:
    """Return what `step` does; the state it is given is its own to change.

    Whatever it returns as the next state is the state of a later call.
    """
    interpreter = Interpreter(universe)
    frame = outermost(kind.step)
    step = interpreter.existing(kind.step, "step", frame.node, frame)
    state = _state_object(interpreter, kind.initial)
    while True:
        args = Arguments([state, frozenset([typed(item)])])
        given = interpreter.call(step, args, frame.node, frame)
        later = state | _first_parts(interpreter, given)
        if later == state:
            return interpreter.found
        state = later


def _state_object(interpreter: Interpreter, initial: Any) -> Value:
    """Return the value of the initial state: a deep copy, one for each key."""
    frame = outermost(type(initial))
    if class_attribute(type(initial), "__deepcopy__") is not MISSING and (
        is_users_class(type(initial))
    ):
        return interpreter.unknown("initial copies itself", frame.node, frame)
    return _copy_of(interpreter, initial, ("initial state",))


def _copy_of(interpreter: Interpreter, obj: Any, place: tuple[Any, ...]) -> Value:
    """Return a copy of an object with the parts that can be told apart."""
    if is_scalar(obj) and not holds_set(obj):
        return frozenset([Plain(type(obj))])
    if isinstance(obj, (*CALLABLES, types.ModuleType)):  # these are never copied
        frame = outermost(obj)
        return interpreter.existing(obj, "a part of initial", frame.node, frame)
    made = Fresh(interpreter.heap.site(place), type(obj))
    held = contents(obj) if type(obj) in _COPIED else None
    if held is None:
        interpreter.heap.put(made.site, ELEMENTS, frozenset([Fresh(made.site)]))
        return frozenset([made])
    for index, each in enumerate(held):
        part = _copy_of(interpreter, each, (*place, index))
        where = f"[{index}]" if type(obj) is tuple else ELEMENTS
        interpreter.heap.put(made.site, where, part)
    return frozenset([made])


def _first_parts(interpreter: Interpreter, pair: Value) -> Value:
    found: set[Any] = set()
    for root in pair:
        match root:
            case Fresh(site, kind) if kind is tuple:
                found |= interpreter.heap.get(site, "[0]")
                found |= interpreter.heap.get(site, ELEMENTS)
            case _:
                found |= interpreter.inside(frozenset([root]))
    return frozenset(found)


def findings_of_operator(universe: Universe, kind: Apply, item: Any) -> Findings:
    """Return what the methods of an `Operator` do; its attributes are its own."""
    interpreter = Interpreter(universe)
    frame = outermost(kind.operator)
    node = frame.node
    text = f"an argument of {kind.operator.__name__}"
    args = Arguments(
        [interpreter.existing(each, text, node, frame) for each in kind.arguments],
        {n: interpreter.existing(v, text, node, frame) for n, v in kind.keywords},
    )
    cls = interpreter.existing(kind.operator, kind.operator.__name__, node, frame)
    instance = interpreter.call(cls, args, node, frame)
    version = -1
    while version != interpreter.heap.version:
        version = interpreter.heap.version
        for name in ("setup", "process", "punctuation", "finish"):
            given = [frozenset([typed(item)])] if name == "process" else []
            method = interpreter.attribute(instance, name, node, frame)
            interpreter.call(method, Arguments(given), node, frame)
    return interpreter.found


class Verdicts:
    """The findings about all operators of a program, weighed together."""

    def __init__(
        self, universe: Universe, findings: Mapping[str, list[Findings]]
    ) -> None:
        self.writers = Writers(universe.modules)
        self.findings = findings
        everything = [f for each in findings.values() for f in each]
        self.changed: dict[int, Change] = {}
        self.visited: set[FunctionNode] = set()
        for found in everything:
            self.changed.update(found.changes)
            self.visited |= found.visited | originals(found.visited)
        self._reads: dict[Any, Effect | None] = {}

    def why_not_pure(self, operator: str) -> Effect | None:
        """Return what makes the code of an operator unsafe to run in parallel."""
        for found in self.findings.get(operator, ()):
            if found.effects:
                return min(found.effects, key=_rank)
            for target, read in found.touched.items():
                if target in self.changed and not is_scalar(read.target):
                    change = self.changed[target]
                    where = f"which {change.file}:{change.line} changes"
                    return _unsafe(read, where)
            for key, read in found.reads.items():
                effect = self._why_unsafe(key, read)
                if effect is not None:
                    return effect
        return None

    def _why_unsafe(self, key: Any, read: Read) -> Effect | None:
        if key not in self._reads:
            self._reads[key] = self._weigh(read)
        return self._reads[key]

    def _weigh(self, read: Read) -> Effect | None:
        place = self.writers.who_rebinds(read.name, read.scope)
        if place is not None:
            where = f"which {place.file}:{place.line} assigns"
            return _unsafe(read, where)
        if is_scalar(read.target) or isinstance(
            read.target, (*CALLABLES, types.ModuleType)
        ):
            return None
        place = self.writers.who_may_change(
            read.name, read.scope, read.target, self.visited
        )
        if place is not None:
            return _unsafe(read, f"which {place.file}:{place.line} may change")
        return None


def _unsafe(read: Read, why: str) -> Effect:
    text = f"reads {read.name}, {why}"
    return Effect("unknown", text, read.file, read.line)


def _rank(effect: Effect) -> tuple[int, int, bool, str]:
    """Put first what explains most: a change, early in the code, of a known object."""
    kinds = ("changes", "impure", "unknown")
    vague = "something that" in effect.text or "what lies in" in effect.text
    return (kinds.index(effect.kind), effect.line, vague, effect.text)
