"""Expressions in a trace: known values are computed, others become kernel lines.

An index that is known only at run time works if the values follow a rule that an array
follows too: adjacent items of the input, known floats, evenly spaced integers. A bool
selects between the first two, whatever they are. Python indexes nothing by a float.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Iterator, Sequence
from typing import Any

from anabranch.compiler.numeric.calls import (
    NO_NAME,
    CallFrame,
    Calling,
    bind,
    list_values,
    passing,
    unpack,
)
from anabranch.compiler.numeric.values import (
    Passing,
    RefusedError,
    Symbol,
    Trace,
    TracedRecord,
    binary,
    bounds,
    check_bounds,
    compare,
    describe_value,
    either,
    is_number,
    is_sequence,
    kind_of,
    negate,
    negative,
    truth,
)


def element_at(trace: Trace, values: Sequence[Any], index: Symbol) -> Any:
    """Return `values[index]`, if the values follow a rule that arrays can follow.

    >>> trace = Trace()
    >>> element_at(trace, (5, 7, 9), Symbol("v0", "int", (0, 2))).span
    (5, 9)
    >>> trace.lines
    [(0, 'v1 = 5 + (2) * v0')]
    """
    if index.kind == "float":
        msg = "takes an item by a float, which raises TypeError"
        raise RefusedError(msg)
    low, high = bounds(index)
    if low < 0 or high >= len(values):
        msg = "takes an item by a number that may be out of range"
        raise RefusedError(msg)
    if index.kind == "bool":
        return either(trace, index, values[1], values[0])
    return _take_item(trace, values, index)


def _take_item(trace: Trace, values: Sequence[Any], index: Symbol) -> Any:
    first = values[0]
    if all(type(value) is tuple and len(value) == len(first) for value in values):
        columns = zip(*values, strict=True)
        return tuple(_take_item(trace, column, index) for column in columns)
    if all(type(value) is float for value in values):
        start = trace.row(values)
        return trace.new("float", f"constants[{start} + {index.name}]")
    if all(type(value) is int for value in values):
        return _progression(trace, values, index)
    places = [
        trace.loads.get(value.name) if isinstance(value, Symbol) else None
        for value in values
    ]
    array, begin = places[0] or ("", 0)
    if places == [(array, begin + number) for number in range(len(values))]:
        text = f"{array} + {begin} + {index.name}]"
        return trace.new(first.kind, text, first.span)
    msg = "goes through values in a way that arrays cannot follow"
    raise RefusedError(msg)


def _progression(trace: Trace, values: Sequence[int], index: Symbol) -> Symbol:
    start = values[0]
    step = values[1] - start if len(values) > 1 else 0
    if any(v != start + step * number for number, v in enumerate(values)):
        msg = "goes through whole numbers that are not evenly spaced"
        raise RefusedError(msg)
    if (start, step) == (0, 1):
        return index
    low, high = bounds(index)
    for part in (start, step, step * high):  # each is a number of the kernel
        check_bounds((part, part))
    chosen = values[low : high + 1]
    text = f"{trace.text(start)} + ({step}) * {index.name}"
    return trace.new("int", text, (min(chosen), max(chosen)))


class ExpressionTracer(Calling):
    """Evaluates expressions in a frame."""

    def value(self, node: ast.expr, frame: CallFrame) -> Any:
        """Return the value of an expression that may be stored."""
        found = self.passing(node, frame)
        if isinstance(found, Passing):
            msg = "keeps an iterator"
            raise RefusedError(msg)
        return found

    def passing(self, node: ast.expr, frame: CallFrame) -> Any:
        """Return the value of an expression, which may be an iterator."""
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            msg = f"uses {type(node).__name__}"
            raise RefusedError(msg)
        return method(node, frame)

    def _constant(self, node: ast.Constant, _: CallFrame) -> Any:
        return node.value

    def _name(self, node: ast.Name, frame: CallFrame) -> Any:
        found = frame.look_up(node.id)
        if found is NO_NAME:
            msg = f"uses {node.id}, which has no value on every path"
            raise RefusedError(msg)
        return found

    def _binop(self, node: ast.BinOp, frame: CallFrame) -> Any:
        left, right = self.value(node.left, frame), self.value(node.right, frame)
        made = binary(self.trace, node.op, left, right)
        return self._own(made, frame)

    def _unaryop(self, node: ast.UnaryOp, frame: CallFrame) -> Any:
        value = self.value(node.operand, frame)
        match node.op:
            case ast.USub() if is_number(value):
                return negative(self.trace, value)
            case ast.UAdd() if is_number(value) and kind_of(value) != "bool":
                return value
            case ast.Not():
                return negate(self.trace, value)
        msg = f"uses {type(node.op).__name__} on a {describe_value(value)}"
        raise RefusedError(msg)

    def _compare(self, node: ast.Compare, frame: CallFrame) -> Any:
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

    def _boolop(self, node: ast.BoolOp, frame: CallFrame) -> Any:
        return self._any_of(node.op, node.values, frame)

    def _any_of(self, op: ast.boolop, nodes: list[ast.expr], frame: CallFrame) -> Any:
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
        condition = held if goes_on else negate(self.trace, held)
        with self.trace.under(condition.name, expression=True):
            rest = self._any_of(op, nodes[1:], frame)
        one, two = (rest, value) if goes_on else (value, rest)
        return either(self.trace, held, one, two)

    def _ifexp(self, node: ast.IfExp, frame: CallFrame) -> Any:
        held = truth(self.trace, self.value(node.test, frame))
        if not isinstance(held, Symbol):
            return self.value(node.body if held else node.orelse, frame)
        with self.trace.under(held.name, expression=True):
            one = self.value(node.body, frame)
        with self.trace.under(negate(self.trace, held).name, expression=True):
            two = self.value(node.orelse, frame)
        return either(self.trace, held, one, two)

    def _tuple(self, node: ast.Tuple, frame: CallFrame) -> Any:
        return tuple(self._elements(node.elts, frame))

    def _list(self, node: ast.List, frame: CallFrame) -> Any:
        return self._own(list(self._elements(node.elts, frame)), frame)

    def _elements(self, nodes: list[ast.expr], frame: CallFrame) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from unpack(self.passing(node.value, frame))
            else:
                yield self.value(node, frame)

    def _attribute(self, node: ast.Attribute, frame: CallFrame) -> Any:
        value = self.value(node.value, frame)
        if isinstance(value, TracedRecord):
            fields = value.type._fields  # type: ignore[attr-defined]
            if node.attr in fields:
                return value.values[fields.index(node.attr)]
        elif isinstance(value, types.ModuleType) and node.attr in vars(value):
            return vars(value)[node.attr]  # a `__getattr__` of the program is not run
        msg = f"uses .{node.attr} of a {describe_value(value)}"
        raise RefusedError(msg)

    def _subscript(self, node: ast.Subscript, frame: CallFrame) -> Any:
        value = self.value(node.value, frame)
        if isinstance(value, TracedRecord):
            value = value.values
        index = self._index(node.slice, frame)
        if not is_sequence(value):
            msg = f"takes a part of a {describe_value(value)}"
            raise RefusedError(msg)
        if isinstance(index, Symbol):
            return element_at(self.trace, value, index)
        try:
            found = value[index]
        except (IndexError, TypeError, ValueError) as error:
            msg = f"raises {type(error).__name__}: {error}"
            raise RefusedError(msg) from error
        return self._own(found, frame) if isinstance(index, slice) else found

    def _index(self, node: ast.expr, frame: CallFrame) -> Any:
        if isinstance(node, ast.Slice):
            parts = (node.lower, node.upper, node.step)
            return slice(*(p and self._index(p, frame) for p in parts))
        index = self.value(node, frame)
        if index is not None and not is_number(index):  # `__index__` is not run
            msg = f"takes a {describe_value(index)} as an index"
            raise RefusedError(msg)
        return index

    def _listcomp(self, node: ast.ListComp, frame: CallFrame) -> Any:
        return self._own(self._make_list(node.elt, node.generators, frame), frame)

    def _generatorexp(self, node: ast.GeneratorExp, frame: CallFrame) -> Any:
        return passing(self._make_list(node.elt, node.generators, frame))

    def _make_list(
        self, element: ast.expr, loops: list[ast.comprehension], frame: CallFrame
    ) -> list[Any]:
        self.trace.in_expression += 1  # no list may change while it is iterated
        try:
            return list(self._rounds(element, loops, frame))
        finally:
            self.trace.in_expression -= 1

    def _rounds(
        self, element: ast.expr, loops: list[ast.comprehension], frame: CallFrame
    ) -> Iterator[Any]:
        inner = CallFrame(frame.function, dict(frame.names), frame.depth, frame.own)
        if not loops:
            yield self.value(element, inner)
            return
        first, *rest = loops
        for each in list_values(self.passing(first.iter, frame)):
            self.trace.step()
            bind(first.target, each, inner.names)
            held = [truth(self.trace, self.value(test, inner)) for test in first.ifs]
            if any(isinstance(one, Symbol) for one in held):
                msg = "gives a number of items that depends on the items"
                raise RefusedError(msg)
            if all(held):
                yield from self._rounds(element, rest, inner)
