"""The modules of a program, and the classes in them.

An item of unknown type may be an instance of any class of the program, so an attribute
or an operator may run whatever such a class defines under that name.
"""

from __future__ import annotations

import ast
import copy
import functools
import sys
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, compress, repeat
from operator import itemgetter, not_
from typing import Any

from anabranch.graph.site import is_users_file, is_users_module
from anabranch.operators.custom import Operator
from anabranch.python.arrivals import SOMETHING, Arrival, look_into
from anabranch.python.implicit import READ_BY_LIBRARIES
from anabranch.python.objects import (
    CONTAINERS,
    class_attribute,
    field_names,
    foreign_part,
    function_in,
    is_scalar_type,
    is_users_class,
    is_users_code,
    methods_run_by,
    runs_code,
)
from anabranch.python.source import SourceFile, file_of

CONSTRUCTION = frozenset(
    ["__init__", "__new__", "__post_init__", "__init_subclass__", "__set_name__"]
)
# No builtin runs these by itself; the statements and calls that do are followed.
_NOT_OPERATORS = CONSTRUCTION | {
    *("__class_getitem__", "__subclasshook__", "__del__", "__call__", "__set__"),
    *("__setitem__", "__delitem__", "__setattr__", "__delattr__", "__delete__"),
    *("__enter__", "__exit__", "__aenter__", "__aexit__", "__prepare__"),
    *("__instancecheck__", "__subclasscheck__"),
    *(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "mod")),
    *(f"__i{name}__" for name in ("pow", "matmul", "and", "or", "xor")),
    *("__ilshift__", "__irshift__"),
}


@dataclass
class _Found:
    """Lookups made once, on demand, for a universe and all its views."""

    classes: list[type] | None = None
    by_name: dict[str, list[types.FunctionType]] | None = None


class Universe:
    """The part of the loaded code that a program can reach."""

    def __init__(self, roots: Iterable[Any]) -> None:
        self.modules: dict[str, dict[str, Any]] = {}
        for root in roots:
            self._reach(root)
        self.arriving = SOMETHING  # at the operator under analysis
        self._found = _Found()
        self._fields: set[str] | None = None
        self._operators: dict[frozenset[type] | None, list[types.FunctionType]] = {}
        self._below: dict[type, frozenset[type]] = {}
        self._within: dict[int, tuple[Any, Arrival]] = {}
        self._patched: dict[str, str | None] = {}
        self._foreign: dict[int, tuple[Any, str | None]] = {}

    def _reach(self, root: Any) -> None:
        waiting = [root]
        while waiting:
            for name, names in _modules_named_by(waiting.pop()):
                if name not in self.modules:
                    self.modules[name] = names
                    waiting.extend(names.values())

    def facing(self, arrival: Arrival) -> Universe:
        """Return the universe as seen by an operator that receives these items."""
        made = copy.copy(self)
        made.arriving = arrival
        return made

    def with_class(self, cls: type) -> Universe:
        """Return the universe of a function that defines a class."""
        made = copy.copy(self)
        made._found = _Found([*self.classes, cls])  # noqa: SLF001 - our own copy
        made._fields = None
        made._operators, made._below = {}, {}  # noqa: SLF001
        return made

    def add_class(self, cls: type) -> None:
        """Add a class that a function defines, for all later lookups."""
        if cls not in self.classes:
            self._found.classes = [*self.classes, cls]
            self._found.by_name = None
            self._operators.clear()
            self._below.clear()

    def may_be_derived(self, kind: type) -> bool:
        """Tell whether a value with a builtin annotation may run user code."""
        if self.arriving.complete:
            below: set[Any] = set(filter(is_users_class, self.arriving.types))
        else:
            below = {*self.subclasses_of(kind)}
        return any(issubclass(each, kind) and runs_code(each) for each in below)

    def kinds_within(self, obj: Any) -> frozenset[type] | None:
        """Return the types of an object's contents, if none is foreign."""
        if id(obj) not in self._within:
            # keeps the object alive, so that its id stays unique
            self._within[id(obj)] = (obj, look_into([obj]))
        found = self._within[id(obj)][1]
        return found.types if found.complete else None

    @property
    def classes(self) -> list[type]:
        """The user's classes that an item may belong to; operators excluded."""
        if self._found.classes is None:
            self._found.classes = [
                cls
                for cls in _classes_in(self.modules)
                if not issubclass(cls, Operator) and is_users_class(cls)
            ]
        return self._found.classes

    def definitions(self, name: str) -> list[types.FunctionType]:
        """Return the functions that an attribute of an unknown item may run."""
        return self._index().get(name, [])

    def properties(self, classes: frozenset[type] | None) -> list[types.FunctionType]:
        """Return the code that reading an attribute may run; None: of any class."""
        found = {
            id(function): function
            for cls in (self.classes if classes is None else classes)
            for base in cls.__mro__
            for raw in list(vars(base).values())
            if isinstance(raw, property)
            and isinstance(function := raw.fget, types.FunctionType)
        }
        return list(found.values())

    def has_field(self, name: str) -> bool:
        """Tell whether some class of the program has such a field."""
        if self._fields is None:
            self._fields = {n for cls in self.classes for n in field_names(cls) or ()}
            for names in self.modules.values():
                for parsed in files_of_globals(names):
                    self._fields |= _find_stored_attributes(parsed)
        return name in self._fields

    def operators(self, classes: frozenset[type] | None) -> list[types.FunctionType]:
        """Return the code that an operator or a builtin may run; None: of any class."""
        if classes not in self._operators:
            names = self._index() if classes is None else _functions_of(classes)
            special = [
                function
                for name, functions in names.items()
                if name.startswith("__") and name not in _NOT_OPERATORS
                for function in functions
            ]
            within = self.classes if classes is None else classes
            overriding = chain.from_iterable(map(_overriding, within))
            self._operators[classes] = [*dict.fromkeys([*special, *overriding])]
        return self._operators[classes]

    def subclasses_of(self, cls: type) -> frozenset[type]:
        """Return the user's subclasses of a class; of a built-in one, the program's."""
        if cls not in self._below:
            anywhere = is_users_class(cls)
            self._below[cls] = frozenset(
                each
                for each in subclasses(cls)
                if (anywhere or each.__module__ in self.modules)
                and is_users_class(each)
            )
        return self._below[cls]

    def foreign_part(
        self, obj: Any, is_known: Callable[[type], bool] = lambda _: False
    ) -> str | None:
        """Return the type of a part of an object that cannot be followed, or None."""
        if not isinstance(obj, CONTAINERS):
            return None
        if id(obj) not in self._foreign:
            found = foreign_part(obj, is_known)
            # keeps the object alive, so that its id stays unique
            self._foreign[id(obj)] = (obj, found)
        return self._foreign[id(obj)][1]

    def why_patched(self, module: str) -> str | None:
        """Return the part of a package that user code has replaced, or None."""
        package = module.partition(".")[0]
        if package == "numpy":  # its functions are C, and too many to inspect
            return None
        if package not in self._patched:
            self._patched[package] = _find_patched_part(package)
        part = self._patched[package]
        return None if part is None else f"{part} was replaced by code of the program"

    def _index(self) -> dict[str, list[types.FunctionType]]:
        if self._found.by_name is None:
            self._found.by_name = _functions_of(self.classes)
        return self._found.by_name


def _functions_of(classes: Iterable[type]) -> dict[str, list[types.FunctionType]]:
    """Return the user's functions in classes and their bases, by name."""
    found: dict[str, dict[types.FunctionType, None]] = {}
    for cls in classes:
        for base in cls.__mro__:
            for name, raw in list(vars(base).items()):
                function = function_in(raw)
                if not isinstance(function, types.FunctionType):
                    continue
                if is_users_code(function.__code__):
                    found.setdefault(name, {})[function] = None
                elif base is cls and function.__globals__ is vars(functools):
                    ran = methods_run_by(cls, name)  # as total_ordering derives it
                    found.setdefault(name, {}).update(dict.fromkeys(ran))
    return {name: list(functions) for name, functions in found.items()}


def _overriding(cls: type) -> tuple[types.FunctionType, ...]:
    """Return the user's methods that replace those of a built-in base, as a library
    may call them: `json.dumps` asks a subclass of dict for its `items`.
    """
    bases = (base for base in cls.__mro__ if not is_users_class(base))
    plain = [base for base in bases if base in CONTAINERS or is_scalar_type(base)]
    found = (
        function_in(class_attribute(cls, name))
        for name in READ_BY_LIBRARIES
        if any(hasattr(base, name) for base in plain)
    )
    return tuple(
        each
        for each in found
        if isinstance(each, types.FunctionType) and is_users_code(each.__code__)
    )


def _find_patched_part(package: str) -> str | None:
    """Return the user's function that replaced one of a loaded package, or None.

    >>> _find_patched_part("json") is None
    True
    """
    below = f"{package}."
    names = list(sys.modules)
    for name in compress(names, map(str.startswith, names, repeat(package))):
        if not (name == package or name.startswith(below)) or is_users_module(name):
            continue
        module = sys.modules.get(name)
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if _is_users_function(value):
                return f"{name}.{key}"
            if isinstance(value, type) and value.__module__ == name:
                inner = _find_patched_method(value)
                if inner is not None:
                    return f"{name}.{key}.{inner}"
    return None


# What classes written in C have: nothing of Python can be inside.
_OF_C = frozenset(
    [
        *(types.WrapperDescriptorType, types.MethodDescriptorType),
        *(types.BuiltinFunctionType, types.ClassMethodDescriptorType),
        *(types.GetSetDescriptorType, types.MemberDescriptorType),
        *(str, int, tuple, types.NoneType),
    ]
)


def _find_patched_method(cls: type) -> str | None:
    methods = list(vars(cls).items())  # a copy: another thread may add some
    if _OF_C.issuperset(map(type, map(itemgetter(1), methods))):
        return None
    users = (name for name, raw in methods if _is_users_function(function_in(raw)))
    return next(users, None)


def _is_users_function(value: Any) -> bool:
    if not isinstance(value, types.FunctionType) or not is_users_code(value.__code__):
        return False
    return not value.__code__.co_filename.startswith("<attrs generated")


def _modules_named_by(value: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the user's modules that a value is or comes from."""
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


def subclasses(cls: type) -> list[type]:
    """Return every loaded subclass of a class, each once.

    There are thousands, and every program needs them.
    """
    found = {cls}
    reached = [cls]
    for above in reached:
        if above is not type:
            direct: list[type] = type.__subclasses__(above)
            if direct:  # most have none
                new = [each for each in direct if each not in found]
                found.update(new)
                reached.extend(new)
    return reached[1:]


# Classes that were seen in packages, by their ids, which are forgotten with the classes.
_in_packages: dict[int, weakref.ref[type]] = {}


def _classes_in(modules: Collection[str]) -> list[type]:
    """Return the loaded classes of some modules.

    Of the thousands that are loaded nearly all are of packages. Looking up the module of
    each takes most of the time, so that is done once for a class of a package.
    """
    classes = subclasses(object)
    if all(map(is_users_module, modules)):
        known = map(_in_packages.__contains__, map(id, classes))
        classes = list(compress(classes, map(not_, known)))
    found = []
    for cls in classes:
        # quicker than `__module__`, and no metaclass decides it
        module = vars(cls).get("__module__")
        if module in modules:
            found.append(cls)
        elif module is None or not is_users_module(module):  # None: written in C
            _remember_in_package(cls)
    return found


def _remember_in_package(cls: type) -> None:
    key = id(cls)

    def forget(_: weakref.ref[type]) -> None:
        _in_packages.pop(key, None)

    _in_packages[key] = weakref.ref(cls, forget)


@functools.lru_cache(maxsize=512)
def _find_stored_attributes(parsed: SourceFile) -> frozenset[str]:
    """Return every attribute that is assigned anywhere in a file."""
    return frozenset(
        node.attr
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    )


def files_of_globals(names: dict[str, Any]) -> list[SourceFile]:
    """Return the sources of the module with these globals, if it is the user's.

    Each notebook cell has a source of its own: the result has those of the current
    functions and methods.
    """
    filename = names.get("__file__")
    if isinstance(filename, str):
        parsed = file_of(filename) if is_users_file(filename) else None
        return [] if parsed is None else [parsed]
    found = {
        code.co_filename: None
        for value in list(names.values())
        for function in _functions_in(value)
        if function.__globals__ is names
        for code in (function.__code__,)
    }
    files = (file_of(filename) for filename in found)
    return [parsed for parsed in files if parsed is not None]


def _functions_in(value: Any) -> Iterator[types.FunctionType]:
    raws = list(vars(value).values()) if isinstance(value, type) else (value,)
    for raw in raws:
        function = function_in(raw)
        if isinstance(function, types.FunctionType):
            yield function
