"""Whether the code of an operator keeps state beyond what its kind gives it.

What the syntax of a function or class refutes.

Nobody may be advised to declare what the code plainly contradicts. This only looks for
contradictions: what is not found here may still be false.

The findings about all operators are looked at together, since one operator may read
what another one changes.
"""

from __future__ import annotations

import ast
import collections
import functools
import types
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, Literal, NamedTuple, TypeAlias

from anabranch.operators.custom import Apply, Scan
from anabranch.python.classes import items_of
from anabranch.python.expressions import TRUTH
from anabranch.python.flow import departing
from anabranch.python.interpret import Interpreter, called, outermost
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    contents,
    field_names,
    holds_set,
    is_scalar,
    is_users_class,
)
from anabranch.python.sharing import find_sharing
from anabranch.python.source import (
    FunctionNode,
    node_of,
    originals,
    parameter_names,
    shown_path,
)
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    NOTHING,
    Arguments,
    Change,
    Effect,
    Findings,
    Frame,
    Fresh,
    Input,
    Known,
    Place,
    Plain,
    Read,
    Root,
    Value,
    scope_id,
)
from anabranch.python.writers import Writers

_FIRST = ("__init__", "setup")
_COMPUTED = (
    ast.BinOp,
    ast.BoolOp,
    ast.Compare,
    ast.Constant,
    ast.JoinedStr,
    ast.UnaryOp,
)


def find_own_write(cls: type) -> Place | None:
    """Return where a method assigns an attribute of its own instance, or None.

    What `__init__` and `setup` assign does not count: it may never change again.

    >>> class Same:
    ...     def process(self, item):
    ...         yield item
    >>> find_own_write(Same) is None
    True
    """
    for each in cls.__mro__[:-1]:
        for name, function in vars(each).items():
            if not isinstance(function, FunctionType) or name in _FIRST:
                continue
            node = node_of(function.__code__)
            line = None if node is None else _line_of_write(node)
            if line is not None:
                return Place(shown_path(function.__code__.co_filename), line)
    return None


def _line_of_write(node: FunctionNode) -> int | None:
    parameters = parameter_names(node.args)
    lines = [
        inner.lineno
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute | ast.Subscript)
        and isinstance(inner.ctx, ast.Store | ast.Del)
        and parameters
        and _is_own(inner, parameters[0])
    ]
    return min(lines, default=None)


def _is_own(target: ast.expr, instance: str) -> bool:
    """Tell whether a target is an attribute of the instance, or an element of one."""
    while isinstance(target, ast.Attribute | ast.Subscript):
        held, target = target, target.value
        if isinstance(held, ast.Attribute) and isinstance(target, ast.Name):
            return target.id == instance
    return False


def replaces(function: Any, name: str) -> bool:
    """Tell whether a function gives its output another value under an attribute.

    A name or a call may stand for the value itself, so they do not count. Of an
    `Operator` it is `process` that counts.
    """
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "process", function)
    code = getattr(function, "__code__", None)
    node = None if code is None else node_of(code)
    if node is None:
        return False
    calls = (inner for inner in ast.walk(node) if isinstance(inner, ast.Call))
    values = (value for call in calls for value in _given(call, function, name))
    return any(_is_other(value, name) for value in values)


def _given(call: ast.Call, function: Any, name: str) -> Iterator[ast.expr]:
    """Yield what a call passes under a name, by keyword or by position."""
    yield from (each.value for each in call.keywords if each.arg == name)
    made = None
    if isinstance(call.func, ast.Name):
        made = function.__globals__.get(call.func.id)
    fields = field_names(made) if isinstance(made, type) else None
    if not fields or any(isinstance(each, ast.Starred) for each in call.args):
        return
    for field, value in zip(fields, call.args, strict=False):
        if field == name:
            yield value


def _is_other(value: ast.expr, name: str) -> bool:
    if isinstance(value, ast.Attribute):
        return value.attr != name and isinstance(value.value, ast.Name)
    return isinstance(value, _COMPUTED)


Use: TypeAlias = Literal["value", "truth", "each", "several"]
_COPIED = (list, dict, set, tuple, frozenset, collections.deque)


class Code(NamedTuple):
    """A callable of the user's, and the annotations of what it is called with."""

    function: Any
    types: tuple[Any, ...]
    by_name: bool = False  # called with keywords that we do not list
    use: Use = "value"


def findings_of_function(universe: Universe, code: Code) -> Findings:
    """Return what a function does that is called with input items.

    What the engines do with its result counts as well: they ask whether it is true, or
    go through it.
    """
    items: list[Value] = [items_of(each, universe) for each in code.types]
    rest: Value = frozenset([Input(object)]) if code.by_name else NOTHING
    interpreter, result = called(universe, code.function, Arguments(items, rest=rest))
    given = _used(interpreter, code.function, result, code.use)
    interpreter.found.gives = departing(interpreter, given)
    return interpreter.found


def _used(interpreter: Interpreter, function: Any, result: Value, use: Use) -> Value:
    """Return what an operator gives of a result, running what that runs."""
    frame = outermost(function)
    if use == "truth":
        interpreter.run_specials(result, TRUTH, frame.node, frame)
    if use in ("value", "truth"):
        return result
    if use == "each":
        return interpreter.iterate(result, frame.node, frame)
    # a number, or several
    several = frozenset(root for root in result if not isinstance(root, Plain))
    return result | interpreter.iterate(several, frame.node, frame)


def findings_of_scan(universe: Universe, kind: Scan, item: Any) -> Findings:
    """Return what `step` does; the state it is given is its own to change.

    Whatever it returns as the next state is the state of a later call.
    """
    interpreter = Interpreter(universe)
    frame = outermost(kind.step)
    step = interpreter.existing(kind.step, "step", frame.node, frame)
    state = _state_object(interpreter, kind.initial)
    while True:
        args = Arguments([state, items_of(item, universe)])
        given = interpreter.call(step, args, frame.node, frame)
        interpreter.run_unpacking(given, frame.node, frame)
        later = state | _parts_at(interpreter, given, 0)
        if later == state:
            outputs = _parts_at(interpreter, given, 1)
            interpreter.found.gives = departing(interpreter, outputs)
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


def _parts_at(interpreter: Interpreter, pair: Value, index: int) -> Value:
    """Return what stands first, or second, in a pair."""
    found: set[Any] = set()
    for root in pair:
        match root:
            case Fresh(site, kind) if kind is tuple:
                found |= interpreter.heap.get(site, f"[{index}]")
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
    version, outputs = -1, NOTHING
    while version != interpreter.heap.version:
        version = interpreter.heap.version
        for name in ("setup", "process", "punctuation", "on_time", "finish"):
            given = [items_of(item, universe)] if name == "process" else []
            given = [NOTHING] if name == "on_time" else given
            method = interpreter.attribute(instance, name, node, frame)
            result = interpreter.call(method, Arguments(given), node, frame)
            if name != "setup":
                outputs |= interpreter.iterate(result, node, frame)
    interpreter.found.gives = departing(interpreter, outputs)
    ends = kind.overrides("punctuation") or kind.overrides("finish")
    if not ends and not interpreter.found.effects:
        interpreter.found.keeps_nothing = _keeps_nothing(
            interpreter, instance, items_of(item, universe), frame
        )
    return interpreter.found


def _keeps_nothing(
    interpreter: Interpreter, instance: Value, item: Value, frame: Frame
) -> bool:
    """Tell whether `process` leaves the instance, and all that it holds, as it was.

    What has been learnt by now is what the attributes may be. The calls are followed
    once more, and must change nothing that can be reached from the instance. Only what
    cannot change in another way may lie there: a function may have variables of its own,
    and an iterator is used up without being changed.
    """
    held = interpreter.reachable(instance)
    made = [root for root in held if isinstance(root, Fresh)]
    if not all(isinstance(r, Plain | Known) or _is_plain_object(r) for r in held):
        return False
    interpreter.forget_calls()
    interpreter.changed_sites.clear()
    process = interpreter.attribute(instance, "process", frame.node, frame)
    result = interpreter.call(process, Arguments([item]), frame.node, frame)
    interpreter.iterate(result, frame.node, frame)
    return interpreter.changed_sites.isdisjoint(root.site for root in made)


def _is_plain_object(root: Root) -> bool:
    """Tell whether an object that was made here changes only by being written to."""
    kind = root.type if isinstance(root, Fresh) else None
    if not isinstance(kind, type):
        return False
    if not is_users_class(kind):
        return kind in CONTAINERS
    entries = (raw for base in kind.__mro__ for raw in vars(base).values())
    return not any(isinstance(raw, functools.cached_property) for raw in entries)


class Verdicts:
    """The findings about all operators of a program, weighed together."""

    def __init__(
        self, universe: Universe, findings: Mapping[str, list[Findings]]
    ) -> None:
        self.findings = findings
        everything = [f for each in findings.values() for f in each]
        self.changed: dict[int, Change] = {}
        self.rebound: dict[tuple[str, int], Place] = {}
        visited: set[FunctionNode] = set()
        believed: set[FunctionNode] = set()
        for found in everything:
            self.changed.update(found.changes)
            self.rebound.update(found.rebinds)
            visited |= found.visited | originals(found.visited)
            believed |= found.believed
        self.writers = Writers(universe.modules, visited, believed)
        self._anybody = any(found.runs_anything for found in everything)
        self._reads: dict[Any, Effect | None] = {}
        self.sharing = find_sharing(findings, self)

    def why_not_pure(self, operator: str) -> Effect | None:
        """Return what makes the code of an operator unsafe to run in parallel."""
        for found in self.findings.get(operator, ()):
            if found.connector:
                continue
            if found.effects:
                return min(found.effects, key=_rank)
            for target, read in found.touched.items():
                if target in self.changed and not is_scalar(read.target):
                    change = self.changed[target]
                    where = f"which {change.file}:{change.line} changes"
                    return _unsafe(read, where, proved=True)
            for key, read in found.reads.items():
                effect = self._why_unsafe(key, read)
                if effect is not None:
                    return effect
        for shared in self.sharing:
            if shared.reader == operator:
                return Effect("unknown", shared.text, shared.file, shared.line)
        return None

    def may_read(self, written: Findings) -> bool:
        """Tell whether a function that was not analysed may read what is changed."""
        return self.writers.mentions(written) is not None

    def may_change(self, read: Read) -> bool:
        """Tell whether some function of the program may change what is read."""
        if id(read.target) in self.changed and not is_scalar(read.target):
            return True
        return self._weigh(read, anybody=True) is not None

    def _why_unsafe(self, key: Any, read: Read) -> Effect | None:
        if key not in self._reads:
            self._reads[key] = self._weigh(read, anybody=self._anybody)
        return self._reads[key]

    def _weigh(self, read: Read, *, anybody: bool) -> Effect | None:
        """Return why it is not safe to read something; `anybody` may run, or not."""
        place = self.rebound.get((read.name, scope_id(read.scope)))
        if place is not None:
            where = f"which {place.file}:{place.line} assigns"
            return _unsafe(read, where, proved=self._is_assigned(read.name, place))
        place = self.writers.who_rebinds(read.name, read.scope, anybody=anybody)
        if place is not None:
            return _unsafe(read, f"which {place.file}:{place.line} assigns")
        if is_scalar(read.target) or isinstance(
            read.target, (*CALLABLES, types.ModuleType)
        ):
            return None
        place = self.writers.who_may_change(
            read.name, read.scope, read.target, anybody=anybody
        )
        if place is not None:
            return _unsafe(read, f"which {place.file}:{place.line} may change")
        return None

    def _is_assigned(self, name: str, place: Place) -> bool:
        """Tell whether the code of an operator assigns a name of that file."""
        return any(
            effect.kind == "changes"
            and effect.file == place.file
            and effect.text == f"assigns the {effect.variable}"
            and effect.variable is not None
            and effect.variable.name == name
            for each in self.findings.values()
            for found in each
            for effect in found.effects
        )


def _unsafe(read: Read, why: str, *, proved: bool = False) -> Effect:
    text = f"reads {read.name}, {why}"
    return Effect("shared" if proved else "unknown", text, read.file, read.line)


def _rank(effect: Effect) -> tuple[int, int, bool, str]:
    """Put first what explains most: a change, early in the code, of a known object."""
    kinds = ("changes", "impure", "shared", "unknown")
    vague = "something that" in effect.text or "what lies in" in effect.text
    return (kinds.index(effect.kind), effect.line, vague, effect.text)
