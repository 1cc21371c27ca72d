"""Statements in a trace of the user's functions, loops included.

A loop over something known is run as often as it says. If a condition is not known,
both branches are traced and their results selected at run time; a check inside a branch
only counts if the branch is taken.

Each branch has its own copies of the lists that it may change. Where branches meet, two
copies of one list become one again. A list that differs between paths is known by its
values only, so none of them may be changed later. The pending work of a trace is a
linked list, so that two branches can continue with the same work.

A short loop is unrolled while it is traced. A long one would make the kernel too long,
so its first iteration is traced by itself, which fixes the types, and the others become
a loop of the kernel. The floats and bools that its body assigns are carried from
iteration to iteration. An int is not, since it might leave 64 bits; but its value after
the last iteration is known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from anabranch.compiler.numeric.calls import (
    CallFrame,
    bind,
    bind_parameters,
    is_generator,
    list_values,
    lists_behind,
    read_function,
)
from anabranch.compiler.numeric.expressions import ExpressionTracer, element_at
from anabranch.compiler.numeric.values import (
    NEVER,
    UNROLLED,
    RefusedError,
    Symbol,
    Trace,
    TracedRecord,
    binary,
    bounds,
    either,
    is_number,
    kind_of,
    lists_in,
    negate,
    truth,
)
from anabranch.python.source import path_to_show


def copy_frame(trace: Trace, frame: CallFrame) -> CallFrame:
    """Return the frame with copies of the lists it may change."""
    copies: dict[int, Any] = {}

    def copy_value(value: Any) -> Any:
        if not any(frame.owns(each) for each in lists_in(value)):
            return value
        if not isinstance(value, list):
            return _rebuild(value, copy_value)
        if id(value) not in copies:
            made: list[Any] = []
            copies[id(value)] = made  # first, for a list may hold itself
            made.extend(copy_value(each) for each in value)
            if trace.is_frozen(value):
                trace.freeze(made)
        return copies[id(value)]

    own = [copy_value(each) for each in frame.own]
    names = {name: copy_value(value) for name, value in frame.names.items()}
    return CallFrame(frame.function, names, frame.depth, own)


def _rebuild(value: Any, part: Callable[[Any], Any]) -> Any:
    """Return a tuple or record with other parts."""
    if isinstance(value, TracedRecord):
        return TracedRecord(value.type, tuple(map(part, value.values)))
    return tuple(map(part, value)) if type(value) is tuple else value


class Meeting:
    """Selects between two branches; copies of one list become one again."""

    def __init__(
        self, trace: Trace, held: Symbol, frame: CallFrame, other: CallFrame
    ) -> None:
        self._trace = trace
        self._held = held
        self._frame = frame
        self._other = other
        self._made: dict[tuple[int, int], list[Any]] = {}  # from which two lists

    def meet(self) -> None:
        """Bind the frame's names to their values after the branches."""
        others = self._other.names
        self._frame.names = {
            name: self._choose(value, others[name])
            for name, value in self._frame.names.items()
            if name in others
        }

    def _choose(self, one: Any, two: Any) -> Any:
        if one is two:
            return one
        if isinstance(one, list) and isinstance(two, list):
            return self._choose_list(one, two)
        if type(one) is tuple and type(two) is tuple and len(one) == len(two):
            return tuple(map(self._choose, one, two))
        if (
            isinstance(one, TracedRecord)
            and isinstance(two, TracedRecord)
            and one.type is two.type
        ):
            return TracedRecord(
                one.type, tuple(map(self._choose, one.values, two.values))
            )
        return either(self._trace, self._held, one, two)

    def _choose_list(self, one: list[Any], two: list[Any]) -> list[Any]:
        key = (id(one), id(two))
        if key in self._made:
            return self._made[key]
        if len(one) != len(two):
            msg = "makes lists of different lengths on different paths"
            raise RefusedError(msg)
        made: list[Any] = []
        self._made[key] = made
        made.extend(map(self._choose, one, two))
        if self._frame.owns(one) and self._other.owns(two):
            self._frame.own.append(made)
        shared = [
            each
            for (a, b), each in self._made.items()
            if (a == key[0]) != (b == key[1])
        ]
        if shared or self._trace.is_frozen(one) or self._trace.is_frozen(two):
            self._trace.freeze((made, shared))
        for before, owner in ((one, self._frame), (two, self._other)):
            if not owner.owns(before):  # the caller may, and would not change ours
                self._trace.freeze(before)
        return made


class Round(NamedTuple):
    """One iteration of a loop: its target's value, and its body."""

    target: ast.expr
    value: Any
    body: list[ast.stmt]


class LoopEnd(NamedTuple):
    """The end of a loop, where a `break` continues."""


class Again(NamedTuple):
    """The condition of a `while` loop."""

    loop: ast.While


Step: TypeAlias = ast.stmt | Round | Again | LoopEnd
Work: TypeAlias = tuple[Step, Any] | None  # a step, and the work behind it


def before(steps: list[ast.stmt], work: Work) -> Work:
    for step in reversed(steps):
        work = (step, work)
    return work


def behind(work: Work, kinds: Any, *, keep: bool = False) -> Work:
    while work is not None:
        step, rest = work
        if isinstance(step, kinds):
            return work if keep else rest
        work = rest
    return None


def rounds_in(work: Work) -> Iterator[Round]:
    """Yield the remaining iterations of loops."""
    while work is not None:
        step, work = work
        if isinstance(step, Round):
            yield step


def goes_elsewhere(body: list[ast.stmt]) -> bool:
    """Tell whether an iteration may do more than continue with the next."""
    return leaves(body) or any(
        isinstance(each, ast.Yield) for step in body for each in ast.walk(step)
    )


def leaves(steps: list[ast.stmt]) -> bool:
    """Tell whether statements may jump elsewhere."""
    kinds = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    return any(isinstance(each, kinds) for step in steps for each in ast.walk(step))


class Carried:
    """The numbers that a loop carries from one iteration to the next."""

    def __init__(self, trace: Trace, loop: ast.For, frame: CallFrame) -> None:
        self._trace = trace
        self._frame = frame
        self._loop = loop
        self._assigned = find_assigned_names(loop.body)
        self._kept: dict[str, Symbol] = {}
        for name in self._assigned:
            value = frame.names.pop(name, None)
            if not is_number(value) or kind_of(value) == "int":
                continue  # it has no value in the loop, unless the body assigns it
            made = trace.variable(kind_of(value))
            trace.write(f"{made.name} = {trace.text(value)}")
            self._kept[name] = made
            frame.names[name] = made

    def hand_on(self) -> None:
        """Write the end of an iteration: all numbers change at once."""
        targets, values = [], []
        for name in self._assigned:
            value: Any = self._frame.names.get(name)
            made = self._kept.get(name)
            if made is None:
                if not is_number(value) or kind_of(value) != "int":
                    continue
                made = self._trace.variable("int", bounds(value))
                self._kept[name] = made
            elif not is_number(value) or kind_of(value) != made.kind:
                msg = f"changes the type of {name} in a long loop"
                raise RefusedError(msg)
            if value is not made:
                targets.append(made.name)
                values.append(self._trace.text(value))
        if targets:
            self._trace.write(f"{', '.join(targets)} = {', '.join(values)}")

    def settle(self, last: Any) -> None:
        """Bind the names to their values after the loop.

        The target has the last value iterated over, unless the body assigns it.
        """
        names = self._frame.names
        bind(self._loop.target, last, names)
        for name in self._assigned:
            names.pop(name, None)
        names.update(self._kept)


def find_assigned_names(body: list[ast.stmt]) -> list[str]:
    """Return the names that statements assign, without those of comprehensions.

    >>> find_assigned_names(ast.parse("a = [b for b in c]; d += 1").body)
    ['a', 'd']
    """
    return list(dict.fromkeys(name for step in body for name in _find_assigned(step)))


def _find_assigned(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, ast.ListComp | ast.GeneratorExp):
        return  # its names are its own
    for each in ast.iter_child_nodes(node):
        yield from _find_assigned(each)


_DEEPEST_CALL = 12
_LONG_LOOP = 8
_YIELDED = "<yielded>"


class StatementTracer:
    """Runs functions on symbols; one per kernel."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._expressions = ExpressionTracer(trace, self)
        self._to_come: list[Any] = []  # pending values of an inner run

    def invoke(
        self, function: Any, args: list[Any], keywords: dict[str, Any], caller: Any
    ) -> Any:
        """Call a function with these arguments."""
        depth = 0 if caller is None else caller.depth + 1
        if depth > _DEEPEST_CALL:
            msg = "calls itself, or others too deeply"
            raise RefusedError(msg)
        node = read_function(function)
        names = bind_parameters(function, node.args, args, keywords)
        frame = CallFrame(function, names, depth)
        if isinstance(node, ast.Lambda):
            with _note_place(node.body, frame):
                return self._expressions.value(node.body, frame)
        if is_generator(function):
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

    def run(self, steps: list[ast.stmt], frame: CallFrame) -> None:
        """Run statements that continue with what follows them."""
        self._run(before(steps, None), frame)

    def _run(self, work: Work, frame: CallFrame) -> Any:
        """Run until a return; return its value."""
        while work is not None:
            step, work = work
            self.trace.step()
            with _note_place(step, frame):
                match step:
                    case ast.Return(value=node):
                        return self._return_value(node, frame)
                    case ast.Raise():
                        self.trace.fail_if("True")
                        return NEVER
                    case ast.If():
                        test = self._expressions.value(step.test, frame)
                        held = truth(self.trace, test)
                        if not isinstance(held, Symbol):
                            work = before(step.body if held else step.orelse, work)
                        elif leaves(step.body) or leaves(step.orelse):
                            return self._fork(held, step, work, frame)
                        else:
                            self._branch(held, step, work, frame)
                    case _:
                        work = self._onward(step, work, frame)
        return self._end(frame)

    def _onward(self, step: Step, work: Work, frame: CallFrame) -> Work:
        """Run a loop, or a statement that continues with the next; return the rest."""
        match step:
            case LoopEnd():
                pass
            case Round(target, value, body):
                bind(target, value, frame.names)
                work = before(body, work)
            case Again(loop):
                work = self._go_on(loop, work, frame)
            case ast.Break():
                work = behind(work, LoopEnd)
            case ast.Continue():
                work = behind(work, (Round, Again, LoopEnd), keep=True)
            case ast.For(orelse=[]):
                work = self._for(step, work, frame)
            case ast.While(orelse=[]):
                work = (Again(step), (LoopEnd(), work))
            case _:
                self._simple(step, frame)
        return work

    def _end(self, frame: CallFrame) -> Any:
        return frame.names.get(_YIELDED)

    def _return_value(self, node: ast.expr | None, frame: CallFrame) -> Any:
        if _YIELDED in frame.names:
            if node is not None:
                msg = "returns a value from a generator"
                raise RefusedError(msg)
            return self._end(frame)
        return None if node is None else self._expressions.value(node, frame)

    def _for(self, step: ast.For, work: Work, frame: CallFrame) -> Work:
        over = self._expressions.passing(step.iter, frame)
        for one_list in lists_behind(over):  # nothing may change it meanwhile
            frame.own = [one for one in frame.own if one is not one_list]
        values = list_values(over)
        if len(values) > _LONG_LOOP and not goes_elsewhere(step.body):
            written = len(self.trace.lines)
            bind(step.target, values[0], frame.names)
            with self._waiting(values[1:], work):
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

    def _roll(self, step: ast.For, values: list[Any], frame: CallFrame) -> None:
        """Trace all iterations but the first as a loop of the kernel."""
        own, frame.own = frame.own, []  # its body may not change a list
        carried = Carried(self.trace, step, frame)
        index = Symbol(self.trace.name(), "int", (1, len(values) - 1))
        with self.trace.loop(f"for {index.name} in range(1, {len(values)}):"):
            bind(step.target, element_at(self.trace, values, index), frame.names)
            self.run(step.body, frame)
            carried.hand_on()
        frame.own = own
        carried.settle(values[-1])

    def _go_on(self, loop: ast.While, work: Work, frame: CallFrame) -> Work:
        with _note_place(loop, frame):
            held = truth(self.trace, self._expressions.value(loop.test, frame))
            if isinstance(held, Symbol):
                msg = "repeats for as long as the items say"
                raise RefusedError(msg)
        return before(loop.body, (Again(loop), work)) if held else work

    @contextmanager
    def _waiting(self, values: Sequence[Any], work: Work) -> Iterator[None]:
        """Run something while iterations are pending."""
        count = len(self._to_come)
        self._to_come += [*values, *(each.value for each in rounds_in(work))]
        try:
            yield
        finally:
            del self._to_come[count:]

    def _refuse_changes(self, work: Work, frame: CallFrame) -> None:
        """Refuse a branch if pending iterations have a list it might change."""
        values = [*self._to_come, *(each.value for each in rounds_in(work))]
        if any(frame.owns(each) for each in lists_in(values)):
            msg = "goes through lists of lists with a condition inside"
            raise RefusedError(msg)

    def _fork(self, held: Symbol, step: ast.If, work: Work, frame: CallFrame) -> Any:
        """Trace both branches, each with all that follows."""
        self._refuse_changes(work, frame)
        other = copy_frame(self.trace, frame)
        with self.trace.under(held.name):
            one = self._run(before(step.body, work), frame)
        with self.trace.under(negate(self.trace, held).name):
            two = self._run(before(step.orelse, work), other)
        return either(self.trace, held, one, two)

    def _branch(self, held: Symbol, step: ast.If, work: Work, frame: CallFrame) -> None:
        """Trace both branches, and select between the values of their names."""
        self._refuse_changes(work, frame)
        other = copy_frame(self.trace, frame)
        with self._waiting((), work):
            with self.trace.under(held.name):
                self.run(step.body, frame)
            with self.trace.under(negate(self.trace, held).name):
                self.run(step.orelse, other)
        Meeting(self.trace, held, frame, other).meet()

    def _simple(self, step: Step, frame: CallFrame) -> None:
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

    def _yield(self, node: ast.Yield, frame: CallFrame) -> None:
        made = (
            None if node.value is None else self._expressions.value(node.value, frame)
        )
        yielded = frame.names[_YIELDED]
        self._expressions.changing(yielded, frame)
        yielded.append(made)

    def _assert(self, step: ast.Assert, frame: CallFrame) -> None:
        held = negate(self.trace, self._expressions.value(step.test, frame))
        if isinstance(held, Symbol):
            self.trace.fail_if(held.name)
        elif held:
            self.trace.fail_if("True")

    def _assign(self, target: ast.expr, value: Any, frame: CallFrame) -> None:
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
        self, target: ast.expr, op: ast.operator, node: ast.expr, frame: CallFrame
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


@contextmanager
def _note_place(step: Any, frame: CallFrame) -> Iterator[None]:
    """Record where a function does what is refused, unless its callee does."""
    try:
        yield
    except RefusedError as refused:
        if not refused.place and isinstance(step, ast.AST):
            filename = path_to_show(frame.function.__code__.co_filename)
            refused.place = f"{filename}:{getattr(step, 'lineno', 0)}"
        raise
