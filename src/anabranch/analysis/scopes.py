"""Which names a function makes its own, which it takes from outside."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from anabranch.analysis.source import FunctionNode

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, *COMPREHENSIONS)


def nodes_of_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function that run in its own scope.

    Of functions inside it only the decorators and defaults do; a comprehension is a
    scope of its own, but what it assigns with := is not.
    """
    body = getattr(node, "body", [])
    waiting: list[ast.AST] = [*body] if isinstance(body, list) else [body]
    while waiting:
        child = waiting.pop()
        yield child
        if not isinstance(child, _SCOPES):
            waiting.extend(ast.iter_child_nodes(child))
        elif isinstance(child, COMPREHENSIONS):
            yield from _walruses(child)
        elif isinstance(child, _FUNCTIONS):
            waiting.extend(outer_expressions(child))


def outer_expressions(node: FunctionNode) -> list[ast.expr]:
    """Return what is evaluated where a function is defined, not when it runs."""
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    defaults = [*node.args.defaults, *node.args.kw_defaults]
    return [*decorators, *(d for d in defaults if d is not None)]


def _walruses(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.walk(node):
        if isinstance(child, ast.NamedExpr):
            yield child.target


@functools.lru_cache(maxsize=4096)
def own_names(node: FunctionNode) -> frozenset[str]:
    r"""Return the names that are local to a function.

    >>> f = ast.parse("def f(a):\n global g\n g = b = [c for c in a]").body[0]
    >>> sorted(own_names(f))
    ['a', 'b']
    """
    names = set(parameter_names(node.args))
    outer: set[str] = set()
    for child in nodes_of_scope(node):
        names.update(bound_names(child))
        if isinstance(child, ast.Global | ast.Nonlocal):
            outer.update(child.names)
    return frozenset(names - outer)


def bound_names(node: ast.AST) -> list[str]:
    """Return the names that a node itself binds, without those below it.

    >>> bound_names(ast.parse("import os.path").body[0])
    ['os']
    """
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return [name]
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case (
            ast.ClassDef(name=name)
            | ast.ExceptHandler(name=str(name))
            | ast.MatchAs(name=str(name))
            | ast.MatchStar(name=str(name))
        ):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return [(a.asname or a.name).partition(".")[0] for a in aliases]
    return []


@functools.lru_cache(maxsize=4096)
def declared_global(node: FunctionNode) -> frozenset[str]:
    """Return the names that a function declares to be global."""
    return frozenset(
        name
        for child in nodes_of_scope(node)
        if isinstance(child, ast.Global)
        for name in child.names
    )


@functools.lru_cache(maxsize=4096)
def is_generator(node: FunctionNode) -> bool:
    """Tell whether calling the function gives a generator."""
    return any(
        isinstance(child, ast.Yield | ast.YieldFrom) for child in nodes_of_scope(node)
    )


def parameter_names(args: ast.arguments) -> list[str]:
    """Return the names of all parameters."""
    listed = [*args.posonlyargs, *args.args, *args.kwonlyargs]
    stars = [star for star in (args.vararg, args.kwarg) if star is not None]
    return [arg.arg for arg in [*listed, *stars]]


def target_names(target: ast.AST) -> frozenset[str]:
    """Return the names that an assignment to `target` binds."""
    return frozenset(
        node.id
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
