"""Which variables go from stage to stage, and which a stage keeps for its next turn.

A variable that is read before it is assigned in a turn has its value from an earlier
turn, or from before the loop. If a single stage does that with a variable of its own, the
variable is the state of this stage. If it goes from one stage to another, the turns
depend on one another across stages, and that is refused.

A function runs from top to bottom, with branches and loops inside. Where it is not certain
that a variable was assigned, it counts as read from before: in a loop, from an earlier
turn.

Stages must not reach one another through an object either. They run at the same time,
each on an item of its own: if one may change an object that another one looks at, then
what the other one sees depends on which is ahead. `why_shared` refuses such loops.
"""

from __future__ import annotations

import ast
import itertools
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from anabranch.errors import LoopError
from anabranch.graph.graph import Graph
from anabranch.language.loop.read_loop import MarkedLoop, Stage
from anabranch.python.analyze import learn, roots_of
from anabranch.python.interpret import follow
from anabranch.python.objects import CALLABLES, is_scalar
from anabranch.python.source import COMPREHENSIONS, own_names, target_names
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    Arguments,
    Effect,
    Findings,
    Fresh,
    Heap,
    Known,
    Read,
    Value,
)


@dataclass(frozen=True)
class Wires:
    """What goes into a stage and out of it, and what it keeps; sorted by name."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True)
class Wiring:
    """What the head of a loop keeps for itself and gives, and the wires of stages."""

    head_kept: tuple[str, ...]
    head_outputs: tuple[str, ...]
    stages: tuple[Wires, ...]


def wire(loop: MarkedLoop) -> Wiring:
    """Return what goes where; refuse what depends on other turns of other stages."""
    return _Wirer(loop).wiring()


class _Wirer:
    def __init__(self, loop: MarkedLoop) -> None:
        self.loop = loop
        before = flow_of(loop.before)
        self.bound = {*loop.parameters, *before.writes}
        self.flows = [flow_of(stage.body) for stage in loop.stages]
        self.head = self._head()

    def _head(self) -> VariableFlow:
        """Return the flow of what runs before the first stage, in every turn."""
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
        before: list[set[str]] = []  # what there is when a stage begins
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
        """Return the variables that the head hands on to its next turn."""
        reads = dict(self.head.reads)
        if isinstance(self.loop.loop, ast.For):  # evaluated once, before the first turn
            for name in flow_of_expression(self.loop.loop.iter).reads:
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
        """Return the variables that a stage hands on to its own next turn."""
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
        """Refuse functions that would see a variable change behind their back."""
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
) | {"tuple", "join", "sort"}  # what they are given is used up when they return
_SWALLOWS = "suppress"  # the context manager that goes on behind its block


@dataclass(frozen=True)
class VariableFlow:
    """What a piece of code does to variables; each with the first line of it.

    `reads` may come from before, `writes` may be assigned, `sure` is assigned whenever
    the code ends, and `captured` are seen by functions that it makes.
    """

    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    captured: dict[str, int] = field(default_factory=dict)
    sure: Sure = frozenset()


def flow_of(code: Sequence[ast.stmt], known: Iterable[str] = ()) -> VariableFlow:
    r"""Return what statements do, where the variables in `known` are assigned already.

    >>> found = flow_of(ast.parse("if a:\n  b = 1\nelse:\n  c = b = 2\nd = c").body)
    >>> sorted(found.reads), sorted(found.writes), sorted(found.sure)
    (['a', 'c'], ['b', 'c', 'd'], ['b', 'd'])
    """
    walk = _Walk()
    sure = walk.block(code, frozenset(known))
    return VariableFlow(walk.reads, walk.writes, walk.captured, sure)


def flow_of_expression(code: ast.expr) -> VariableFlow:
    """Return what an expression does.

    >>> sorted(flow_of_expression(ast.parse("f(n for n in a)").body[0].value).reads)
    ['a', 'f']
    """
    walk = _Walk()
    sure = walk.expression(code, frozenset())
    return VariableFlow(walk.reads, walk.writes, walk.captured, sure)


class _Walk:
    """Follows code in the order in which it runs."""

    def __init__(self) -> None:
        self.reads: dict[str, int] = {}
        self.writes: dict[str, int] = {}
        self.captured: dict[str, int] = {}
        self._breaks: list[list[Sure]] = []  # of the loops around, innermost last

    def block(self, code: Sequence[ast.stmt], sure: Sure) -> Sure:
        for statement in code:
            if sure is None:
                return None
            sure = self._statement(statement, sure)
        return sure

    def _statement(  # noqa: C901, PLR0911, PLR0912 - one case for each kind
        self, node: ast.stmt, sure: frozenset[str]
    ) -> Sure:
        match node:
            case ast.Assign(targets=targets, value=value):
                sure = self.expression(value, sure)
                for target in targets:
                    sure = self._assign(target, sure)
                return sure
            case ast.AugAssign(target=target, value=value):
                if isinstance(target, ast.Name):
                    self._read(target.id, target.lineno, sure)
                return self._assign(target, self.expression(value, sure))
            case ast.AnnAssign(target=target, value=value):
                if value is None:
                    return sure
                return self._assign(target, self.expression(value, sure))
            case ast.If(test=test, body=body, orelse=orelse):
                sure = self.expression(test, sure)
                return _either(self.block(body, sure), self.block(orelse, sure))
            case ast.For() | ast.AsyncFor() | ast.While():
                return self._loop(node, sure)
            case (
                ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body)
            ):
                return self._with(items, body, sure)
            case ast.Try() | ast.TryStar():
                return self._try(node, sure)
            case ast.Match(subject=subject, cases=cases):
                return self._match(self.expression(subject, sure), cases)
            case ast.Return(value=value):
                self.expression(value, sure)
                return None
            case ast.Raise(exc=exc, cause=cause):
                self.expression(cause, self.expression(exc, sure))
                return None
            case ast.Break():
                if self._breaks:
                    self._breaks[-1].append(sure)
                return None
            case ast.Continue():
                return None
            case ast.Delete(targets=targets):
                for target in targets:
                    sure = self._delete(target, sure)
                return sure
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                bound = [(a.asname or a.name).partition(".")[0] for a in names]
                return self._bind(bound, node.lineno, sure)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self._definition(node, sure)
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                sure = self.expression(child, sure)
        return sure

    def expression(  # noqa: PLR0911 - one case for each kind
        self, node: ast.expr | None, sure: frozenset[str]
    ) -> frozenset[str]:
        match node:
            case None:
                return sure
            case ast.Name(id=name, lineno=line):
                self._read(name, line, sure)
                return sure
            case ast.NamedExpr(target=target, value=value):
                return self._assign(target, self.expression(value, sure))
            case ast.BoolOp(values=[first, *rest]):
                sure = self.expression(first, sure)
                inner = sure
                for value in rest:
                    inner = self.expression(value, inner)
                return sure
            case ast.IfExp(test=test, body=body, orelse=orelse):
                sure = self.expression(test, sure)
                one, other = self.expression(body, sure), self.expression(orelse, sure)
                return one & other
            case ast.Call(func=func) if name_of(func) in _EAGER:
                before = dict(self.captured)
                sure = self._parts(node, sure)
                self.captured = before
                return sure
            case ast.Lambda(args=args):
                sure = self._defaults(args, sure)
                self._capture(node, sure)
                return sure
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return self._comprehension(node, sure)
        return self._parts(node, sure)

    def _parts(self, node: ast.expr, sure: frozenset[str]) -> frozenset[str]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                sure = self.expression(child, sure)
            elif isinstance(child, ast.keyword):
                sure = self.expression(child.value, sure)
        return sure

    def _read(self, name: str, line: int, sure: frozenset[str]) -> None:
        if name not in sure:
            self.reads.setdefault(name, line)

    def _bind(
        self, names: Iterable[str], line: int, sure: frozenset[str]
    ) -> frozenset[str]:
        for name in names:
            self.writes.setdefault(name, line)
        return sure.union(names)

    def _assign(self, target: ast.expr, sure: frozenset[str]) -> frozenset[str]:
        match target:
            case ast.Name(id=name, lineno=line):
                return self._bind([name], line, sure)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    sure = self._assign(part, sure)
                return sure
            case ast.Starred(value=value):
                return self._assign(value, sure)
        return self.expression(target, sure)  # an attribute, or an element

    def _delete(self, target: ast.expr, sure: frozenset[str]) -> frozenset[str]:
        if not isinstance(target, ast.Name):
            return self.expression(target, sure)
        self._read(target.id, target.lineno, sure)
        self.writes.setdefault(target.id, target.lineno)
        return sure - {target.id}

    def _loop(
        self, node: ast.For | ast.AsyncFor | ast.While, sure: frozenset[str]
    ) -> Sure:
        self._breaks.append([])
        ends = True
        if isinstance(node, ast.While):
            sure = self.expression(node.test, sure)
            ends = not (isinstance(node.test, ast.Constant) and node.test.value)
            self.block(node.body, sure)
        else:
            sure = self.expression(node.iter, sure)
            self.block(node.body, self._assign(node.target, sure))
        broken = self._breaks.pop()
        after = self.block(node.orelse, sure) if ends else None
        for one in broken:
            after = _either(after, one)
        return after

    def _with(
        self, items: list[ast.withitem], body: list[ast.stmt], sure: frozenset[str]
    ) -> Sure:
        for item in items:
            sure = self.expression(item.context_expr, sure)
            if item.optional_vars is not None:
                sure = self._assign(item.optional_vars, sure)
        after = self.block(body, sure)
        if any(_SWALLOWS in ast.unparse(item.context_expr) for item in items):
            return sure
        return after

    def _try(self, node: ast.Try | ast.TryStar, sure: frozenset[str]) -> Sure:
        after = self.block(node.orelse, self.block(node.body, sure))
        for handler in node.handlers:
            inner = self.expression(handler.type, sure)
            if handler.name is not None:
                inner = self._bind([handler.name], handler.lineno, inner)
            left = self.block(handler.body, inner)
            if left is not None and handler.name is not None:
                left -= {handler.name}  # Python forgets it behind the handler
            after = _either(after, left)
        finally_ = self.block(node.finalbody, sure)
        if finally_ is None or after is None:
            return None
        return after | finally_

    def _match(self, sure: frozenset[str], cases: list[ast.match_case]) -> Sure:
        after: Sure = None
        whole = False
        for case in cases:
            inner = self._bind([*captures(case.pattern)], case.pattern.lineno, sure)
            inner = self.expression(case.guard, inner)
            after = _either(after, self.block(case.body, inner))
            whole = whole or (case.guard is None and fits_all(case.pattern))
        return after if whole else _either(after, sure)

    def _definition(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        sure: frozenset[str],
    ) -> frozenset[str]:
        for decorator in node.decorator_list:
            sure = self.expression(decorator, sure)
        if isinstance(node, ast.ClassDef):
            for base in (*node.bases, *(word.value for word in node.keywords)):
                sure = self.expression(base, sure)
        else:
            sure = self._defaults(node.args, sure)
        self._capture(node, sure)
        return self._bind([node.name], node.lineno, sure)

    def _defaults(self, args: ast.arguments, sure: frozenset[str]) -> frozenset[str]:
        for default in (*args.defaults, *args.kw_defaults):
            sure = self.expression(default, sure)
        return sure

    def _capture(self, node: ast.AST, sure: frozenset[str]) -> None:
        for name, line in free_names(node).items():
            self.captured.setdefault(name, line)
            self._read(name, line, sure)

    def _comprehension(self, node: ast.expr, sure: frozenset[str]) -> frozenset[str]:
        found: dict[str, int] = {}
        names_read(node, frozenset(), found)
        for name, line in found.items():
            self._read(name, line, sure)
        if isinstance(node, ast.GeneratorExp):  # all but the first iterator runs later
            first = node.generators[0].iter
            now: dict[str, int] = {}
            names_read(first, frozenset(), now)
            for name in found.keys() - now.keys():
                self.captured.setdefault(name, found[name])
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self.writes.setdefault(child.target.id, child.lineno)
        return sure


def _either(one: Sure, other: Sure) -> Sure:
    if one is None or other is None:
        return other if one is None else one
    return one & other


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def free_names(node: ast.AST) -> dict[str, int]:
    """Return the names that a function or class takes from outside, with their lines.

    >>> list(free_names(ast.parse("lambda x: x + y").body[0].value))
    ['y']
    """
    own = own_names(node) if isinstance(node, _FUNCTIONS) else frozenset()
    body = getattr(node, "body", [])
    found: dict[str, int] = {}
    for part in body if isinstance(body, list) else [body]:
        names_read(part, own, found)
    return found


def names_read(node: ast.AST, own: frozenset[str], found: dict[str, int]) -> None:
    """Find the names that code reads, but for its own; those inside functions too."""
    inner = own
    if isinstance(node, _FUNCTIONS):
        inner = own | own_names(node)
    elif isinstance(node, COMPREHENSIONS):
        inner = own.union(*(target_names(one.target) for one in node.generators))
        names_read(node.generators[0].iter, own, found)  # is evaluated outside
    if (
        isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Load)
        and node.id not in own
    ):
        found.setdefault(node.id, node.lineno)
    for child in ast.iter_child_nodes(node):
        names_read(child, inner, found)


def name_of(function: ast.expr) -> str | None:
    """Return the name by which a function or method is called."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


def captures(pattern: ast.pattern) -> Iterator[str]:
    """Yield the names that a pattern binds."""
    for node in ast.walk(pattern):
        name = getattr(
            node, "rest" if isinstance(node, ast.MatchMapping) else "name", 0
        )
        if isinstance(name, str):
            yield name


def fits_all(pattern: ast.pattern) -> bool:
    """Tell whether a pattern fits whatever comes."""
    return isinstance(pattern, ast.MatchAs) and pattern.pattern is None


MOST_VARIABLES = 32  # that go from stage to stage and are looked at


def why_shared(graph: Graph, operators: Sequence[str]) -> LoopError | None:
    """Return why some operators, the parts of a loop, cannot run at the same time."""
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
            return LoopError(
                f"{read.file}:{read.line}: {looking} uses {read.name}, which {changing} "
                f"may change ({effect.file}:{effect.line}: {effect.text}): they run at "
                "the same time; keep what uses it in one stage, or say replicate=True "
                "of the stage that does not change anything"
            )
    return None


def why_given_again(graph: Graph, source: str) -> LoopError | None:
    """Return why what a source gives may change while a stage still works on it.

    Code that gives the same object in every turn, and changes it in between, may do so
    in a loop, where a turn is over before the next one begins; not in a stream.
    """
    (code,) = graph[source].kind.user_code
    found, value = follow(Universe(roots_of(graph)), code.function, Arguments())
    effect = _effect([found])
    if effect is None:
        return None
    for root in _inside(found.heap, _inside(found.heap, value)):
        if not isinstance(root, Known) or is_scalar(root.obj):
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
    """Return what a value is, and what lies in the objects that were made here."""
    found = set(value)
    for root in value:
        if isinstance(root, Fresh):
            for place in (ELEMENTS, *(f"[{n}]" for n in range(MOST_VARIABLES))):
                found |= heap.get(root.site, place)
    return frozenset(found)


def _effect(found: Sequence[Findings]) -> Effect | None:
    """Return what may change an object, if anything; what is only impure does not."""
    effects = [effect for one in found for effect in one.effects]
    kinds = ("changes", "unknown")
    return min(
        (effect for effect in effects if effect.kind in kinds),
        key=lambda effect: (kinds.index(effect.kind), effect.line),
        default=None,
    )


def _common(one: Sequence[Findings], other: Sequence[Findings]) -> Read | None:
    """Return an object that both look at and that could be changed."""
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
