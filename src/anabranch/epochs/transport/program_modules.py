"""The user's modules that a program leads to, and the names that their texts mention."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.util
import linecache
import re
import sys
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any, Final, TypeAlias

from anabranch.graph.graph import Graph
from anabranch.graph.site import is_users_module

Reads: TypeAlias = frozenset[str] | None  # names of attributes; None for any

MAIN: Final = "__main__"
HOOKS: Final = (
    *("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__"),
    *("__getnewargs__", "__getnewargs_ex__"),
)  # of pickling


def find_used(graph: Graph) -> Reads:
    """Return the names of attributes that the code of a program may use.

    None stands for any: the code finds names as it runs.
    """
    known = find_texts(graph)
    return None if known is None else read_all(known)


def find_texts(graph: Graph) -> list[str] | None:
    """Return the texts of the user's modules; None if one has no text."""
    texts = [_text_of(module) for module in find_modules(graph)]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def read_all(known: list[str]) -> Reads:
    """Return the names of attributes that texts may use; None for any."""
    names: set[str] = set()
    for text in known:
        found = _read_names(text)
        if found is None:
            return None
        names |= found
    return frozenset(names)


def find_modules(graph: Graph) -> Iterator[ModuleType]:
    """Yield the user's modules that a program reaches.

    They begin with the script, and those that make operators or define their functions.
    """
    files = {
        name: getattr(module, "__file__", None) or ""
        for name, module in list(sys.modules.items())
    }
    names = {MAIN} if files.get(MAIN) else set()
    for op in graph:
        homes = {name for name, file in files.items() if file.endswith(op.site.file)}
        names |= homes or {MAIN}  # typed at a prompt
        names |= {_module_of(code.function) for code in op.kind.user_code}
    waiting, seen = sorted(names), set[str]()
    while waiting:
        name = waiting.pop()
        found = sys.modules.get(name)
        if name in seen or found is None or not is_users_module(name):
            continue
        seen.add(name)
        yield found
        for variable, value in list(vars(found).items()):
            if isinstance(value, ModuleType):
                if value.__name__ != f"{name}.{variable}":  # else a part of a package
                    waiting.append(value.__name__)
            else:
                waiting += [_module_of(value), _module_of(type(value))]
        waiting += _list_imports(found)


def _module_of(value: Any) -> str:
    if isinstance(value, functools.partial):
        return _module_of(value.func)
    own = isinstance(value, FunctionType | type | MethodType)
    found: Any = (value if own else type(value)).__module__
    return found if isinstance(found, str) else ""


def _text_of(module: ModuleType) -> str | None:
    """Return the text of a module; None if it has none."""
    file = getattr(module, "__file__", None)
    lines = [] if file is None else linecache.getlines(file)
    return "".join(lines) or None


@functools.lru_cache(maxsize=512)
def _read_names(  # noqa: C901 - one case for each kind of node
    text: str,
) -> frozenset[str] | None:
    """Return the names of attributes that a text may read; None for any.

    >>> sorted(_read_names("def f(x): x.a = x.b + getattr(x, 'c')"))
    ['b', 'c']
    >>> _read_names("def f(x): return vars(x)") is None
    True
    """
    names: set[str] = set()
    waiting: list[ast.AST] = []
    try:
        waiting.append(ast.parse(text))
    except SyntaxError:  # it may be of another language
        return None
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) if name in HOOKS:
                continue
            case ast.Assign(targets=[ast.Name(id="__slots__")]):
                continue
            case ast.Name(id="vars" | "asdict" | "astuple"):
                return None
            case ast.Attribute(attr="__dict__" | "asdict" | "astuple" | "getmembers"):
                return None
            case ast.Call(
                func=ast.Name(id="getattr" | "attrgetter" | "hasattr")
                | ast.Attribute(attr="attrgetter" | "__getattribute__"),
                args=args,
            ) if not all(map(_is_text, args[1:] or args)):
                return None
            case ast.Attribute(attr=name) if not isinstance(node.ctx, ast.Store):
                names.add(name)
            case ast.AugAssign(target=ast.Attribute(attr=name)):
                names.add(name)
            case ast.Constant(value=str(value)) if "\n" not in value:
                names.update(value.split("."))
            case ast.MatchClass(kwd_attrs=attributes):
                names.update(attributes)
        waiting += ast.iter_child_nodes(node)
    return frozenset(names)


def _list_imports(module: ModuleType) -> tuple[str, ...]:
    """Return the names of the modules that a module imports, also within functions."""
    file = getattr(module, "__file__", None)
    lines = [] if file is None else linecache.getlines(file)
    known, found = _imports.get(module.__name__, (None, ()))
    if known is not lines:
        package = module.__spec__.parent if module.__spec__ is not None else ""
        found = _read_imports("".join(lines), package or "")
        _imports[module.__name__] = lines, found
    return found


_imports: dict[str, tuple[list[str], tuple[str, ...]]] = {}  # by module, for its lines
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]*\(?([\w, \t\n]*)|import[ \t]+([\w., \t]+))",
    re.MULTILINE,
)


def _read_imports(text: str, package: str) -> tuple[str, ...]:
    """Return the names of modules in the imports of a text, and of what may be one.

    >>> _read_imports("from . import a", "p")
    ('p', 'p.a')
    >>> _read_imports("    import b.c as d, e", "")
    ('b', 'b.c', 'e')
    """
    found: dict[str, None] = {}
    for dots, name, names, plain in _IMPORT.findall(text):
        if dots or name:
            with contextlib.suppress(ImportError):
                home = importlib.util.resolve_name(dots + name, package)
                parts = [one.split()[:1] for one in names.split(",")]
                found |= dict.fromkeys([home, *(f"{home}.{p[0]}" for p in parts if p)])
        for one in plain.split(","):
            steps = (one.split() or [""])[0].split(".")
            found |= {".".join(steps[: n + 1]): None for n in range(len(steps))}
    found.pop("", None)
    return tuple(found)


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant)
