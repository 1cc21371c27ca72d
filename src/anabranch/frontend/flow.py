"""Which variables a piece of code reads from before, and which it surely assigns.

The variables of a function that runs from top to bottom, with branches and loops inside.
Where it is not certain that a variable was assigned, it is taken to be read from before:
in a loop that means from an earlier turn.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from anabranch.frontend.naming import (
    captures,
    fits_all,
    free_names,
    name_of,
    names_read,
)

Sure: TypeAlias = frozenset[str] | None  # None: the code does not end here

_EAGER = frozenset(
    ("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum")
) | {"tuple", "join", "sort"}  # what they are given is used up when they return
_SWALLOWS = "suppress"  # the context manager that goes on behind its block


@dataclass(frozen=True)
class Flow:
    """What a piece of code does to variables; each with the first line of it.

    `reads` may come from before, `writes` may be assigned, `sure` is assigned whenever
    the code ends, and `captured` are seen by functions that it makes.
    """

    reads: dict[str, int] = field(default_factory=dict)
    writes: dict[str, int] = field(default_factory=dict)
    captured: dict[str, int] = field(default_factory=dict)
    sure: Sure = frozenset()


def flow_of(code: Sequence[ast.stmt], known: Iterable[str] = ()) -> Flow:
    r"""Return what statements do, where the variables in `known` are assigned already.

    >>> found = flow_of(ast.parse("if a:\n  b = 1\nelse:\n  c = b = 2\nd = c").body)
    >>> sorted(found.reads), sorted(found.writes), sorted(found.sure)
    (['a', 'c'], ['b', 'c', 'd'], ['b', 'd'])
    """
    walk = _Walk()
    sure = walk.block(code, frozenset(known))
    return Flow(walk.reads, walk.writes, walk.captured, sure)


def flow_of_expression(code: ast.expr) -> Flow:
    """Return what an expression does.

    >>> sorted(flow_of_expression(ast.parse("f(n for n in a)").body[0].value).reads)
    ['a', 'f']
    """
    walk = _Walk()
    sure = walk.expression(code, frozenset())
    return Flow(walk.reads, walk.writes, walk.captured, sure)


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
