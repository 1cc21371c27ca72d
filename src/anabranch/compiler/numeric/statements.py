"""Traces functions of the user's, statement by statement.

A loop over something known is run as often as it says. Where a condition is not known,
both branches are traced and their results chosen between; a check inside a branch only
counts if the branch is taken.
"""

from __future__ import annotations

import ast
from typing import Any

from anabranch.analysis.source import node_of
from anabranch.compiler.numeric.arithmetic import binary, either, negated, truth
from anabranch.compiler.numeric.calls import listed, lists_behind
from anabranch.compiler.numeric.expressions import Expressions
from anabranch.compiler.numeric.frames import Merged, bound, copied_frame
from anabranch.compiler.numeric.indexing import element_at
from anabranch.compiler.numeric.names import Frame, bind
from anabranch.compiler.numeric.rolled import Carried
from anabranch.compiler.numeric.trace import UNROLLED, Trace
from anabranch.compiler.numeric.values import NEVER, RefusedError, Symbol
from anabranch.compiler.numeric.work import (
    LoopEnd,
    Round,
    Step,
    Work,
    before,
    behind,
    goes_elsewhere,
    leaves,
    refuse_lists,
)

_DEEPEST_CALL = 12
_LONG_LOOP = 8
_YIELDED = "<yielded>"


class Statements:
    """Runs functions on symbols; one for each kernel."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._expressions = Expressions(trace, self)

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
        frame = Frame(function, bound(function, node.args, args, keywords), depth)
        if isinstance(node, ast.Lambda):
            return self._expressions.value(node.body, frame)
        if any(isinstance(each, ast.Yield) for each in ast.walk(node)):
            if depth:
                msg = f"calls {function.__name__}, which yields"
                raise RefusedError(msg)
            made: list[Any] = []
            frame.names[_YIELDED] = made
            frame.own.append(made)
        given = self._run(before(node.body, None), frame)
        if _YIELDED in frame.names and given is not NEVER:
            return given if given is not None else frame.names[_YIELDED]
        return given

    def run(self, steps: list[ast.stmt], frame: Frame) -> None:
        """Run statements that lead to what follows them."""
        self._run(before(steps, None), frame)

    def _run(self, work: Work, frame: Frame) -> Any:
        """Run until a return; give what it gives."""
        while work is not None:
            step, work = work
            self.trace.step()
            match step:
                case LoopEnd():
                    pass
                case Round(target, value, body):
                    bind(target, value, frame.names)
                    work = before(body, work)
                case ast.Return(value=node):
                    return self._returned(node, frame)
                case ast.Raise():
                    self.trace.fail_if("True")
                    return NEVER
                case ast.If():
                    held = truth(self.trace, self._expressions.value(step.test, frame))
                    if not isinstance(held, Symbol):
                        work = before(step.body if held else step.orelse, work)
                    elif leaves(step.body) or leaves(step.orelse):
                        return self._forked(held, step, work, frame)
                    else:
                        self._branched(held, step, work, frame)
                case _:
                    work = self._onward(step, work, frame)
        return self._ended(frame)

    def _onward(self, step: Step, work: Work, frame: Frame) -> Work:
        """Run a loop, or a statement that goes on to the next; return what is left."""
        match step:
            case ast.Break():
                return behind(work, LoopEnd)
            case ast.Continue():
                return behind(work, (Round, LoopEnd), keep=True)
            case ast.For(orelse=[]):
                return self._for(step, work, frame)
            case ast.While(orelse=[]):
                return self._while(step, work, frame)
        self._simple(step, frame)
        return work

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
        for one_list in lists_behind(over):  # nobody may change it on the way
            frame.own = [one for one in frame.own if one is not one_list]
        values = listed(over)
        if len(values) > _LONG_LOOP and not goes_elsewhere(step.body):
            written = len(self.trace.lines)
            bind(step.target, values[0], frame.names)
            self.run(step.body, frame)
            length = (len(self.trace.lines) - written) * (len(values) - 1)
            if length > UNROLLED:
                self._roll(step, values, frame)
                return work
            values = values[1:]
        work = (LoopEnd(), work)
        for value in reversed(values):
            work = (Round(step.target, value, step.body), work)
        return work

    def _roll(self, step: ast.For, values: list[Any], frame: Frame) -> None:
        """Trace all rounds but the first as a loop of the kernel."""
        own, frame.own = frame.own, []  # its body may not change a list
        carried = Carried(self.trace, step.body, frame)
        index = Symbol(self.trace.name(), "int", 1, len(values) - 1)
        with self.trace.loop(f"for {index.name} in range(1, {len(values)}):"):
            bind(step.target, element_at(self.trace, values, index), frame.names)
            self.run(step.body, frame)
            carried.hand_on()
        frame.own = own
        carried.settle(step.body)
        bind(step.target, values[-1], frame.names)

    def _while(self, step: ast.While, work: Work, frame: Frame) -> Work:
        held = truth(self.trace, self._expressions.value(step.test, frame))
        if isinstance(held, Symbol):
            msg = "repeats for as long as the items say"
            raise RefusedError(msg)
        return before([*step.body, step], work) if held else work

    def _forked(self, held: Symbol, step: ast.If, work: Work, frame: Frame) -> Any:
        """Trace both branches, each with all that follows."""
        refuse_lists(work)
        other = copied_frame(frame)
        with self.trace.under(held.name):
            one = self._run(before(step.body, work), frame)
        with self.trace.under(negated(self.trace, held).name):
            two = self._run(before(step.orelse, work), other)
        return either(self.trace, held, one, two)

    def _branched(self, held: Symbol, step: ast.If, work: Work, frame: Frame) -> None:
        """Trace both branches, and choose between what their names stand for."""
        refuse_lists(work)
        other = copied_frame(frame)
        with self.trace.under(held.name):
            self.run(step.body, frame)
        with self.trace.under(negated(self.trace, held).name):
            self.run(step.orelse, other)
        merged = Merged(self.trace, held, frame)
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
            case ast.Expr(value=ast.Yield() as node):
                self._yield(node, frame)
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                pass
            case ast.Expr(value=ast.Call() as node):
                self._expressions.value(node, frame)
            case ast.Assert():
                self._assert(step, frame)
            case _:
                msg = f"uses {type(step).__name__}"
                raise RefusedError(msg)

    def _yield(self, node: ast.Yield, frame: Frame) -> None:
        made = (
            None if node.value is None else self._expressions.value(node.value, frame)
        )
        yielded = frame.names[_YIELDED]
        self._expressions.changing(yielded, frame)
        yielded.append(made)

    def _assert(self, step: ast.Assert, frame: Frame) -> None:
        held = negated(self.trace, self._expressions.value(step.test, frame))
        if isinstance(held, Symbol):
            self.trace.fail_if(held.name)
        elif held:
            self.trace.fail_if("True")

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
