"""Who else, among the functions of a program, writes to a name or an object.

A global may be read safely only if nobody in the modules of the program changes it while
a job runs. Functions that were analysed have said what they change; of the others any
use counts that is not plainly a reading one.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from anabranch.analysis.effects import Place
from anabranch.analysis.known import CHANGING_METHODS, PURE_METHODS, is_pure
from anabranch.analysis.objects import CONTAINERS, contents, is_scalar
from anabranch.analysis.scopes import outer_expressions, own_names
from anabranch.analysis.source import FunctionNode, ScopeNode, SourceFile
from anabranch.analysis.universe import CONSTRUCTION, file_of_globals


class Writers:
    """The functions of some modules, by name, that may write to what others read."""

    def __init__(self, modules: Mapping[str, dict[str, Any]]) -> None:
        self.modules = modules

    def who_rebinds(self, name: str, scope: Any) -> Place | None:
        """Return where a function rebinds a global or an enclosing variable, if any."""
        if scope is None:
            return self._who_assigns(name, of_module=False)
        for parsed, tree in self._trees(scope):
            for node, declared in _rebindings(tree):
                if name in declared:
                    return Place(parsed.file, node.lineno)
        if isinstance(scope, dict):
            return self._who_assigns(name, of_module=True)
        return None

    def _who_assigns(self, name: str, *, of_module: bool) -> Place | None:
        """Return where an attribute of that name is assigned after construction."""
        for names in self.modules.values():
            parsed = file_of_globals(names)
            for node in () if parsed is None else _assigned(parsed).get(name, ()):
                owner = getattr(node.value, "id", "")
                is_module = isinstance(names.get(owner), types.ModuleType)
                if parsed is not None and is_module >= of_module:
                    return Place(parsed.file, node.lineno)
        return None

    def who_may_change(
        self, name: str, scope: Any, target: Any, visited: Collection[FunctionNode]
    ) -> Place | None:
        """Return where a function that was not analysed may change a captured object.

        Any use of the name that is not plainly a reading one counts; where the object
        holds others that can change, any use at all.
        """
        held = contents(target) if isinstance(target, CONTAINERS) else None
        flat = held is not None and all(map(is_scalar, held))
        for parsed, tree in self._trees(scope):
            line = _escapes(parsed, tree, name, visited, flat=flat)
            if line is not None:
                return Place(parsed.file, line)
        for names in self.modules.values():
            module = file_of_globals(names)
            if module is None:
                continue
            aliases = [alias for alias, value in names.items() if value is target]
            for alias in aliases if scope is not None else [*aliases, name]:
                line = _escapes(module, module.tree, alias, visited, flat=flat)
                if line is not None:
                    return Place(module.file, line)
        return None

    def _trees(self, scope: Any) -> Iterator[tuple[SourceFile, ast.AST]]:
        """Yield the syntax tree in which the names of a scope are visible."""
        if isinstance(scope, dict):
            parsed = file_of_globals(scope)
            if parsed is not None:
                yield parsed, parsed.tree
        elif isinstance(scope, tuple):
            yield scope  # the file and the function that encloses it


@functools.lru_cache(maxsize=1024)
def _rebindings(tree: ast.AST) -> list[tuple[ast.Global | ast.Nonlocal, list[str]]]:
    """Return the declarations by which inner functions write to outer names."""
    kind = ast.Global if isinstance(tree, ast.Module) else ast.Nonlocal
    return [(node, node.names) for node in ast.walk(tree) if isinstance(node, kind)]


@functools.lru_cache(maxsize=512)
def _assigned(parsed: SourceFile) -> dict[str, list[ast.Attribute]]:
    """Return the attributes that functions assign, apart from constructors."""
    found: dict[str, list[ast.Attribute]] = {}
    for function in parsed.functions:
        if getattr(function, "name", "") in CONSTRUCTION:
            continue
        for node in _without_inner_functions(function):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, []).append(node)
    return found


def _escapes(
    parsed: SourceFile,
    tree: ast.AST,
    name: str,
    visited: Collection[FunctionNode],
    *,
    flat: bool,
) -> int | None:
    """Return the line at which a function may change what `name` stands for."""
    for use in _uses(parsed, tree).get(name, ()):
        if use.function not in visited and not (flat and use.reading):
            return use.line
    return None


class _Use(NamedTuple):
    """An outer name in a function; `reading` if it plainly is not changed there."""

    function: FunctionNode
    line: int
    reading: bool


@functools.lru_cache(maxsize=1024)
def _uses(parsed: SourceFile, tree: ast.AST) -> dict[str, list[_Use]]:
    """Return the uses of outer names by the functions of a file, or in a function."""
    found: dict[str, list[_Use]] = {}
    for function in parsed.functions:
        if tree is not parsed.tree and not _lies_in(parsed, function, tree):
            continue
        nodes = list(_without_inner_functions(function))
        reading = _reading_uses(nodes)
        for node in nodes:
            name = _outer_name(node, function)
            if name is not None:
                use = _Use(function, node.lineno, node in reading)  # type: ignore[attr-defined]
                found.setdefault(name, []).append(use)
    return found


def _lies_in(parsed: SourceFile, function: ScopeNode, outer: ast.AST) -> bool:
    scope = parsed.enclosing.get(function)
    while scope is not None and scope is not outer:
        scope = parsed.enclosing.get(scope)
    return scope is outer


def _without_inner_functions(function: FunctionNode) -> Iterator[ast.AST]:
    body = function.body
    waiting: list[ast.AST] = [*body] if isinstance(body, list) else [body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting.extend(outer_expressions(node))
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _outer_name(node: ast.AST, function: FunctionNode) -> str | None:
    match node:
        case ast.Name(id=name) if name not in own_names(function):
            return name
        case ast.Attribute(attr=name):
            return name
    return None


def _reading_uses(nodes: list[ast.AST]) -> set[ast.AST]:
    """Return the expressions that stand where they can only be read."""
    found: set[ast.AST] = set()
    for node in nodes:
        match node:
            case ast.Subscript(value=value, ctx=ast.Load()):
                found.add(value)
            case ast.Call(func=ast.Attribute(value=value, attr=attr)):
                if attr in PURE_METHODS - CHANGING_METHODS:
                    found.add(value)
            case ast.Call(func=ast.Name(id=name), args=args):
                if is_pure(getattr(builtins, name, None)) and name != "next":
                    found.update(args)
            case ast.Compare(left=left, comparators=others):
                found.update((left, *others))
            case (
                ast.For(iter=value)
                | ast.comprehension(iter=value)
                | ast.If(test=value)
                | ast.IfExp(test=value)
                | ast.While(test=value)
                | ast.FormattedValue(value=value)
            ):
                found.add(value)
    return found
