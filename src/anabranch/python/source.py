"""Source code: from a callable to the function that runs, and its syntax tree.

The tree is used only if it compiles to the very bytecode that the function runs: a file
edited after its import, or a function rewritten by some tool, counts as having no
source.
"""

from __future__ import annotations
import __future__

import ast
import functools
import linecache
import os
import sys
import types
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ScopeNode: TypeAlias = FunctionNode | ast.Module | ast.ClassDef
_At: TypeAlias = tuple[str, int]  # name and first line of a function

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A parsed file: its functions by name and first line, and the scope of each."""

    file: str
    tree: ast.Module
    nodes: dict[_At, list[FunctionNode]]
    codes: dict[_At, list[types.CodeType]]
    functions: list[FunctionNode]
    enclosing: dict[ScopeNode, ScopeNode]

    def bindings(self, name: str) -> int:
        """Return how often any scope of the file may bind a name."""
        return self._bindings[name]

    @functools.cached_property
    def _bindings(self) -> Counter[str]:
        found: Counter[str] = Counter()
        for node in ast.walk(self.tree):
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                    found[name] += 1
                case ast.Attribute(attr=name, ctx=ast.Store() | ast.Del()):
                    found[name] += 1
                case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    found[name] += 1
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    found.update(names)
                case ast.alias(name=name, asname=other):
                    found[other or name] += 1
        return found


_LATE_ANNOTATIONS = __future__.annotations.compiler_flag  # adds no statement
_files: dict[str, tuple[list[str], SourceFile | None]] = {}
_rewritten: dict[tuple[types.CodeType, str], SourceFile] = {}
_instead_of: dict[FunctionNode, FunctionNode] = {}


def node_of(code: types.CodeType) -> FunctionNode | None:
    """Return the syntax tree that a code object was compiled from, or None.

    >>> node_of(compile("1", "<no file>", "eval")) is None
    True
    """
    return _node_of(code, code.co_filename)


@functools.lru_cache(maxsize=4096)
def _node_of(code: types.CodeType, filename: str) -> FunctionNode | None:
    """Implement `node_of`: code objects of two files may compare equal."""
    if (code, filename) in _rewritten:
        return _find(_rewritten[code, filename], code)
    parsed = file_of(filename)
    found = None if parsed is None else _find(parsed, code)
    if found is None and parsed is not None:
        linecache.checkcache(filename)  # the cached text may be outdated
        parsed = file_of(filename)
        found = None if parsed is None else _find(parsed, code)
    return found


def file_around(code: types.CodeType) -> SourceFile | None:
    """Return the file that a code object was compiled from, unless it has changed
    since.
    """
    rewritten = _rewritten.get((code, code.co_filename))
    return file_of(code.co_filename) if rewritten is None else rewritten


def rewrite(
    filename: str, tree: ast.Module, new: FunctionNode, original: FunctionNode
) -> types.CodeType:
    """Compile a file with one function rewritten; return that function's code.

    Behaviour comes from the rewritten tree, line numbers from the file. The rewritten
    function replaces the original.
    """
    parsed = _index(filename, tree)
    at = (_name(new), _first_line(new))
    own = next(code for code in parsed.codes[at] if _find(parsed, code) is new)
    for code in (own, *_codes(own)):
        _rewritten.setdefault((code, filename), parsed)
    for node in ast.walk(new):
        if isinstance(node, _FUNCTIONS):
            _instead_of[node] = original
    _node_of.cache_clear()
    return own


def originals(nodes: Iterable[FunctionNode]) -> set[FunctionNode]:
    """Return the functions that some nodes were rewritten from."""
    return {_instead_of[node] for node in nodes if node in _instead_of}


def file_of(filename: str) -> SourceFile | None:
    """Return the parsed source of a file, or None if there is none."""
    lines = linecache.getlines(filename) or _list_command_lines(filename)
    if filename not in _files or _files[filename][0] != lines:
        _files[filename] = (lines, _parse(filename, "".join(lines)) if lines else None)
    return _files[filename][1]


def _list_command_lines(filename: str) -> list[str]:
    """Return the lines of a program given by `python -c`; no other text is known."""
    given = sys.orig_argv
    if filename != "<string>" or sys.argv[:1] != ["-c"] or "-c" not in given[:-1]:
        return []
    return given[given.index("-c") + 1].splitlines(keepends=True)


def tell_missing(name: str, filename: str) -> str:
    """Return why the source of a function is not known."""
    text = f"the source of {name} is not available"
    if filename == "<stdin>":
        return f"{text}, as Python has read it from standard input; put it into a file"
    return text


def _parse(filename: str, text: str) -> SourceFile | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return _index(filename, ast.parse(text, filename))
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ):  # or nested too deeply
        return None


def _index(filename: str, tree: ast.Module) -> SourceFile:
    top = compile(tree, filename, "exec", dont_inherit=True)
    nodes: dict[_At, list[FunctionNode]] = {}
    enclosing = dict(_scopes(tree))
    functions = [node for node in enclosing if isinstance(node, _FUNCTIONS)]
    for node in functions:
        nodes.setdefault((_name(node), _first_line(node)), []).append(node)
    codes: dict[_At, list[types.CodeType]] = {}
    for code in _codes(top):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    _mangle(tree)
    return SourceFile(path_to_show(filename), tree, nodes, codes, functions, enclosing)


# Which attributes of a node are identifiers, of those that may be private to a class.
_IDENTIFIERS = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.arg: "arg",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}


def _mangle(tree: ast.Module) -> None:
    r"""Give private names the form that they have at run time.

    In the body of a class C, `self.__n` is `self._C__n`. Nothing is changed twice.

    >>> tree = ast.parse("class C:\n def __f(self): return self.__n, self.__init__")
    >>> _mangle(tree)
    >>> print(ast.unparse(tree))
    class C:
    <BLANKLINE>
        def _C__f(self):
            return (self._C__n, self.__init__)
    """
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, owner = waiting.pop()
        inner, body = owner, set[ast.AST]()
        if isinstance(node, ast.ClassDef):
            inner, body = node.name.lstrip("_"), set(node.body)
        if owner:
            _mangle_names_of(node, owner)
        waiting.extend(
            (child, inner if child in body else owner)
            for child in ast.iter_child_nodes(node)
        )


def _mangle_names_of(node: ast.AST, owner: str) -> None:
    field = _IDENTIFIERS.get(type(node))
    if field is not None:
        setattr(node, field, _mangle_name(getattr(node, field), owner))
    elif isinstance(node, ast.Global | ast.Nonlocal):
        node.names = [_mangle_name(name, owner) for name in node.names]
    elif isinstance(node, ast.alias):
        name = node.asname or node.name
        if _mangle_name(name, owner) != name:
            node.asname = _mangle_name(name, owner)


def _mangle_name(name: Any, owner: str) -> Any:
    """Return an identifier, if there is one, as it is inside a class."""
    private = name is not None and name.startswith("__") and not name.endswith("__")
    return f"_{owner}{name}" if private and "." not in name else name


def path_to_show(filename: str) -> str:
    """Return a path relative to the working directory if it lies below it."""
    if filename.startswith("<"):
        return filename
    try:
        relative = os.path.relpath(filename)
    except ValueError:  # another drive
        return filename
    return filename if relative.startswith("..") else relative


def _scopes(tree: ast.Module) -> Iterator[tuple[ScopeNode, ScopeNode]]:
    """Yield every function and class with its enclosing scope."""
    waiting: list[tuple[ast.AST, ScopeNode]] = [(tree, tree)]
    while waiting:
        node, scope = waiting.pop()
        for child in ast.iter_child_nodes(node):
            inner = scope
            if isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
                yield child, scope
                inner = child
            waiting.append((child, inner))


def _name(node: FunctionNode) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: FunctionNode) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(d.lineno for d in decorators)])


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes(constant)


def _find(parsed: SourceFile, code: types.CodeType) -> FunctionNode | None:
    at = (code.co_name, code.co_firstlineno)
    if not any(_same(code, known) for known in parsed.codes.get(at, ())):
        return None
    candidates = parsed.nodes.get(at, [])
    if len(candidates) > 1:  # several lambdas on one line
        columns = _columns(code)
        candidates = [node for node in candidates if _columns_of(node) == columns]
    return candidates[0] if len(candidates) == 1 else None


def _same(one: types.CodeType, two: types.CodeType) -> bool:
    """Tell whether two code objects behave alike."""
    return (
        one.co_code == two.co_code
        and one.co_names == two.co_names
        and one.co_varnames == two.co_varnames
        and one.co_freevars == two.co_freevars
        and one.co_cellvars == two.co_cellvars
        and not (one.co_flags ^ two.co_flags) & ~_LATE_ANNOTATIONS
        and len(one.co_consts) == len(two.co_consts)
        and all(map(_same_constant, one.co_consts, two.co_consts))
    )


def _same_constant(one: Any, two: Any) -> bool:
    if isinstance(one, types.CodeType) and isinstance(two, types.CodeType):
        return _same(one, two)
    return type(one) is type(two) and repr(one) == repr(two)


def _columns(code: types.CodeType) -> frozenset[tuple[int | None, ...]]:
    """Return the source positions of a code object's instructions."""
    return frozenset(
        place for place in code.co_positions() if place[3] and None not in place
    )


def _columns_of(node: FunctionNode) -> frozenset[tuple[int | None, ...]]:
    """Return the source positions of a lambda compiled by itself."""
    if not isinstance(node, ast.Lambda):
        return frozenset()
    alone = compile(ast.Expression(node), "<lambda>", "eval", dont_inherit=True)
    return next(
        (_columns(c) for c in alone.co_consts if isinstance(c, types.CodeType)),
        frozenset(),
    )


COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NEW_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_NEW_SCOPES, ast.ClassDef, *COMPREHENSIONS)


def nodes_of_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function that run in its own scope.

    Of nested functions these are the decorators and defaults only; a comprehension is a
    scope of its own, except for what it assigns with :=.
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
        elif isinstance(child, _NEW_SCOPES):
            waiting.extend(outer_expressions(child))


def gives_tuple(node: FunctionNode) -> bool:
    r"""Tell whether every returned value is written as a tuple or is None.

    >>> gives_tuple(ast.parse("def f(a):\n if a: return a, 1\n return ()").body[0])
    True
    >>> gives_tuple(ast.parse("def f(a):\n yield a\n return a, 1").body[0])
    False
    """
    if isinstance(node, ast.Lambda):
        return isinstance(node.body, ast.Tuple)
    nodes = list(nodes_of_scope(node))
    if isinstance(node, ast.AsyncFunctionDef) or any(
        isinstance(each, ast.Yield | ast.YieldFrom) for each in nodes
    ):
        return False
    given = [each.value for each in nodes if isinstance(each, ast.Return)]
    return all(value is None or isinstance(value, ast.Tuple) for value in given)


def outer_expressions(node: FunctionNode) -> list[ast.expr]:
    """Return the expressions evaluated where a function is defined."""
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
    """Return the names that a node itself binds, without its children.

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
