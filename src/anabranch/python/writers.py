"""Writers: the other functions of a program that write to a name or an object.

A global may be read safely only if nothing changes it while a job runs. Functions that
operators call were analyzed and have stated their changes. Of the others, those count
that are passed somewhere and may be called back: a function only ever called by name,
from code that no operator runs, has finished when the job starts. So the attributes
assigned by a constructor or `fit`, and a table filled at import, are read-only from
then on. If an operator runs code that cannot be followed, all functions count, with any
use that is not plainly a read.
"""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from anabranch.python.known import CHANGING_METHODS, PURE_METHODS, is_pure
from anabranch.python.objects import CONTAINERS, can_never_change, contents
from anabranch.python.source import (
    FunctionNode,
    ScopeNode,
    SourceFile,
    outer_expressions,
    own_names,
)
from anabranch.python.universe import CONSTRUCTION, files_of_globals
from anabranch.python.values import Findings, Place, scope_id


class Writers:
    """The functions of some modules, by name, that may write to what others read."""

    def __init__(
        self,
        modules: Mapping[str, dict[str, Any]],
        visited: Collection[FunctionNode] = (),
        believed: Collection[FunctionNode] = (),
    ) -> None:
        self.modules = modules
        self._visited = visited
        self._believed = believed  # declared, so not analyzed

    @functools.cached_property
    def _handed_on(self) -> frozenset[str]:
        """The names used somewhere in the program without being called."""
        files = [f for names in self.modules.values() for f in files_of_globals(names)]
        return find_handed_on(files)

    def _may_run(self, function: FunctionNode, *, anybody: bool) -> bool:
        """Tell whether a function that was not analyzed may run while operators do."""
        if function in self._visited:
            return False
        name = getattr(function, "name", None)
        return (
            anybody
            or name is None  # a lambda
            or name == "__del__"
            or name in self._handed_on
            or function in self._believed
        )

    def who_rebinds(
        self, name: str, scope: Any, *, anybody: bool = False
    ) -> Place | None:
        """Return where a function rebinds a global or an enclosing variable, if any.

        With `anybody`, any function that was not analyzed may run.
        """
        if scope is None:
            return self._who_assigns(name, of_module=False, anybody=anybody)
        for parsed, tree in self._trees(scope):
            for function, line in _rebindings(parsed, tree).get(name, ()):
                if self._may_run(function, anybody=anybody):
                    return Place(parsed.file, line)
        if isinstance(scope, dict):
            return self._who_assigns(name, of_module=True, anybody=anybody)
        return None

    def _who_assigns(
        self, name: str, *, of_module: bool, anybody: bool
    ) -> Place | None:
        """Return where an attribute of that name is assigned after construction."""
        for names in self.modules.values():
            for parsed in files_of_globals(names):
                for function, node in _find_assigned(parsed).get(name, ()):
                    owner = getattr(node.value, "id", "")
                    is_module = isinstance(names.get(owner), types.ModuleType)
                    if is_module >= of_module and self._may_run(
                        function, anybody=anybody
                    ):
                        return Place(parsed.file, node.lineno)
        return None

    def who_may_change(
        self, name: str, scope: Any, target: Any, *, anybody: bool = False
    ) -> Place | None:
        """Return where a function that was not analyzed may change a captured object.

        Any use of the name that is not plainly a read counts; if the object has mutable
        contents, any use at all.
        """
        held = contents(target) if isinstance(target, CONTAINERS) else None
        flat = held is not None and all(map(can_never_change, held))
        for parsed, tree in self._trees(scope):
            line = self._line_of_use(parsed, tree, name, flat=flat, anybody=anybody)
            if line is not None:
                return Place(parsed.file, line)
        for names in self.modules.values():
            aliases = [alias for alias, value in names.items() if value is target]
            for file in files_of_globals(names):
                for alias in aliases if scope is not None else [*aliases, name]:
                    line = self._line_of_use(
                        file, file.tree, alias, flat=flat, anybody=anybody
                    )
                    if line is not None:
                        return Place(file.file, line)
        return None

    def mentions(self, written: Findings) -> Place | None:
        """Return where a function that was not analyzed uses what another one
        changes.
        """
        for names in self.modules.values():
            targets = {id(value): alias for alias, value in names.items()}
            changed = {targets[each] for each in written.changes if each in targets}
            changed |= {
                name
                for name, scope in written.rebinds
                if scope in (id(names), scope_id(None))
            }
            for parsed in files_of_globals(names):
                for name in sorted(changed):
                    line = self._line_of_use(
                        parsed, parsed.tree, name, flat=False, anybody=True
                    )
                    if line is not None:
                        return Place(parsed.file, line)
        return None

    def _line_of_use(
        self, parsed: SourceFile, tree: ast.AST, name: str, *, flat: bool, anybody: bool
    ) -> int | None:
        """Return the line at which a function may change the object under `name`."""
        for use in _uses(parsed, tree).get(name, ()):
            if not (flat and use.reading) and self._may_run(
                use.function, anybody=anybody
            ):
                return use.line
        return None

    def _trees(self, scope: Any) -> Iterator[tuple[SourceFile, ast.AST]]:
        """Yield the syntax tree in which the names of a scope are visible."""
        if isinstance(scope, dict):
            for parsed in files_of_globals(scope):
                yield parsed, parsed.tree
        elif isinstance(scope, tuple):
            yield scope  # the file and the function that encloses it


@functools.lru_cache(maxsize=1024)
def _rebindings(
    parsed: SourceFile, tree: ast.AST
) -> dict[str, list[tuple[FunctionNode, int]]]:
    """Return, by name, the functions that declare to write to outer names."""
    kind = ast.Global if isinstance(tree, ast.Module) else ast.Nonlocal
    found: dict[str, list[tuple[FunctionNode, int]]] = {}
    for function in parsed.functions:
        if tree is not parsed.tree and not _lies_in(parsed, function, tree):
            continue
        for node in _without_inner_functions(function):
            if isinstance(node, kind):
                for name in node.names:
                    found.setdefault(name, []).append((function, node.lineno))
    return found


@functools.lru_cache(maxsize=512)
def _find_assigned(
    parsed: SourceFile,
) -> dict[str, list[tuple[FunctionNode, ast.Attribute]]]:
    """Return the attributes that functions other than constructors assign."""
    found: dict[str, list[tuple[FunctionNode, ast.Attribute]]] = {}
    for function in parsed.functions:
        if getattr(function, "name", "") in CONSTRUCTION:
            continue
        for node in _without_inner_functions(function):
            if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, []).append((function, node))
    return found


@functools.lru_cache(maxsize=512)
def _names_handed_on(parsed: SourceFile) -> frozenset[str]:
    """Return the names and attributes that a file reads without calling them."""
    return frozenset(_name_of(node) for node in _nodes_handed_on(parsed))


def _nodes_handed_on(parsed: SourceFile) -> list[ast.Name | ast.Attribute]:
    nodes = list(ast.walk(parsed.tree))
    called = {node.func for node in nodes if isinstance(node, ast.Call)}
    called |= {each for n in nodes for each in getattr(n, "decorator_list", ())}
    return [
        node
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and node not in called
    ]


def _name_of(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


@functools.lru_cache(maxsize=512)
def _names_used(parsed: SourceFile) -> frozenset[str]:
    """Return the names that a file uses, except in `@name(...)` at the top level."""
    decorating = {
        decorator.func
        for node, outer in parsed.enclosing.items()
        if outer is None or isinstance(outer, ast.Module | ast.ClassDef)
        for decorator in getattr(node, "decorator_list", ())
        if isinstance(decorator, ast.Call)
    }
    return frozenset(
        _name_of(node)
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.Name | ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and node not in decorating
    )


@functools.lru_cache(maxsize=512)
def _names_returned(parsed: SourceFile) -> dict[str, str]:
    """Return the inner functions that are only returned, with the returning
    function.
    """
    found: dict[str, str] = {}
    returned: set[ast.AST | None] = set()
    for outer in parsed.tree.body:
        if not isinstance(outer, ast.FunctionDef):
            continue
        inner = {n.name for n in outer.body if isinstance(n, ast.FunctionDef)}
        for node in outer.body:
            match node:
                case ast.Return(value=ast.Name(id=name)) if name in inner:
                    found[name] = outer.name
                    returned.add(node.value)
    others = {_name_of(n) for n in _nodes_handed_on(parsed) if n not in returned}
    return {name: outer for name, outer in found.items() if name not in others}


def find_handed_on(files: Sequence[SourceFile]) -> frozenset[str]:
    """Return the names of functions that may be stored and called at any time.

    The result of `register` in `@register(...)` at module level was called there, once.
    """
    used = frozenset[str]().union(*map(_names_used, files))
    found: set[str] = set()
    for parsed in files:
        returned = _names_returned(parsed).items()
        found |= _names_handed_on(parsed) - {n for n, by in returned if by not in used}
    return frozenset(found)


class _Use(NamedTuple):
    """A use of an outer name in a function; `reading` if it is plainly a read."""

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
    """Return the expressions in positions where they can only be read."""
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
