"""Classes defined in a function, built without running the function.

A class whose body consists of methods, annotations and literals can be built from the
code objects that Python compiled for the function, so no user code runs. Its methods
see the variables of the defining call, as any inner function does.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import enum
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.python import ir
from anabranch.python.objects import class_attribute
from anabranch.python.source import node_of

_WRAPPERS: Mapping[str, Any] = {
    "property": property,
    "staticmethod": staticmethod,
    "classmethod": classmethod,
}
_SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")  # annotations that define no field


class NotBuiltError(Exception):
    """Raised if building a class would run code; the text says which."""


def build_class(
    code: ir.Function,
    bases: list[Any],
    decorators: list[Any],
    function: types.FunctionType,
) -> tuple[type, tuple[types.FunctionType, ...]]:
    """Return the class whose body is lowered to `code`, and its functions."""
    body = _ClassBody(code, function)
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
        record = collections.namedtuple(code.name, names, defaults=given)  # type: ignore[misc]  # noqa: PYI024
        plain = [record]
    try:
        made = type(code.name, tuple(plain), body.namespace)
        for decorator in decorators:
            made = decorator(made)
    except Exception as error:  # a class that Python would refuse
        raise NotBuiltError(str(error)) from error
    return made, tuple(body.functions)


def decorator_of(value: Any, given: ir.Decorator, code: ir.Function) -> Any:
    """Return how a class decorator transforms a class; `dataclass` only."""
    arguments = given.arguments or ()
    if value is not dataclasses.dataclass or any(
        each.name in ("", "*", "**") for each in arguments
    ):
        msg = f"the decorator {ir.show_code(given.at)}"
        raise NotBuiltError(msg)
    options = {each.name: _literal(each.value, code) for each in arguments}
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
    """The definitions in a class body."""

    def __init__(self, code: ir.Function, function: types.FunctionType) -> None:
        self._code = code
        self._globals = function.__globals__
        self._codes = {node_of(each): each for each in _codes(function.__code__)}
        self.functions: list[types.FunctionType] = []
        self.fields: dict[str, Any] = {}
        self.members: dict[str, Any] = {}
        for one in code.body:
            self._read(one)
        self.qualname = f"{function.__qualname__}.<locals>.{code.name}"

    @property
    def namespace(self) -> dict[str, Any]:
        """The initial names of the class."""
        return {
            "__module__": str(self._globals.get("__name__")),
            "__qualname__": self.qualname,
            "__annotations__": dict(self.fields),
            **self.members,
        }

    def _read(self, one: ir.Instruction) -> None:
        match one:
            case ir.Store(name=name, scope="local", value=value):
                self.members[name] = self._member(value)
            case ir.Annotate(name=name, annotation=kind):
                words = set(re.findall(r"\w+", ast.unparse(kind)))
                runs = any(isinstance(each, ast.Call) for each in ast.walk(kind))
                if runs or not words.isdisjoint(_SPECIAL):
                    msg = f"the annotation of {name}"
                    raise NotBuiltError(msg)
                self.fields[name] = object
            case (
                ir.Const() | ir.Build() | ir.Unary() | ir.MakeFunction() | ir.LoadName()
            ):
                return  # where it is used
            case ir.Call(target=target) if self._code.users.get(target):
                return
            case _:
                msg = f"{one.text} runs in it"
                raise NotBuiltError(msg)

    def _member(self, register: ir.Register) -> Any:
        match self._code.maker_of(register):
            case ir.MakeFunction() as made:
                return self._method(made)
            case ir.Call(function=called, arguments=[ir.Argument(value=inner)]) as call:
                match self._code.maker_of(called):
                    case ir.LoadName(name=name, scope="global"):
                        if name in _WRAPPERS and name not in self._globals:
                            return _WRAPPERS[name](self._member(inner))
                if isinstance(self._code.maker_of(inner), ir.MakeFunction | ir.Call):
                    msg = f"the decorator {call.text}"
                    raise NotBuiltError(msg)
        return _literal(register, self._code)

    def _method(self, made: ir.MakeFunction) -> types.FunctionType:
        inner = made.function
        code = self._codes.get(inner.node)  # type: ignore[call-overload]
        if code is None:
            msg = f"the source of {inner.name} is not available"
            raise NotBuiltError(msg)
        given = {each.name: _literal(each.value, self._code) for each in made.defaults}
        late = tuple(given[name] for name in inner.parameters if name in given)
        function = types.FunctionType(
            code,
            self._globals,
            inner.name,
            late or None,
            tuple(types.CellType() for _ in code.co_freevars),
        )
        named = inner.keyword_only
        function.__kwdefaults__ = {name: given[name] for name in named if name in given}
        self.functions.append(function)
        return function


def _literal(register: ir.Register, code: ir.Function) -> Any:
    try:
        return ir.literal_of(register, code)
    except ir.NotLiteralError:
        made = code.maker_of(register)
        msg = f"{'code' if made is None else made.text} runs in it"
        raise NotBuiltError(msg) from None


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if inspect.iscode(each):
            yield each
            yield from _codes(each)


def put_class_cells(cls: type, functions: tuple[types.FunctionType, ...]) -> None:
    """Set the cells through which `super()` finds the class of its method."""
    for function in functions:
        cells = zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        for name, cell in cells:
            if name == "__class__":
                cell.cell_contents = cls
