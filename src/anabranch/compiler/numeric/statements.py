"""Traces functions of the user's, statement by statement.

A loop over something known is run as often as it says. Where a condition is not known,
both branches are traced and their results chosen between; a check inside a branch only
counts if the branch is taken.
"""

from __future__ import annotations

import ast
import types
from typing import Any, NamedTuple, TypeAlias

from anabranch.analysis.source import node_of
from anabranch.compiler.numeric.arithmetic import binary, either, negated, truth
from anabranch.compiler.numeric.calls import lists_behind, listed
from anabranch.compiler.numeric.expressions import Expressions, Frame, bind
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import NEVER, RefusedError, Symbol

_DEEPEST_CALL = 12
_LONGEST_WHILE = 10_000
_YIELDED = "<yielded>"


class Round(NamedTuple):
    """One round of a loop: what its target is, and what it does."""

    target: ast.expr
    value: Any
    body: list[ast.stmt]


class LoopEnd(NamedTuple):
    """Where a loop ends, and a `break` goes on."""


Step: TypeAlias = ast.stmt | Round | LoopEnd
Work: TypeAlias = tuple[Step, Any] | None  # a step, and the work behind it


class Statements:
    """Runs functions on symbols; one for each kernel."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._expressions = Expressions(trace, self.invoke)
        self._repeated = 0

    def invoke(
        self, function: Any, args: list[Any], keywords: dict[str, Any], caller: Any
    ) -> Any:
        """Return what a function gives for these arguments."""
        depth = 0 if caller is None else caller.depth + 1
        if depth > _DEEPEST_CALL:
            msg = "calls itself, or others too deeply"
            raise RefusedError(msg)
        node = node_of(function.__code__)
        if node is None or isinstance(node, ast.AsyncFunctionDef):
            msg = f"the source of {function.__name__} is not at hand"
            raise RefusedError(msg)
        if getattr(node, "decorator_list", []):
            msg = f"{function.__name__} is decorated"
            raise RefusedError(msg)
        frame = Frame(function, _bound(function, node.args, args, keywords), depth)
        if isinstance(node, ast.Lambda):
            return self._expressions.value(node.body, frame)
        if any(isinstance(each, ast.Yield) for each in ast.walk(node)):
            if depth:
                msg = f"calls {function.__name__}, which yields"
                raise RefusedError(msg)
            made: list[Any] = []
            frame.names[_YIELDED] = made
            frame.own.append(made)
        given = self._run(_before(node.body, None), frame)
        if _YIELDED in frame.names and given is not NEVER:
            return given if given is not None else frame.names[_YIELDED]
        return given

    def _run(self, work: Work, frame: Frame) -> Any:
        """Run until a return; give what it gives."""
        while work is not None:
            step, work = work
            match step:
                case LoopEnd():
                    pass
                case Round(target, value, body):
                    bind(target, value, frame.names)
                    work = _before(body, work)
                case ast.Return(value=node):
                    return self._returned(node, frame)
                case ast.Raise():
                    self.trace.fail_if("True")
                    return NEVER
                case ast.Break():
                    work = _behind(work, LoopEnd)
                case ast.Continue():
                    work = _behind(work, (Round, LoopEnd), keep=True)
                case ast.If(test=test, body=body, orelse=orelse):
                    held = truth(self.trace, self._expressions.value(test, frame))
                    if not isinstance(held, Symbol):
                        work = _before(body if held else orelse, work)
                    elif _holds_lists(work):
                        msg = "goes through lists of lists with a condition inside"
                        raise RefusedError(msg)
                    elif _leaves(body) or _leaves(orelse):
                        return self._forked(held, body, orelse, work, frame)
                    else:
                        self._branched(held, body, orelse, frame)
                case ast.For(orelse=[]):
                    work = self._for(step, work, frame)
                case ast.While(test=test, body=body, orelse=[]):
                    work = self._while(step, work, frame)
                case _:
                    self._simple(step, frame)
        return self._ended(frame)

    def _ended(self, frame: Frame) -> Any:
        return frame.names.get(_YIELDED)

    def _returned(self, node: ast.expr | None, frame: Frame) -> Any:
        if _YIELDED in frame.names:
            if node is not None:
                msg = "returns a value from a generator"
                raise RefusedError(msg)
            return self._ended(frame)
        return None if node is None else self._expressions.value(node, frame)

    def _for(self, step: ast.For, work: Work, frame: Frame) -> Work:
        over = self._expressions.passing(step.iter, frame)
        for behind in lists_behind(over):  # nobody may change it on the way
            frame.own = [one for one in frame.own if one is not behind]
        work = (LoopEnd(), work)
        for value in reversed(listed(over)):
            work = (Round(step.target, value, step.body), work)
        return work

    def _while(self, step: ast.While, work: Work, frame: Frame) -> Work:
        held = truth(self.trace, self._expressions.value(step.test, frame))
        if isinstance(held, Symbol):
            msg = "repeats for as long as the items say"
            raise RefusedError(msg)
        self._repeated += 1
        if self._repeated > _LONGEST_WHILE:
            msg = f"repeats more than {_LONGEST_WHILE} times"
            raise RefusedError(msg)
        return _before([*step.body, step], work) if held else work

    def _forked(
        self,
        held: Symbol,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        work: Work,
        frame: Frame,
    ) -> Any:
        """Trace both branches, each with all that follows."""
        other = _copied(frame)
        with self.trace.under(held.name):
            one = self._run(_before(body, work), frame)
        with self.trace.under(negated(self.trace, held).name):
            two = self._run(_before(orelse, work), other)
        return either(self.trace, held, one, two)

    def _branched(
        self,
        held: Symbol,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        frame: Frame,
    ) -> None:
        """Trace both branches, and choose between what their names stand for."""
        other = _copied(frame)
        with self.trace.under(held.name):
            self._run(_before(body, None), frame)
        with self.trace.under(negated(self.trace, held).name):
            self._run(_before(orelse, None), other)
        merged = _Merged(self.trace, held, frame)
        frame.names = {
            name: merged.value(value, other.names[name])
            for name, value in frame.names.items()
            if name in other.names
        }

    def _simple(self, step: Step, frame: Frame) -> None:
        match step:
            case ast.Assign(targets=targets, value=node):
                value = self._expressions.value(node, frame)
                for target in targets:
                    self._assign(target, value, frame)
            case ast.AnnAssign(target=target, value=node) if node is not None:
                self._assign(target, self._expressions.value(node, frame), frame)
            case ast.AugAssign(target=target, op=op, value=node):
                self._augment(target, op, node, frame)
            case ast.Expr(value=ast.Yield(value=node)):
                made = None if node is None else self._expressions.value(node, frame)
                yielded = frame.names[_YIELDED]
                self._expressions.changing(yielded, frame)
                yielded.append(made)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as node):
                self._expressions.value(node, frame)
            case ast.Assert(test=test):
                held = negated(self.trace, self._expressions.value(test, frame))
                if isinstance(held, Symbol):
                    self.trace.fail_if(held.name)
                elif held:
                    self.trace.fail_if("True")
            case _:
                msg = f"uses {type(step).__name__}"
                raise RefusedError(msg)

    def _assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        if not isinstance(target, ast.Subscript):
            bind(target, value, frame.names)
            return
        place = self._expressions.value(target.value, frame)
        index = self._expressions.value(target.slice, frame)
        self._expressions.changing(place, frame)
        if type(index) is not int or not -len(place) <= index < len(place):
            msg = "assigns to a place that is not known"
            raise RefusedError(msg)
        place[index] = value

    def _augment(
        self, target: ast.expr, op: ast.operator, node: ast.expr, frame: Frame
    ) -> None:
        if not isinstance(target, ast.Name | ast.Subscript):
            msg = f"assigns to {type(target).__name__}"
            raise RefusedError(msg)
        as_read: Any = (
            ast.Name(target.id, ast.Load())
            if isinstance(target, ast.Name)
            else ast.Subscript(target.value, target.slice, ast.Load())
        )
        left = self._expressions.value(as_read, frame)
        if isinstance(left, list):
            msg = "adds to a list in place"
            raise RefusedError(msg)
        right = self._expressions.value(node, frame)
        self._assign(target, binary(self.trace, op, left, right), frame)


def _bound(
    function: types.FunctionType,
    declared: ast.arguments,
    args: list[Any],
    keywords: dict[str, Any],
) -> dict[str, Any]:
    """Return the names of the parameters with their values."""
    if declared.vararg or declared.kwarg or declared.kwonlyargs:
        msg = f"{function.__name__} takes a varying number of arguments"
        raise RefusedError(msg)
    names = [each.arg for each in (*declared.posonlyargs, *declared.args)]
    defaults = function.__defaults__ or ()
    given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    given.update(zip(names, args, strict=False))
    given.update(keywords)
    if len(args) > len(names) or set(given) != set(names):
        msg = f"{function.__name__} is called with other arguments than it takes"
        raise RefusedError(msg)
    return given


def _before(steps: list[ast.stmt], work: Work) -> Work:
    for step in reversed(steps):
        work = (step, work)
    return work


def _behind(work: Work, kinds: Any, *, keep: bool = False) -> Work:
    while work is not None:
        step, rest = work
        if isinstance(step, kinds):
            return work if keep else rest
        work = rest
    return None


def _holds_lists(work: Work) -> bool:
    """Tell whether rounds to come have a list that a branch might change."""
    while work is not None:
        step, work = work
        if isinstance(step, Round) and _has_list(step.value):
            return True
    return False


def _has_list(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_list, value))
    return isinstance(value, list)


def _leaves(steps: list[ast.stmt]) -> bool:
    """Tell whether statements may go elsewhere than to what follows them."""
    kinds = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    return any(isinstance(each, kinds) for step in steps for each in ast.walk(step))


def _copied(frame: Frame) -> Frame:
    """Return the frame with copies of the lists that it may change."""
    copies: dict[int, list[Any]] = {}

    def copied(value: Any) -> Any:
        if isinstance(value, list) and frame.owns(value):
            if id(value) not in copies:
                copies[id(value)] = made = []
                made.extend(copied(each) for each in value)
            return copies[id(value)]
        if type(value) is tuple:
            return tuple(copied(each) for each in value)
        return value

    own = [copied(each) for each in frame.own]
    names = {name: copied(value) for name, value in frame.names.items()}
    return Frame(frame.function, names, frame.depth, own)


class _Merged:
    """Chooses between two branches; what was one list in both stays one list."""

    def __init__(self, trace: Trace, held: Symbol, frame: Frame) -> None:
        self._trace = trace
        self._held = held
        self._frame = frame
        self._lists: dict[tuple[int, int], list[Any]] = {}

    def value(self, one: Any, two: Any) -> Any:
        """Return what a name stands for behind the branches."""
        if isinstance(one, list) and isinstance(two, list) and one is not two:
            key = (id(one), id(two))
            if key not in self._lists:
                if len(one) != len(two):
                    msg = "makes lists of different lengths on different paths"
                    raise RefusedError(msg)
                made = [self.value(a, b) for a, b in zip(one, two, strict=True)]
                self._frame.own.append(made)
                self._lists[key] = made
            return self._lists[key]
        return either(self._trace, self._held, one, two)
