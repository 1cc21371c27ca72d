"""Traces expressions: what is known is computed, what is not becomes a line."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator
from typing import Any

from anabranch.compiler.numeric.arithmetic import (
    binary,
    compare,
    either,
    negated,
    negative,
    truth,
)
from anabranch.compiler.numeric.calling import Calling
from anabranch.compiler.numeric.calls import listed, passing
from anabranch.compiler.numeric.indexing import element_at
from anabranch.compiler.numeric.names import NO_NAME, Frame, bind, unpacked
from anabranch.compiler.numeric.values import (
    Passing,
    Record,
    RefusedError,
    Symbol,
    is_number,
    kind_of,
    shown,
)


class Expressions(Calling):
    """Evaluates expressions in a frame."""

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
        if found is NO_NAME:
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
                yield from unpacked(self.passing(node.value, frame))
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
        if isinstance(index, Symbol) and isinstance(value, list | tuple | range):
            return element_at(self.trace, value, index)
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
        return self.value(node, frame)

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
            self.trace.step()
            bind(first.target, each, inner.names)
            held = [truth(self.trace, self.value(test, inner)) for test in first.ifs]
            if any(isinstance(one, Symbol) for one in held):
                msg = "gives a number of items that depends on the items"
                raise RefusedError(msg)
            if all(held):
                yield from self._rounds(element, rest, inner)
