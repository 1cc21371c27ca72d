"""Traces expressions: what is known is computed, what is not becomes a line."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.compiler.numeric.arithmetic import (
    binary,
    compare,
    either,
    negated,
    negative,
    truth,
)
from anabranch.compiler.numeric.calls import call, knows, listed, passing, zipped
from anabranch.compiler.numeric.trace import Trace
from anabranch.compiler.numeric.values import (
    Passing,
    Record,
    RefusedError,
    Symbol,
    is_number,
    is_tuple_type,
    kind_of,
    shown,
)

_NO_NAME = object()


@dataclass
class Frame:
    """A call of a function of the user's: its names, and the lists that it has made."""

    function: types.FunctionType
    names: dict[str, Any]
    depth: int = 0
    own: list[list[Any]] = field(default_factory=list)

    def owns(self, made: list[Any]) -> bool:
        """Tell whether a list was made in this call, so that nobody else has it."""
        return any(one is made for one in self.own)

    def look_up(self, name: str) -> Any:
        """Return what a name stands for."""
        if name in self.names:
            return self.names[name]
        code = self.function.__code__
        if name in (*code.co_varnames, *code.co_cellvars):
            return _NO_NAME  # its own, without a value on this path
        if name in code.co_freevars and self.function.__closure__ is not None:
            cell = self.function.__closure__[code.co_freevars.index(name)]
            return _content(cell)
        for scope in (self.function.__globals__, vars(builtins)):
            if name in scope:
                return scope[name]
        return _NO_NAME


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing in it yet
        return _NO_NAME


Invoke = Callable[[Any, list[Any], dict[str, Any], Frame], Any]


class Expressions:
    """Evaluates expressions in a frame; `invoke` calls functions of the user's."""

    def __init__(self, trace: Trace, invoke: Invoke) -> None:
        self.trace = trace
        self._invoke = invoke

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """Return the value of an expression that may be kept."""
        found = self.passing(node, frame)
        if isinstance(found, Passing):
            msg = "keeps an iterator"
            raise RefusedError(msg)
        return found

    def passing(self, node: ast.expr, frame: Frame) -> Any:
        """Return the value of an expression, which may be an iterator."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            msg = f"uses {type(node).__name__}"
            raise RefusedError(msg)
        return method(node, frame)

    def _constant(self, node: ast.Constant, _: Frame) -> Any:
        return node.value

    def _name(self, node: ast.Name, frame: Frame) -> Any:
        found = frame.look_up(node.id)
        if found is _NO_NAME:
            msg = f"uses {node.id}, which has no value on every path"
            raise RefusedError(msg)
        return found

    def _binop(self, node: ast.BinOp, frame: Frame) -> Any:
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        made = binary(self.trace, node.op, left, right)
        return self._owned(made, frame)

    def _unaryop(self, node: ast.UnaryOp, frame: Frame) -> Any:
        value = self.value(node.operand, frame)
        match node.op:
            case ast.USub() if is_number(value):
                return negative(self.trace, value)
            case ast.UAdd() if is_number(value) and kind_of(value) != "bool":
                return value
            case ast.Not():
                return negated(self.trace, value)
        msg = f"uses {type(node.op).__name__} on a {shown(value)}"
        raise RefusedError(msg)

    def _compare(self, node: ast.Compare, frame: Frame) -> Any:
        left = self.value(node.left, frame)
        held: Any = True
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, frame)
            this = compare(self.trace, op, left, right)
            if held is True:
                held = this
            elif isinstance(this, Symbol):
                held = self.trace.new("bool", f"{held.name} and {this.name}")
            elif not this:
                return False
            if held is False:
                return False
            left = right
        return held

    def _boolop(self, node: ast.BoolOp, frame: Frame) -> Any:
        return self._any_of(node.op, node.values, frame)

    def _any_of(self, op: ast.boolop, nodes: list[ast.expr], frame: Frame) -> Any:
        value = self.value(nodes[0], frame)
        if len(nodes) == 1:
            return value
        held = truth(self.trace, value)
        goes_on = isinstance(op, ast.And)
        if not isinstance(held, Symbol):
            return self._any_of(op, nodes[1:], frame) if held == goes_on else value
        if not isinstance(value, Symbol) or value.kind != "bool":
            msg = "takes a number for true or false in and/or"
            raise RefusedError(msg)
        condition = held if goes_on else negated(self.trace, held)
        with self.trace.under(condition.name, expression=True):
            rest = self._any_of(op, nodes[1:], frame)
        one, two = (rest, value) if goes_on else (value, rest)
        return either(self.trace, held, one, two)

    def _ifexp(self, node: ast.IfExp, frame: Frame) -> Any:
        held = truth(self.trace, self.value(node.test, frame))
        if not isinstance(held, Symbol):
            return self.value(node.body if held else node.orelse, frame)
        with self.trace.under(held.name, expression=True):
            one = self.value(node.body, frame)
        with self.trace.under(negated(self.trace, held).name, expression=True):
            two = self.value(node.orelse, frame)
        return either(self.trace, held, one, two)

    def _tuple(self, node: ast.Tuple, frame: Frame) -> Any:
        return tuple(self._elements(node.elts, frame))

    def _list(self, node: ast.List, frame: Frame) -> Any:
        return self._owned(list(self._elements(node.elts, frame)), frame)

    def _elements(self, nodes: list[ast.expr], frame: Frame) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from _unpacked(self.value(node.value, frame))
            else:
                yield self.value(node, frame)

    def _attribute(self, node: ast.Attribute, frame: Frame) -> Any:
        value = self.value(node.value, frame)
        if isinstance(value, Record):
            fields = value.type._fields  # type: ignore[attr-defined]
            if node.attr in fields:
                return value.values[fields.index(node.attr)]
        elif isinstance(value, types.ModuleType) and hasattr(value, node.attr):
            return getattr(value, node.attr)
        msg = f"uses .{node.attr} of a {shown(value)}"
        raise RefusedError(msg)

    def _subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        value = self.value(node.value, frame)
        if isinstance(value, Record):
            value = value.values
        index = self._index(node.slice, frame)
        if not isinstance(value, list | tuple | range):
            msg = f"takes a part of a {shown(value)}"
            raise RefusedError(msg)
        try:
            found = value[index]
        except (IndexError, TypeError, ValueError) as error:
            msg = f"raises {type(error).__name__}: {error}"
            raise RefusedError(msg) from error
        return self._owned(found, frame) if isinstance(index, slice) else found

    def _index(self, node: ast.expr, frame: Frame) -> Any:
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(p and self._index(p, frame) for p in parts))
        index = self.value(node, frame)
        if isinstance(index, Symbol):
            msg = "takes an item by a number that depends on the items"
            raise RefusedError(msg)
        return index

    def _listcomp(self, node: ast.ListComp, frame: Frame) -> Any:
        return self._owned(self._made(node.elt, node.generators, frame), frame)

    def _generatorexp(self, node: ast.GeneratorExp, frame: Frame) -> Any:
        return passing(self._made(node.elt, node.generators, frame))

    def _made(
        self, element: ast.expr, loops: list[ast.comprehension], frame: Frame
    ) -> list[Any]:
        self.trace.in_expression += 1  # no list may change while it is gone through
        try:
            return list(self._rounds(element, loops, frame))
        finally:
            self.trace.in_expression -= 1

    def _rounds(
        self, element: ast.expr, loops: list[ast.comprehension], frame: Frame
    ) -> Iterator[Any]:
        inner = Frame(frame.function, dict(frame.names), frame.depth, frame.own)
        if not loops:
            yield self.value(element, inner)
            return
        first, *rest = loops
        for each in listed(self.passing(first.iter, frame)):
            bind(first.target, each, inner.names)
            held = [truth(self.trace, self.value(test, inner)) for test in first.ifs]
            if any(isinstance(one, Symbol) for one in held):
                msg = "gives a number of items that depends on the items"
                raise RefusedError(msg)
            if all(held):
                yield from self._rounds(element, rest, inner)

    def _call(self, node: ast.Call, frame: Frame) -> Any:
        if isinstance(node.func, ast.Attribute):
            target = self.value(node.func.value, frame)
            if isinstance(target, Record) and node.func.attr == "_replace":
                return _replaced(target, self._keywords(node, frame))
            if isinstance(target, list):
                return self._list_method(target, node, frame)
        function = self.value(node.func, frame)
        if function is zip or (knows(function) and len(node.args) == 1):
            args = [self._argument(each, frame) for each in node.args]
        else:
            args = list(self._elements(node.args, frame))
        keywords = self._keywords(node, frame)
        if function is zip and not keywords.keys() - {"strict"}:
            return zipped(args, **keywords)
        if is_tuple_type(function):
            return _record(function, args, keywords)
        if isinstance(function, types.FunctionType):
            return self._invoke(function, args, keywords, frame)
        if not knows(function) or keywords:
            name = getattr(function, "__name__", shown(function))
            msg = f"calls {name}" + (" with keywords" if keywords else "")
            raise RefusedError(msg)
        try:
            return self._owned(call(self.trace, function, args), frame)
        except TypeError as error:
            msg = f"calls {function.__name__} in a way that is not known: {error}"
            raise RefusedError(msg) from error

    def _argument(self, node: ast.expr, frame: Frame) -> Any:
        if isinstance(node, ast.Starred):
            msg = "calls with *arguments"
            raise RefusedError(msg)
        return self.passing(node, frame)

    def _keywords(self, node: ast.Call, frame: Frame) -> dict[str, Any]:
        if any(each.arg is None for each in node.keywords):
            msg = "calls with **keywords"
            raise RefusedError(msg)
        return {str(k.arg): self.value(k.value, frame) for k in node.keywords}

    def _list_method(self, target: list[Any], node: ast.Call, frame: Frame) -> None:
        assert isinstance(node.func, ast.Attribute)  # noqa: S101 - seen by the caller
        args = list(self._elements(node.args, frame))
        self.changing(target, frame)
        match node.func.attr, args:
            case "append", [value]:
                target.append(value)
            case "extend", [values]:
                target.extend(listed(values))
            case name, _:
                msg = f"calls .{name} of a list"
                raise RefusedError(msg)

    def changing(self, target: Any, frame: Frame) -> None:
        """Refuse to change what somebody else may hold, or only on one path."""
        if not isinstance(target, list) or not frame.owns(target):
            msg = "changes something that it has not made itself"
            raise RefusedError(msg)
        if self.trace.in_expression:
            msg = "changes a list within a condition"
            raise RefusedError(msg)

    def _owned(self, made: Any, frame: Frame) -> Any:
        if isinstance(made, list):
            frame.own.append(made)
        return made


def bind(target: ast.expr, value: Any, names: dict[str, Any]) -> None:
    """Give the names of an assignment their values."""
    if isinstance(target, ast.Name):
        names[target.id] = value
        return
    if not isinstance(target, ast.Tuple | ast.List):
        msg = f"assigns to {type(target).__name__}"
        raise RefusedError(msg)
    parts = _unpacked(value)
    if any(isinstance(t, ast.Starred) for t in target.elts):
        msg = "assigns to *names"
        raise RefusedError(msg)
    if len(parts) != len(target.elts):
        msg = f"takes {len(parts)} values apart into {len(target.elts)}"
        raise RefusedError(msg)
    for each, part in zip(target.elts, parts, strict=True):
        bind(each, part, names)


def _unpacked(value: Any) -> list[Any]:
    return list(value.values) if isinstance(value, Record) else listed(value)


def _record(made: Any, args: list[Any], keywords: Mapping[str, Any]) -> Record:
    given = dict(made._field_defaults)
    given.update(zip(made._fields, args, strict=False))
    given.update(keywords)
    whole = len(args) <= len(made._fields) and set(given) == set(made._fields)
    twice = set(made._fields[: len(args)]) & set(keywords)
    if not whole or twice:
        msg = f"makes a {made.__name__} with other attributes than it has"
        raise RefusedError(msg)
    return Record(made, tuple(given[name] for name in made._fields))


def _replaced(record: Record, keywords: Mapping[str, Any]) -> Record:
    fields = record.type._fields  # type: ignore[attr-defined]
    if not set(keywords) <= set(fields):
        msg = f"replaces what a {record.type.__name__} does not have"
        raise RefusedError(msg)
    pairs = zip(fields, record.values, strict=True)
    return Record(record.type, tuple(keywords.get(n, v) for n, v in pairs))
