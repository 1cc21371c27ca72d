"""The variables that go from stage to stage, and those that are a stage's state.

A variable that is read before it is assigned in an iteration has its value from an
earlier one, or from before the loop. If a single stage does that with a variable of its
own, the variable is the state of this stage. If it goes from one stage to another,
iterations depend on one another across stages, and that is refused.

A function runs from top to bottom, with nested branches and loops. If it is not certain
that a variable was assigned, it counts as read from before: in a loop, from an earlier
iteration.

Stages must not interact through an object either. They run at the same time, each on an
item of its own: if one may change an object that another one reads, the result depends
on timing. `why_shared` refuses such loops.
"""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from anabranch.errors import LoopError
from anabranch.graph.graph import Graph
from anabranch.language.loop.read_loop import MarkedLoop, Stage
from anabranch.python import ir
from anabranch.python.analyze import learn, roots_of
from anabranch.python.interpret import follow
from anabranch.python.lower import lower_statements
from anabranch.python.objects import CALLABLES, is_scalar
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    Arguments,
    Effect,
    Existing,
    Findings,
    Fresh,
    Heap,
    Read,
    Value,
)


@dataclass(frozen=True)
class Wires:
    """The inputs, outputs and state of a stage; sorted by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Wiring:
    """The state and outputs of a loop's head, and the wires of stages."""

    head_kept: tuple[str, ...]
    head_outputs: tuple[str, ...]
    stages: tuple[Wires, ...]


def wire(loop: MarkedLoop) -> Wiring:
    """Connect the stages; refuse dependencies on other stages' earlier iterations."""
    return _Wirer(loop).wiring()


class _Wirer:
    def __init__(self, loop: MarkedLoop) -> None:
        self.loop = loop
        before = flow_of(loop.before)
        self.bound = {*loop.parameters, *before.writes}
        self.flows = [flow_of(stage.body) for stage in loop.stages]
        self.head = self._head()

    def _head(self) -> VariableFlow:
        """Return the variable flow of the code before the first stage, in every
        iteration.
        """
        loop = self.loop.loop
        if isinstance(loop, ast.While):
            test = ast.copy_location(ast.Expr(loop.test), loop.test)
            return flow_of([test, *self.loop.head])
        target = ast.Assign([loop.target], ast.Constant(None))
        return flow_of([ast.copy_location(target, loop.target), *self.loop.head])

    def wiring(self) -> Wiring:
        head_kept = self._head_kept()
        there = set(self.head.sure or ()) | set(head_kept)
        kept: list[set[str]] = []
        before: list[set[str]] = []  # available when a stage begins
        for number in range(len(self.flows)):
            before.append(set(there))
            kept.append(self._find_kept(number, there))
            there |= set(self.flows[number].sure or ()) | kept[-1]
        wires: list[Wires] = []
        live = set(self._last_outputs(there))
        for number in reversed(range(len(self.flows))):
            stage, flow = self.loop.stages[number], self.flows[number]
            self._check_marks(stage, flow, before[number], live)
            given = set(flow.sure or ()) | kept[number]
            needed = (set(flow.reads) & before[number]) | (live - given)
            wires.append(
                Wires(
                    tuple(sorted(needed)),
                    tuple(sorted(live)),
                    tuple(sorted(kept[number])),
                )
            )
            live = needed
        self._refuse_captures()
        return Wiring(head_kept, tuple(sorted(live)), tuple(reversed(wires)))

    def _head_kept(self) -> tuple[str, ...]:
        """Return the variables that the head carries to its next iteration."""
        reads = dict(self.head.reads)
        # evaluated once, before the first iteration
        if isinstance(self.loop.loop, ast.For):
            iterated = ast.copy_location(ast.Expr(self.loop.loop.iter), self.loop.loop)
            for name in flow_of([iterated]).reads:
                if name in self.head.writes and name in self.bound:
                    reads.setdefault(name, self.loop.loop.lineno)
        for name, line in reads.items():
            for flow in self.flows:
                if name in flow.writes:
                    raise self._refuse_carried(name, line, flow.writes[name])
            if name in self.head.writes and name not in self.bound:
                raise self._refuse_unbound(name, line)
        return tuple(sorted(set(reads) & set(self.head.writes)))

    def _find_kept(self, number: int, there: set[str]) -> set[str]:
        """Return the variables that a stage carries to its own next iteration."""
        flow, kept = self.flows[number], set[str]()
        parts = [self.head, *self.flows]
        for name, line in flow.reads.items():
            writing = [n - 1 for n, part in enumerate(parts) if name in part.writes]
            if name in there or not writing:
                continue
            if writing != [number]:
                other = next(n for n in writing if n != number)
                raise self._refuse_carried(name, line, parts[other + 1].writes[name])
            if name not in self.bound:
                raise self._refuse_unbound(name, line)
            kept.add(name)
        return kept

    def _last_outputs(self, there: set[str]) -> tuple[str, ...]:
        last = self.loop.stages[-1]
        for name in last.outputs or ():
            if name not in there:
                reason = f"the stage gives {name}, which is not surely assigned"
                fix = "assign it in every turn"
                raise self.loop.place.refuse(last.line, reason, fix)
        return last.outputs or ()

    def _check_marks(
        self, stage: Stage, flow: VariableFlow, before: set[str], live: set[str]
    ) -> None:
        if stage.inputs is not None:
            self._check_inputs(stage, stage.inputs, flow, before)
        if stage.outputs is not None:
            self._check_outputs(stage, stage.outputs, flow, before, live)

    def _check_inputs(
        self,
        stage: Stage,
        inputs: tuple[str, ...],
        flow: VariableFlow,
        before: set[str],
    ) -> None:
        refuse = self.loop.place.refuse
        for name, line in flow.reads.items():
            if name in before and name not in inputs:
                reason = f"the stage reads {name}, which its inputs do not name"
                raise refuse(line, reason, "add it to inputs, or leave inputs out")
        for name in inputs:
            if name not in before | self.bound:
                reason = f"the inputs name {name}, which nothing before it assigns"
                raise refuse(stage.line, reason, "take it out of inputs")

    def _check_outputs(
        self,
        stage: Stage,
        outputs: tuple[str, ...],
        flow: VariableFlow,
        before: set[str],
        live: set[str],
    ) -> None:
        refuse = self.loop.place.refuse
        for name in sorted(live):
            if name in flow.writes and name not in outputs:
                reason = (
                    f"the stage assigns {name}, which a later stage reads, "
                    "but its outputs do not name it"
                )
                fix = "add it to outputs, or leave outputs out"
                raise refuse(flow.writes[name], reason, fix)
        for name in outputs:
            if name not in before | set(flow.writes):
                reason = f"the outputs name {name}, which the stage does not assign"
                raise refuse(stage.line, reason, "take it out of outputs")

    def _refuse_captures(self) -> None:
        """Refuse functions that would see a variable change later."""
        flows = [self.head, *self.flows]
        for number, flow in enumerate(flows):
            later = flows[number:] if flow is self.head else flows[number + 1 :]
            for name, line in flow.captured.items():
                lines = [one.writes[name] for one in later if name in one.writes]
                if lines:
                    reason = (
                        f"a function or generator made here sees {name}, which line "
                        f"{lines[0]} assigns while it may still be used"
                    )
                    fix = f"give it the value, as in `lambda x, {name}={name}: ...`"
                    raise self.loop.place.refuse(line, reason, fix)

    def _refuse_carried(self, name: str, line: int, assigned: int) -> LoopError:
        reason = (
            f"{name} may have its value from an earlier turn, in which line {assigned} "
            "assigned it: turns of different stages run at the same time"
        )
        fix = f"assign {name} in every turn before it is read, or in the same stage"
        return self.loop.place.refuse(line, reason, fix)

    def _refuse_unbound(self, name: str, line: int) -> LoopError:
        reason = f"{name} may be read before it is assigned"
        return self.loop.place.refuse(line, reason, "assign it before the loop")


Sure: TypeAlias = frozenset[str] | None  # None: the code does not end here

_EAGER = frozenset(
    ("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum")
) | {"tuple", "join", "sort"}  # their arguments are consumed when they return
_SWALLOWS = "suppress"  # the context manager that swallows errors


@dataclass(frozen=True)
class VariableFlow:
    """The effect of a piece of code on variables; each with its first line.

    `reads` may come from before, `writes` may be assigned, `sure` is assigned whenever
    the code ends, and `captured` are seen by functions it makes.
    """

    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    captured: dict[str, int] = field(default_factory=dict)
    sure: Sure = frozenset()


def flow_of(code: Sequence[ast.stmt]) -> VariableFlow:
    r"""Return the reads and writes of statements.

    >>> found = flow_of(ast.parse("if a:\n  b = 1\nelse:\n  c = b = 2\nd = c").body)
    >>> sorted(found.reads), sorted(found.writes), sorted(found.sure)
    (['a', 'c'], ['b', 'c', 'd'], ['b', 'd'])
    """
    lowered = lower_statements(code)
    walk = _Walk(lowered)
    sure = walk.block(lowered.body, frozenset())
    return VariableFlow(walk.reads, walk.writes, walk.captured, sure)


class _Walk:
    """Follows instructions in execution order."""

    def __init__(self, function: ir.Function) -> None:
        self.function = function
        self.reads: dict[str, int] = {}
        self.writes: dict[str, int] = {}
        self.captured: dict[str, int] = {}
        self._breaks: list[list[Sure]] = []  # of the loops around, innermost last

    def block(self, block: ir.Block, sure: Sure) -> Sure:
        for one in block:
            if sure is None:
                return None
            sure = self._step(one, sure)
        return sure

    def _step(  # noqa: C901, PLR0911, PLR0912 - one case for each kind
        self, one: ir.Instruction, sure: frozenset[str]
    ) -> Sure:
        match one:
            case ir.LoadName(name=name):
                self._read(name, one.line, sure)
            case ir.Store(name=name):
                return self._bind(name, one.line, sure)
            case ir.Delete(name=name):
                self._read(name, one.line, sure)
                return self._bind(name, one.line, sure) - {name}
            case ir.MakeFunction(target=target, function=made):
                self._capture(made, sure, kept=not self._is_used_up(target))
            case ir.MakeClass(body=made):
                self._capture(made, sure, kept=True)
            case ir.If(then=then, orelse=orelse):
                return _either(self.block(then, sure), self.block(orelse, sure))
            case ir.For() | ir.While():
                return self._loop(one, sure)
            case ir.With(body=body):
                after = self.block(body, sure)
                return sure if self._swallows(one) else after
            case ir.Try():
                return self._try(one, sure)
            case ir.Return() | ir.Raise() | ir.Continue():
                return None
            case ir.Break():
                if self._breaks:
                    self._breaks[-1].append(sure)
                return None
            case ir.Unknown(at=at):
                for node in ast.walk(at):
                    if isinstance(node, ast.Name):
                        self._read(node.id, node.lineno, sure)
        return sure

    def _read(self, name: str, line: int, sure: frozenset[str]) -> None:
        if name not in sure and "%" not in name:
            self.reads.setdefault(name, line)

    def _bind(self, name: str, line: int, sure: frozenset[str]) -> frozenset[str]:
        if "%" in name:  # of a comprehension, or a register
            return sure
        self.writes.setdefault(name, line)
        return sure | {name}

    def _loop(self, one: ir.For | ir.While, sure: frozenset[str]) -> Sure:
        self._breaks.append([])
        ends = True
        if isinstance(one, ir.While):
            sure = self.block(one.head, sure) or frozenset()
            made = self.function.maker_of(one.test)
            ends = not (isinstance(made, ir.Const) and made.value)
        self.block(one.body, sure)
        broken = self._breaks.pop()
        after = self.block(one.orelse, sure) if ends else None
        for each in broken:
            after = _either(after, each)
        return after

    def _swallows(self, one: ir.With) -> bool:
        """Tell whether a context manager may swallow an error."""
        match self.function.maker_of(one.manager):
            case ir.Call(function=called):
                made = self.function.maker_of(called)
                return _SWALLOWS in getattr(made, "name", "")
        return False

    def _try(self, one: ir.Try, sure: frozenset[str]) -> Sure:
        after = self.block(one.orelse, self.block(one.body, sure))
        for handler in one.handlers:
            left = self.block((*handler.head, *handler.body), sure)
            after = _either(after, left)
        final = self.block(one.final, sure)
        if final is None or after is None:
            return None
        return after | final

    def _capture(self, made: ir.Function, sure: frozenset[str], *, kept: bool) -> None:
        """Record the variables that a nested function captures."""
        for one in ir.walk(made.body):
            match one:
                case ir.LoadName(name=name) if name not in made.own and "%" not in name:
                    self._read(name, one.line, sure)
                    if kept:
                        self.captured.setdefault(name, one.line)
                case ir.Store(name=name) if name not in made.own and "%" not in name:
                    self.writes.setdefault(name, one.line)
                case ir.MakeFunction(function=inner) | ir.MakeClass(body=inner):
                    self._capture(inner, sure | made.own, kept=kept)

    def _is_used_up(self, register: ir.Register) -> bool:
        """Tell whether a function, or something made of it, ends in a call that
        consumes it.
        """
        users = self.function.users.get(register, ())
        return bool(users) and all(self._uses_up(each) for each in users)

    def _uses_up(self, user: ir.Instruction) -> bool:
        if isinstance(user, ir.Call):
            made = self.function.maker_of(user.function)
            if getattr(made, "name", "") in _EAGER:
                return True
        return isinstance(user, ir.Call | ir.Build) and self._is_used_up(user.target)


def _either(one: Sure, other: Sure) -> Sure:
    if one is None or other is None:
        return other if one is None else one
    return one & other


MOST_VARIABLES = 32  # passed from stage to stage and read


def why_shared(graph: Graph, operators: Sequence[str]) -> LoopError | None:
    """Return why the parts of a loop cannot run at the same time, or None."""
    findings = learn(graph).findings
    found = {name: findings.get(name, ()) for name in operators}
    for changing, looking in itertools.permutations(operators, 2):
        effect = _effect(found[changing])
        if effect is None:
            continue
        read = _common(found[changing], found[looking]) or _rebound(
            found[changing], found[looking]
        )
        if read is not None:
            trust = f", or say replicate=True of {changing} if it changes nothing"
            return LoopError(
                f"{read.file}:{read.line}: {looking} uses {read.name}, which {changing} "
                f"may change ({effect.file}:{effect.line}: {effect.text}): they run at "
                "the same time; keep what uses it in one stage"
                f"{trust if effect.kind == 'unknown' else ''}"
            )
    return None


def why_given_again(graph: Graph, source: str) -> LoopError | None:
    """Return why a source's item may change while a stage still works on it, or None.

    Code may emit the same object in every iteration, and change it in between, in a
    loop, where an iteration ends before the next begins; not in a stream.
    """
    (code,) = graph[source].kind.user_code
    found, value = follow(Universe(roots_of(graph)), code.function, Arguments())
    effect = _effect([found])
    if effect is None:
        return None
    for root in _inside(found.heap, _inside(found.heap, value)):
        if not isinstance(root, Existing) or is_scalar(root.obj):
            continue
        if isinstance(root.obj, (*CALLABLES, types.ModuleType, type)):
            continue
        site = graph[source].site
        return LoopError(
            f"{site}: {source} gives {root.text} again in every turn, and may change it "
            f"({effect.file}:{effect.line}: {effect.text}) while a stage still works "
            "on it; give a copy of it"
        )
    return None


def _inside(heap: Heap, value: Value) -> Value:
    """Return a value, and the contents of objects made here."""
    found = set(value)
    for root in value:
        if isinstance(root, Fresh):
            for place in (ELEMENTS, *(f"[{n}]" for n in range(MOST_VARIABLES))):
                found |= heap.get(root.site, place)
    return frozenset(found)


def _effect(found: Sequence[Findings]) -> Effect | None:
    """Return the cause of a change to an object, if any; mere impurity is none."""
    effects = [effect for one in found for effect in one.effects]
    kinds = ("changes", "unknown")
    return min(
        (effect for effect in effects if effect.kind in kinds),
        key=lambda effect: (kinds.index(effect.kind), effect.line),
        default=None,
    )


def _common(one: Sequence[Findings], other: Sequence[Findings]) -> Read | None:
    """Return an object that both read and that could be changed."""
    ours = {target for findings in one for target in _find_touched(findings)}
    for findings in other:
        for target, read in _find_touched(findings).items():
            if target in ours:
                return read
    return None


def _find_touched(found: Findings) -> Mapping[int, Read]:
    return {
        target: read
        for target, read in found.touched.items()
        if not is_scalar(read.target)
        and not isinstance(read.target, (*CALLABLES, types.ModuleType, type))
    }


def _rebound(one: Sequence[Findings], other: Sequence[Findings]) -> Read | None:
    """Return a name that `other` reads and a function of `one` assigns."""
    assigned = {place for findings in one for place in findings.rebinds}
    for findings in other:
        for (name, scope, _), read in findings.reads.items():
            if (name, scope) in assigned:
                return read
    return None
