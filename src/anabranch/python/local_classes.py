"""Classes that are defined in a function, made without running the function.

A class whose body consists of methods, annotations and literals can be built from the
code objects that Python compiled for the function: nothing of the user's runs. Its
methods see the variables of the call that defined it, as any inner function does.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.python.objects import class_attribute
from anabranch.python.source import node_of

_WRAPPERS: Mapping[str, Any] = {
    "property": property,
    "staticmethod": staticmethod,
    "classmethod": classmethod,
}
_SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")  # annotations that make no field


class NotBuiltError(Exception):
    """Raised where building a class would run code; the text says which."""


def build_class(
    node: ast.ClassDef,
    bases: list[Any],
    decorators: list[Any],
    function: types.FunctionType,
) -> tuple[type, tuple[types.FunctionType, ...]]:
    """Return the class that a statement in a function defines, and its functions."""
    if node.keywords:
        msg = "a class with keywords"
        raise NotBuiltError(msg)
    body = _ClassBody(node, function)
    as_record = typing.NamedTuple in bases
    plain = [base for base in bases if base is not typing.NamedTuple]
    for base in plain:
        _check_base(base)
    if as_record:
        if plain or decorators:
            msg = "a NamedTuple with other bases"
            raise NotBuiltError(msg)
        names = list(body.fields)
        given = [body.members.pop(n) for n in names if n in body.members]
        record = collections.namedtuple(node.name, names, defaults=given)  # type: ignore[misc]  # noqa: PYI024
        plain = [record]
    try:
        made = type(node.name, tuple(plain), body.namespace)
        for decorator in decorators:
            made = decorator(made)
    except Exception as error:  # a class that Python itself refuses
        raise NotBuiltError(str(error)) from error
    return made, tuple(body.functions)


def decorator_of(value: Any, node: ast.expr) -> Any:
    """Return how a decorator of a class makes another class of it: `dataclass` alone."""
    if value is not dataclasses.dataclass:
        msg = f"the decorator {ast.unparse(node)}"
        raise NotBuiltError(msg)
    if not isinstance(node, ast.Call):
        return dataclasses.dataclass
    if node.args:
        msg = f"the decorator {ast.unparse(node)}"
        raise NotBuiltError(msg)
    options = {str(each.arg): _literal(each.value) for each in node.keywords}
    return dataclasses.dataclass(**options)


def _check_base(base: Any) -> None:
    if not isinstance(base, type) or issubclass(base, enum.Enum):
        msg = f"the base {base!r}"
        raise NotBuiltError(msg)
    hook = class_attribute(base, "__init_subclass__")
    if type(base) is not type or not isinstance(hook, types.ClassMethodDescriptorType):
        msg = f"the base {base.__name__}, which runs code"
        raise NotBuiltError(msg)


class _ClassBody:
    """What the statements in the body of a class define."""

    def __init__(self, node: ast.ClassDef, function: types.FunctionType) -> None:
        self._globals = function.__globals__
        self._codes = {node_of(code): code for code in _codes(function.__code__)}
        self.functions: list[types.FunctionType] = []
        self.fields: dict[str, Any] = {}
        self.members: dict[str, Any] = {}
        for statement in node.body:
            self._read(statement)
        self.qualname = f"{function.__qualname__}.<locals>.{node.name}"

    @property
    def namespace(self) -> dict[str, Any]:
        """The names that the class begins with."""
        return {
            "__module__": str(self._globals.get("__name__")),
            "__qualname__": self.qualname,
            "__annotations__": dict(self.fields),
            **self.members,
        }

    def _read(self, statement: ast.stmt) -> None:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind, value=value):
                words = {
                    getattr(n, "id", getattr(n, "attr", "")) for n in ast.walk(kind)
                }
                runs = any(isinstance(n, ast.Call) for n in ast.walk(kind))
                if runs or not words.isdisjoint(_SPECIAL):
                    msg = f"the annotation of {name}"
                    raise NotBuiltError(msg)
                self.fields[name] = object
                if value is not None:
                    self.members[name] = _literal(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.members[name] = _literal(value)
            case ast.FunctionDef():
                self.members[statement.name] = self._method(statement)
            case _:
                msg = f"a {type(statement).__name__} statement in it"
                raise NotBuiltError(msg)

    def _method(self, node: ast.FunctionDef) -> Any:
        code = self._codes.get(node)
        if code is None:
            msg = f"the source of {node.name} is not at hand"
            raise NotBuiltError(msg)
        spec = node.args
        keywords = zip(spec.kwonlyargs, spec.kw_defaults, strict=True)
        made = types.FunctionType(
            code,
            self._globals,
            node.name,
            tuple(map(_literal, spec.defaults)) or None,
            tuple(types.CellType() for _ in code.co_freevars),
        )
        made.__kwdefaults__ = {
            arg.arg: _literal(given) for arg, given in keywords if given is not None
        }
        self.functions.append(made)
        wrapped: Any = made
        for decorator in reversed(node.decorator_list):
            name = getattr(decorator, "id", "")
            if name not in _WRAPPERS or name in self._globals:
                msg = f"the decorator {ast.unparse(decorator)}"
                raise NotBuiltError(msg)
            wrapped = _WRAPPERS[name](wrapped)
        return wrapped


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        msg = f"{ast.unparse(node)} runs in it"
        raise NotBuiltError(msg) from None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if inspect.iscode(each):
            yield each
            yield from _codes(each)


def put_class_cells(cls: type, functions: tuple[types.FunctionType, ...]) -> None:
    """Let `super()` in methods find the class that they are defined in."""
    for function in functions:
        cells = zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        for name, cell in cells:
            if name == "__class__":
                cell.cell_contents = cls
