"""The modules of a program, the classes in them, and who else writes to their names.

An item whose type is not known may be an instance of any class of the program, so an
attribute or an operator may run whatever such a class defines under that name. And a
global may be read safely only if nobody in these modules changes it while a job runs.
"""

from __future__ import annotations

import ast
import builtins
import functools
import sys
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from anabranch.analysis.effects import Place
from anabranch.analysis.known import CHANGING_METHODS, PURE_METHODS, is_pure
from anabranch.analysis.objects import (
    CONTAINERS,
    contents,
    field_names,
    foreign_part,
    function_in,
    is_scalar,
    is_users_class,
    is_users_code,
    is_users_file,
    is_users_module,
)
from anabranch.analysis.scopes import outer_expressions, own_names
from anabranch.analysis.source import FunctionNode, ScopeNode, SourceFile, file_of
from anabranch.graph.custom import Operator

_CONSTRUCTION = frozenset(
    ["__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"]
)
# No builtin runs these by itself: statements and calls do, which are followed.
_NOT_OPERATORS = _CONSTRUCTION | {
    *("__class_getitem__", "__subclasshook__", "__del__", "__call__", "__set__"),
    *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__delete__"),
    *("__enter__", "__exit__", "__aenter__", "__aexit__", "__prepare__"),
    *("__instancecheck__", "__subclasscheck__"),
    *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")),
    *(f"__i{name}__" for name in ("pow", "matmul", "and", "or", "xor")),
    *("__ilshift__", "__irshift__"),
}


class Universe:
    """The part of the loaded code that a program can reach."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.modules: dict[str, dict[str, Any]] = {}
        for root in roots:
            self._reach(root)
        self._classes: list[type] | None = None
        self._fields: set[str] | None = None
        self._by_name: dict[str, list[types.FunctionType]] | None = None
        self._operators: dict[frozenset[type] | None, list[types.FunctionType]] = {}
        self._below: dict[type, frozenset[type]] = {}
        self._foreign: dict[int, str | None] = {}

    def _reach(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            for name, names in _modules_named_by(waiting.pop()):
                if name not in self.modules:
                    self.modules[name] = names
                    waiting.extend(names.values())

    @property
    def classes(self) -> list[type]:
        """The user's classes, apart from operators, that an item may be of."""
        if self._classes is None:
            self._classes = [
                cls
                for cls in set(subclasses(object))
                if cls.__module__ in self.modules
                and not issubclass(cls, Operator)
                and is_users_class(cls)
            ]
        return self._classes

    def definitions(self, name: str) -> list[types.FunctionType]:
        """Return the functions that an attribute of an unknown item may run."""
        return self._index().get(name, [])

    def properties(self, classes: frozenset[type] | None) -> list[types.FunctionType]:
        """Return what reading some attribute of an instance may run; None: of any."""
        found = {
            id(function): function
            for cls in (self.classes if classes is None else classes)
            for base in cls.__mro__
            for raw in vars(base).values()
            if isinstance(raw, property)
            and isinstance(function := raw.fget, types.FunctionType)
        }
        return list(found.values())

    def has_field(self, name: str) -> bool:
        """Tell whether instances of some class of the program have such a field."""
        if self._fields is None:
            self._fields = {n for cls in self.classes for n in field_names(cls) or ()}
            for names in self.modules.values():
                parsed = _file_of_globals(names)
                if parsed is not None:
                    self._fields |= _stored_attributes(parsed)
        return name in self._fields

    def operators(self, classes: frozenset[type] | None) -> list[types.FunctionType]:
        """Return what an operator or a builtin may run on an instance; None: of any."""
        if classes not in self._operators:
            names = self._index() if classes is None else _functions_of(classes)
            self._operators[classes] = [
                function
                for name, functions in names.items()
                if name.startswith("__") and name not in _NOT_OPERATORS
                for function in functions
            ]
        return self._operators[classes]

    def subclasses_of(self, cls: type) -> frozenset[type]:
        """Return the user's classes below a class; of one of Python's, the program's."""
        if cls not in self._below:
            anywhere = is_users_class(cls)
            self._below[cls] = frozenset(
                each
                for each in set(subclasses(cls))
                if (anywhere or each.__module__ in self.modules)
                and is_users_class(each)
            )
        return self._below[cls]

    def foreign_part(self, obj: Any) -> str | None:
        """Return the type of something in an object that cannot be followed, if any."""
        if not isinstance(obj, CONTAINERS):
            return None
        if id(obj) not in self._foreign:  # the program keeps it alive
            self._foreign[id(obj)] = foreign_part(obj)
        return self._foreign[id(obj)]

    def _index(self) -> dict[str, list[types.FunctionType]]:
        if self._by_name is None:
            self._by_name = _functions_of(self.classes)
        return self._by_name

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
            parsed = _file_of_globals(names)
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
            module = _file_of_globals(names)
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
            parsed = _file_of_globals(scope)
            if parsed is not None:
                yield parsed, parsed.tree
        elif isinstance(scope, tuple):
            yield scope  # the file and the function that encloses it


def _functions_of(classes: Iterable[type]) -> dict[str, list[types.FunctionType]]:
    """Return the user's functions in classes and their bases, by name."""
    found: dict[str, dict[types.FunctionType, None]] = {}
    for cls in classes:
        for base in cls.__mro__:
            for name, raw in vars(base).items():
                function = function_in(raw)
                if isinstance(function, types.FunctionType) and is_users_code(
                    function.__code__
                ):
                    found.setdefault(name, {})[function] = None
    return {name: list(functions) for name, functions in found.items()}


def _modules_named_by(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the user's modules that a value stands for or comes from."""
    if isinstance(value, types.FunctionType):
        if not is_users_code(value.__code__):
            return []
        names = value.__globals__
        return [(str(names.get("__name__")), names)]
    if isinstance(value, types.ModuleType):
        return (
            [(value.__name__, vars(value))] if is_users_module(value.__name__) else []
        )
    cls = value if isinstance(value, type) else type(value)
    module = sys.modules.get(getattr(cls, "__module__", None) or "")
    if module is None or not is_users_class(cls) or not is_users_module(cls.__module__):
        return []
    return [(cls.__module__, vars(module))]


def subclasses(cls: type) -> Iterator[type]:
    """Yield every loaded class below a class."""
    direct: list[type] = type.__subclasses__(cls)
    for sub in direct:
        yield sub
        if sub is not type:
            yield from subclasses(sub)


def _file_of_globals(names: dict[str, Any]) -> SourceFile | None:
    filename = names.get("__file__")
    if not isinstance(filename, str) or not is_users_file(filename):
        return None
    return file_of(filename)


@functools.lru_cache(maxsize=1024)
def _rebindings(tree: ast.AST) -> list[tuple[ast.Global | ast.Nonlocal, list[str]]]:
    """Return the declarations by which inner functions write to outer names."""
    kind = ast.Global if isinstance(tree, ast.Module) else ast.Nonlocal
    return [(node, node.names) for node in ast.walk(tree) if isinstance(node, kind)]


@functools.lru_cache(maxsize=512)
def _stored_attributes(parsed: SourceFile) -> frozenset[str]:
    """Return every attribute that is assigned anywhere in a file."""
    return frozenset(
        node.attr
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )


@functools.lru_cache(maxsize=512)
def _assigned(parsed: SourceFile) -> dict[str, list[ast.Attribute]]:
    """Return the attributes that functions assign, apart from constructors."""
    found: dict[str, list[ast.Attribute]] = {}
    for function in parsed.functions:
        if getattr(function, "name", "") in _CONSTRUCTION:
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
