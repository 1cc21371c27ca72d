"""Which names an expression, a function or a pattern uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from anabranch.analysis.scopes import COMPREHENSIONS, own_names, target_names

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
