"""The modules of a program, and the classes in them.

An item whose type is not known may be an instance of any class of the program, so an
attribute or an operator may run whatever such a class defines under that name.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from anabranch.analysis.objects import (
    CONTAINERS,
    field_names,
    foreign_part,
    function_in,
    is_users_class,
    is_users_code,
    is_users_file,
    is_users_module,
)
from anabranch.analysis.source import SourceFile, file_of
from anabranch.graph.custom import Operator

CONSTRUCTION = frozenset(
    ["__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"]
)
# No builtin runs these by itself: statements and calls do, which are followed.
_NOT_OPERATORS = CONSTRUCTION | {
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
        self._foreign: dict[int, tuple[Any, str | None]] = {}

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
                parsed = file_of_globals(names)
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
        if id(obj) not in self._foreign:
            self._foreign[id(obj)] = (obj, foreign_part(obj))  # keeps the id its own
        return self._foreign[id(obj)][1]

    def _index(self) -> dict[str, list[types.FunctionType]]:
        if self._by_name is None:
            self._by_name = _functions_of(self.classes)
        return self._by_name


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


@functools.lru_cache(maxsize=512)
def _stored_attributes(parsed: SourceFile) -> frozenset[str]:
    """Return every attribute that is assigned anywhere in a file."""
    return frozenset(
        node.attr
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )


def file_of_globals(names: dict[str, Any]) -> SourceFile | None:
    """Return the source of the module that has these globals, if it is the user's."""
    filename = names.get("__file__")
    if not isinstance(filename, str) or not is_users_file(filename):
        return None
    return file_of(filename)
