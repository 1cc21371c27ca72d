"""How many outputs a function gives for one item, and which attributes they keep.

How many outputs a function gives for one item: yields counted along every path.

An exception ends the item without any output, so a path that raises does not count;
but what was given before it counts for the handler that goes on.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from anabranch.graph.graph import Op
from anabranch.operators.blocks import Block
from anabranch.operators.custom import Apply, Scan
from anabranch.operators.join import Join
from anabranch.operators.lookup import Lookup
from anabranch.operators.stateless import FlatMap, Map
from anabranch.operators.windows import Aggregate
from anabranch.python.classes import stored_fields
from anabranch.python.forwards import NOTHING, Forwards, Outputs
from anabranch.python.source import (
    FunctionNode,
    Written,
    file_of,
    is_generator,
    node_of,
    nodes_of_scope,
    own_names,
    written,
)
from anabranch.python.traits import Evidence, Push, Trait

NONE = Push(0, 0)
ANY = Push(0, None)


Helpers: TypeAlias = Callable[[str], FunctionNode | None]  # by the name it is called


def count_outputs(
    node: FunctionNode, helpers: Helpers = lambda _: None
) -> tuple[Push, int]:
    r"""Return how many items the result of a function has, and the line that says so.

    `helpers` gives the functions that it calls by name, where they are known.

    >>> tree = ast.parse("def f(x):\n if x: yield x\n yield 1").body[0]
    >>> count_outputs(tree)
    (Push(least=1, most=2), 1)
    """
    return _Counter(helpers, frozenset([node])).outputs(node)


@dataclass(frozen=True)
class _Counter:
    """Counts in one function; `active` are those that are being counted."""

    helpers: Helpers
    active: frozenset[FunctionNode]

    def outputs(self, node: FunctionNode) -> tuple[Push, int]:
        """Return how many items a function gives, and the line that says so."""
        if isinstance(node, ast.Lambda):
            gives = self.yields_in if is_generator(node) else self.length
            return gives(node.body), node.lineno
        if not is_generator(node):
            return self._returned(node)
        paths = _Paths(self)
        rest = paths.through(node.body, NONE)
        ends = [*paths.returned, *([] if rest is None else [rest])]
        return either(ends) or NONE, node.lineno

    def _returned(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef
    ) -> tuple[Push, int]:
        returns = [n for n in nodes_of_scope(node) if isinstance(n, ast.Return)]
        given = [n for n in returns if n.value is not None]
        lengths = [self.length(n.value) for n in given if n.value is not None]
        push = either(lengths) or ANY
        decisive = [n for n, each in zip(given, lengths, strict=True) if each == push]
        return push, (decisive[0] if decisive else node).lineno

    def length(self, result: ast.expr) -> Push:
        """Return how many items a returned expression has."""
        match result:
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                return self._written_out(elements)
            case ast.Set(elts=elements):
                found = self._written_out(elements)
                return Push(min(found.least, 1), found.most)
            case ast.IfExp(body=one, orelse=two):
                return either([self.length(one), self.length(two)]) or ANY
            case ast.NamedExpr(value=value):
                return self.length(value)
            case ast.Call(func=ast.Name(id=name)):
                helper = self.helpers(name)
                if helper is not None and helper not in self.active:
                    return _Counter(self.helpers, self.active | {helper}).outputs(
                        helper
                    )[0]
        return ANY

    def _written_out(self, elements: list[ast.expr]) -> Push:
        starred = sum(isinstance(each, ast.Starred) for each in elements)
        fixed = len(elements) - starred
        return Push(fixed, None if starred else fixed)

    def yields_in(self, node: ast.AST | None) -> Push:
        """Return what an expression or a simple statement yields."""
        if node is None:
            return NONE
        total = self._yielded(node)
        maybe = isinstance(node, ast.IfExp | ast.BoolOp)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            inner = self.yields_in(child)
            total = plus(total, Push(0, inner.most) if maybe else inner)
        return total

    def _yielded(self, node: Any) -> Push:
        match node:
            case ast.Yield():
                return Push(1, 1)
            case ast.YieldFrom(value=value):
                return self.length(value)
        return NONE


def either(ranges: Iterable[Push]) -> Push | None:
    """Return the range that covers several, or None of none.

    >>> either([Push(1, 1), Push(0, None)])
    Push(least=0, most=None)
    """
    listed = list(ranges)
    if not listed:
        return None
    most = (
        None
        if any(r.most is None for r in listed)
        else max(r.most or 0 for r in listed)
    )
    return Push(min(r.least for r in listed), most)


def plus(one: Push, two: Push) -> Push:
    """Return the range of giving `one` and then `two`.

    >>> plus(Push(1, 1), Push(0, 2))
    Push(least=1, most=3)
    """
    bounded = one.most is not None and two.most is not None
    most = (one.most or 0) + (two.most or 0) if bounded else None
    return Push(one.least + two.least, most)


@dataclass
class _Paths:
    """The paths through a function; each list has what was given at such an end."""

    counter: _Counter
    returned: list[Push] = field(default_factory=list)
    raised: list[Push] = field(default_factory=list)
    left_loop: list[Push] = field(default_factory=list)

    def through(self, body: list[ast.stmt], before: Push) -> Push | None:
        """Return what was given when `body` falls through; None if it never does."""
        now: Push | None = before
        for node in body:
            if now is None:
                return None
            now = self._step(node, now)
        return now

    def _step(  # noqa: PLR0911 - one return for each kind of statement
        self, node: ast.stmt, before: Push
    ) -> Push | None:
        match node:
            case ast.Return(value=value):
                self.returned.append(plus(before, self.counter.yields_in(value)))
                return None
            case ast.Raise():
                self.raised.append(plus(before, self.counter.yields_in(node)))
                return None
            case ast.Break() | ast.Continue():
                self.left_loop.append(before)
                return None
            case ast.If(test=test, body=body, orelse=orelse):
                start = plus(before, self.counter.yields_in(test))
                ends = [self.through(body, start), self.through(orelse, start)]
                return either(end for end in ends if end is not None)
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, before)
            case ast.Try() | ast.TryStar():
                return self._attempt(node, before)
            case ast.With() | ast.AsyncWith():
                return self._context(node, before)
            case ast.Match():
                return self._match(node, before)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return before
        return plus(before, self.counter.yields_in(node))

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, before: Push
    ) -> Push | None:
        inner = _Paths(self.counter)
        head = node.test if isinstance(node, ast.While) else node.iter
        once = inner.through(node.body, self.counter.yields_in(head))
        ends = [*inner.left_loop, *([] if once is None else [once])]
        everything = either([NONE, *ends, *inner.returned, *inner.raised]) or NONE
        gives = everything.most != 0
        for theirs, ours in (
            (inner.returned, self.returned),
            (inner.raised, self.raised),
        ):
            ours.extend(
                Push(before.least, None if gives else before.most) for _ in theirs
            )
        rounds = _rounds(node)
        straight = not (inner.left_loop or inner.returned)
        if rounds is not None and straight and once is not None:
            after = before
            for _ in range(rounds):
                after = plus(after, once)
        else:
            after = plus(before, ANY if gives else NONE)
        return self.through(node.orelse, after)

    def _attempt(self, node: ast.Try | ast.TryStar, before: Push) -> Push | None:
        inner = _Paths(self.counter)
        tried = inner.through(node.body, before)
        done = None if tried is None else inner.through(node.orelse, tried)
        reached = [before, *inner.raised, *inner.returned, *inner.left_loop]
        reached += [end for end in (tried, done) if end is not None]
        caught = either(reached) or before
        ends = [] if done is None else [done]
        for handler in node.handlers:
            end = inner.through(handler.body, caught)
            ends += [] if end is None else [end]
        after = either(ends)
        last = _Paths(self.counter)
        final = last.through(node.finalbody, NONE)
        whatever = either([NONE, *last.returned, *([] if final is None else [final])])
        added = whatever if final is None or last.returned else final
        for ours, theirs in (
            (self.returned, inner.returned),
            (self.raised, inner.raised),
            (self.left_loop, inner.left_loop),
        ):
            ours.extend(plus(each, added or NONE) for each in theirs)
        if last.returned or final is None:  # `finally` decides how it ends
            covered = either([*reached, *ends]) or before
            self.returned.append(plus(Push(0, covered.most), ANY))
        return None if after is None or final is None else plus(after, final)

    def _context(self, node: ast.With | ast.AsyncWith, before: Push) -> Push:
        """Go through `with`; it may swallow an exception, so the body ends anywhere."""
        inner = _Paths(self.counter)
        end = inner.through(node.body, before)
        self.returned += inner.returned
        self.raised += inner.raised
        self.left_loop += inner.left_loop
        ends = [before, *inner.raised, *([] if end is None else [end])]
        return either([*ends, *inner.returned]) or before

    def _match(self, node: ast.Match, before: Push) -> Push | None:
        start = plus(before, self.counter.yields_in(node.subject))
        ends = [self.through(case.body, start) for case in node.cases]
        return either([start, *(end for end in ends if end is not None)])


def _rounds(node: ast.For | ast.AsyncFor | ast.While) -> int | None:
    """Return how often a loop runs where that is written down."""
    match node:
        case ast.For(iter=ast.Tuple(elts=elements) | ast.List(elts=elements)):
            starred = any(isinstance(each, ast.Starred) for each in elements)
            return None if starred else len(elements)
    return None


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
    if op.timing is not None:
        return None  # at an advance of the clock it may give more than for an item
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
            return _restricted(found, op.keyed_by)
        case Lookup(into=into):
            return _read_off(op, into, ("item", ""), item_type, Outputs.of_result)
        case Block(function=function, peek=peek):
            found = _read_off(op, function, ("items",), item_type, Outputs.of_elements)
            return found if peek == 1 else _restricted(found, op.keyed_by)
    return None


def _of_apply(op: Op, cls: Any, item_type: Any) -> Forwarded:
    for method in ("punctuation", "finish", "on_time"):
        if op.kind.overrides(method):  # type: ignore[attr-defined]
            text = f"no item stands behind what {cls.__name__}.{method}() gives"
            source = written(getattr(cls, method))
            return Forwarded(NOTHING, _evidence(op, source, "forwards", text))
    return _read_off(op, cls.process, ("", "item"), item_type, Outputs.of_elements)


def _of_aggregate(op: Op, kind: Aggregate, item_type: Any) -> Forwarded:
    key = op.keyed_by
    if kind.function is not None:
        found = _read_off(op, kind.function, ("items",), item_type, Outputs.of_result)
        return _restricted(found, key)
    kept = frozenset(
        name
        for name, column in kind.columns
        if name == column.attribute and name in key and column.function in _COPIES
    )
    if kind.into is not None:
        kept &= stored_fields(kind.into)
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
