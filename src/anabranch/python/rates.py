"""The number of outputs per item: yields counted along every path.

An exception ends the item without output, so a path that raises does not count; outputs
before the exception count for the handler that continues.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias

from anabranch.graph.graph import Op
from anabranch.graph.kind import Evidence, Push
from anabranch.operators.custom import Apply
from anabranch.operators.stateless import FlatMap
from anabranch.python import ir
from anabranch.python.lower import LoweringError, lower, lower_callable
from anabranch.python.source import file_of

NONE = Push(0, 0)
ANY = Push(0, None)


Helpers: TypeAlias = Callable[[str], ir.Function | None]  # by the name it is called


def count_outputs(
    function: ir.Function, helpers: Helpers = lambda _: None
) -> tuple[Push, int]:
    r"""Return the number of items in a function's result, and the line that decides it.

    `helpers` finds the functions it calls by name, where they are known.

    >>> from anabranch.python.lower import lower_node
    >>> tree = ast.parse("def f(x):\n if x: yield x\n yield 1").body[0]
    >>> count_outputs(lower_node(tree))
    (Push(least=1, most=2), 1)
    """
    return _Counter(function, helpers, frozenset([function])).outputs()


@dataclass(frozen=True)
class _Counter:
    """Counts the outputs of one function; `active` are those being counted."""

    function: ir.Function
    helpers: Helpers
    active: frozenset[ir.Function]

    def outputs(self) -> tuple[Push, int]:
        """Return the number of items the function gives, and the line that decides
        it.
        """
        if not self.function.generator:
            return self._count_returned()
        paths = _Paths(self)
        paths.through(self.function.body, NONE)
        return either(paths.returned) or NONE, self.function.line

    def _count_returned(self) -> tuple[Push, int]:
        """Count the returned items; None is not iterable and an error."""
        given = [
            one
            for one in ir.walk(self.function.body)
            if isinstance(one, ir.Return) and not _is_none(self.function, one.value)
        ]
        lengths = [self.length(one.value) for one in given]
        push = either(lengths) or ANY
        decisive = [n for n, each in zip(given, lengths, strict=True) if each == push]
        if decisive and not isinstance(self.function.node, ast.Lambda):
            return push, decisive[0].line
        return push, self.function.line

    def length(self, result: ir.Register) -> Push:
        """Return the number of items in a returned value."""
        if result in self.function.filled:
            return ANY
        makers = self.function.makers.get(result, ())
        if makers and all(isinstance(one, ir.Store) for one in makers):  # a choice
            chosen = [one.value for one in makers if isinstance(one, ir.Store)]
            return either(map(self.length, chosen)) or ANY
        match self.function.maker_of(result):
            case ir.Build(kind="list" | "tuple", items=items, starred=starred):
                return _count_written(items, starred)
            case ir.Build(kind="set", items=items, starred=starred):
                found = _count_written(items, starred)
                return Push(min(found.least, 1), found.most)
            case ir.Call(function=called):
                return self._count_called(called)
        return ANY

    def _count_called(self, register: ir.Register) -> Push:
        match self.function.maker_of(register):
            case ir.LoadName(name=name, scope="global"):
                helper = self.helpers(name)
                if helper is not None and helper not in self.active:
                    active = self.active | {helper}
                    return _Counter(helper, self.helpers, active).outputs()[0]
        return ANY


def _is_none(function: ir.Function, register: ir.Register) -> bool:
    match function.maker_of(register):
        case ir.Const(value=None):
            return True
    return False


def _count_written(items: tuple[ir.Register, ...], starred: frozenset[int]) -> Push:
    fixed = len(items) - len(starred)
    return Push(fixed, None if starred else fixed)


def either(ranges: Iterable[Push]) -> Push | None:
    """Return the range that covers several ranges; None if there are none.

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
    """The paths through a function; each list has the counts at one kind of exit."""

    counter: _Counter
    returned: list[Push] = field(default_factory=list)
    raised: list[Push] = field(default_factory=list)
    left_loop: list[Push] = field(default_factory=list)

    def through(self, block: ir.Block, before: Push) -> Push | None:
        """Return the count where a block falls through; None if it never does."""
        now: Push | None = before
        for one in block:
            if now is None:
                return None
            now = self._step(one, now)
        return now

    def _step(  # noqa: PLR0911 - one return for each kind of instruction
        self, one: ir.Instruction, before: Push
    ) -> Push | None:
        match one:
            case ir.Yield(value=value, delegates=delegates):
                given = self.counter.length(value) if delegates else Push(1, 1)
                return plus(before, given)
            case ir.Return():
                self.returned.append(before)
                return None
            case ir.Raise():
                self.raised.append(before)
                return None
            case ir.Break() | ir.Continue():
                self.left_loop.append(before)
                return None
            case ir.If(then=then, orelse=orelse):
                ends = [self.through(then, before), self.through(orelse, before)]
                return either(end for end in ends if end is not None)
            case ir.For() | ir.While():
                return self._loop(one, before)
            case ir.Try():
                return self._attempt(one, before)
            case ir.With(body=body):
                return self._context(body, before)
            case ir.Unknown():
                return plus(before, ANY)
        return before

    def _loop(self, one: ir.For | ir.While, before: Push) -> Push | None:
        inner = _Paths(self.counter)
        head = one.head if isinstance(one, ir.While) else ()
        once = inner.through((*head, *one.body), NONE)
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
        rounds = self._rounds(one)
        straight = not (inner.left_loop or inner.returned)
        if rounds is not None and straight and once is not None:
            after = before
            for _ in range(rounds):
                after = plus(after, once)
        else:
            after = plus(before, ANY if gives else NONE)
        return self.through(one.orelse, after)

    def _rounds(self, one: ir.For | ir.While) -> int | None:
        """Return the number of iterations of a loop, if it is a literal."""
        if isinstance(one, ir.While) or one.iterable in self.counter.function.filled:
            return None
        match self.counter.function.maker_of(one.iterable):
            case ir.Build(kind="list" | "tuple", items=items, starred=starred):
                return None if starred else len(items)
        return None

    def _attempt(self, one: ir.Try, before: Push) -> Push | None:
        inner = _Paths(self.counter)
        tried = inner.through(one.body, before)
        done = None if tried is None else inner.through(one.orelse, tried)
        reached = [before, *inner.raised, *inner.returned, *inner.left_loop]
        reached += [end for end in (tried, done) if end is not None]
        caught = either(reached) or before
        ends = [] if done is None else [done]
        for handler in one.handlers:
            end = inner.through((*handler.head, *handler.body), caught)
            ends += [] if end is None else [end]
        after = either(ends)
        last = _Paths(self.counter)
        final = last.through(one.final, NONE)
        whatever = either([NONE, *last.returned, *([] if final is None else [final])])
        added = whatever if final is None or last.returned else final
        for ours, theirs in (
            (self.returned, inner.returned),
            (self.raised, inner.raised),
            (self.left_loop, inner.left_loop),
        ):
            ours.extend(plus(each, added or NONE) for each in theirs)
        if last.returned or final is None:  # `finally` decides the exit
            covered = either([*reached, *ends]) or before
            self.returned.append(plus(Push(0, covered.most), ANY))
        return None if after is None or final is None else plus(after, final)

    def _context(self, body: ir.Block, before: Push) -> Push:
        """Follow `with`; it may swallow an exception, so the body may end anywhere."""
        inner = _Paths(self.counter)
        end = inner.through(body, before)
        self.returned += inner.returned
        self.raised += inner.raised
        self.left_loop += inner.left_loop
        ends = [before, *inner.raised, *([] if end is None else [end])]
        return either([*ends, *inner.returned]) or before


class Rated(NamedTuple):
    """The push range of an operator, and why."""

    push: Push
    evidence: Evidence


def push_of(op: Op) -> Rated | None:
    """Return the push range according to user code; None if it does not decide it."""
    if op.timing is not None:
        return None  # an advance of the clock may produce more outputs than an item
    match op.kind:
        case FlatMap(function=function):
            return _count_outputs(op, function, "flat_map")
        case Apply(operator=cls) if not op.kind.overrides("punctuation"):
            return _count_outputs(op, cls.process, f"{cls.__name__}.process")
    return None  # a punctuation may produce more outputs than an item


def _count_outputs(op: Op, function: Any, name: str) -> Rated:
    source = lower_callable(function)
    if source is None:
        text = f"the source of {name} is not available, so it may give any number"
        return Rated(ANY, Evidence("rate", text, op.site.file, op.site.line))
    push, line = count_outputs(source.code, _helpers_of(source.function))
    most = "any number of" if push.most is None else str(push.most)
    least = f"{push.least} to " if push.least != push.most else ""
    text = f"gives {least}{most} outputs for an item"
    if push.most is None and not push.least:
        text = "gives any number of outputs for an item"
    return Rated(push, Evidence("rate", text, source.file, line))


def _helpers_of(function: Any) -> Helpers:
    """Return a lookup of the functions that a function calls by global name."""

    def find(name: str) -> ir.Function | None:
        helper = function.__globals__.get(name)
        if type(helper) is not FunctionType or helper.__globals__ is not (
            function.__globals__
        ):
            return None
        parsed = file_of(function.__code__.co_filename)
        if parsed is None or parsed.bindings(name) != 1 or vars(helper):
            return None
        try:
            return lower(helper)
        except LoweringError:
            return None

    return find
