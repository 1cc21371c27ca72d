"""What an expression may stand for."""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.analysis.classes import classes_of
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.names import Names
from anabranch.analysis.objects import is_users_class
from anabranch.analysis.processes import ORDER_FREE
from anabranch.analysis.results import number
from anabranch.analysis.scopes import COMPREHENSIONS, outer_expressions, target_names
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    ELEMENTS,
    PLAIN,
    Arguments,
    Closure,
    Fresh,
    Known,
    LibraryObject,
    Plain,
    Root,
    Value,
    join,
)

_BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
}
_COMPARISONS = (
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"),
    "__hash__",
)
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.items()))
_TRUTH = ("__bool__", "__len__")
_TEXT = ("__format__", "__str__", "__repr__")
_UNARY = ("__neg__", "__pos__", "__invert__", *_TRUTH)


class Expressions(Names):
    """The part of the interpreter that evaluates expressions."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self.growth = 0  # how often a variable gained a possibility
        self.comprehensions: dict[tuple[ast.AST, int], Frame] = {}

    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """Return what an expression may stand for, and record what it does."""
        handler = _HANDLERS.get(type(node))
        if handler is None:
            text = f"{shown(node)} ({type(node).__name__}) cannot be followed"
            return self.unknown(text, node, frame)
        return handler(self, node, frame)

    def parts(self, node: ast.expr, frame: Frame) -> list[Value]:
        """Evaluate the expressions directly below a node."""
        below = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))
        return [self.evaluate(each, frame) for each in below]

    def _special(
        self, value: Value, names: tuple[str, ...], node: ast.AST, frame: Frame
    ) -> Value:
        args = Arguments(rest=value | PLAIN)
        return join(self.run_special(root, names, node, frame, args) for root in value)

    # -- names

    # -- operators

    def binary(self, node: ast.BinOp, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        right = self.evaluate(node.right, frame)
        return self.combined(left, right, node.op, node, frame)

    def combined(
        self, left: Value, right: Value, op: ast.operator, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an operator makes of two values."""
        both = left | right
        if isinstance(op, ast.Mod) and any(map(_may_be_text, left)):
            self.run_operators(right, node, frame)
            self.watch_text(right, node, frame)
            if all(isinstance(r, Plain) and r.type in (str, bytes) for r in left):
                return frozenset([Plain(str)])
        if all(isinstance(root, Plain) for root in both):
            is_int = not isinstance(op, ast.Div | ast.Pow)
            return frozenset([number(both if is_int else both | {Plain(float)})])
        name = _BINARY[type(op)]
        ran = self._special(
            self.operands(both), (f"__{name}__", f"__r{name}__"), node, frame
        )
        fresh = self.fresh(node, frame, self._kind_of_both(both))
        self.heap.put(fresh.site, ELEMENTS, self.inside(both))
        return frozenset([fresh]) | ran

    def _kind_of_both(self, both: Value) -> type | None:
        """Return the class of what an operator makes of two values of Python's own."""
        kinds: set[type] = set()
        for root in both:
            classes = classes_of(root, self.universe)
            if classes is None or any(map(is_users_class, classes)):
                return None
            kinds |= classes
        if np.ndarray in kinds:
            return np.ndarray
        if kinds & {set, frozenset, *_VIEWS}:
            return set
        return kinds.pop() if len(kinds) == 1 else LibraryObject

    def unary(self, node: ast.UnaryOp, frame: Frame) -> Value:
        value = self.evaluate(node.operand, frame)
        ran = self._special(value, _UNARY, node, frame)
        if isinstance(node.op, ast.Not):
            return frozenset([Plain(bool)])
        if all(isinstance(r, Plain) for r in value):
            return frozenset([number(value)])
        return frozenset([self.fresh(node, frame)]) | ran

    def boolean(self, node: ast.BoolOp, frame: Frame) -> Value:
        value = join(self.parts(node, frame))
        self._special(value, _TRUTH, node, frame)
        return value

    def compare(self, node: ast.Compare, frame: Frame) -> Value:
        value = join(self.parts(node, frame))
        names = _COMPARISONS
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return PLAIN
        ran = self._special(value, names, node, frame)
        self._special(self.operands(value) - value, names, node, frame)
        classes = [classes_of(root, self.universe) for root in value]
        if all(each is not None and np.ndarray not in each for each in classes):
            return ran | {Plain(bool)}
        kind = np.ndarray if all(each is not None for each in classes) else None
        return ran.union([Plain(bool), self.fresh(node, frame, kind)])

    def choice(self, node: ast.IfExp, frame: Frame) -> Value:
        test = self.evaluate(node.test, frame)
        self._special(test, _TRUTH, node, frame)
        return self.evaluate(node.body, frame) | self.evaluate(node.orelse, frame)

    def text(self, node: ast.JoinedStr | ast.FormattedValue, frame: Frame) -> Value:
        value = join(self.parts(node, frame))
        self._special(self.operands(value), _TEXT, node, frame)
        self.watch_text(value, node, frame)
        return frozenset([Plain(str)])

    # -- displays and comprehensions

    def display(self, node: ast.List | ast.Set, frame: Frame) -> Value:
        held = join(self._spread(node.elts, frame))
        if isinstance(node, ast.List):
            return self._made(node, frame, list, held)
        self.run_operators(held, node, frame)
        return self._made(node, frame, set, held)

    def _spread(self, elements: list[ast.expr], frame: Frame) -> list[Value]:
        return [
            self.iterate(self.evaluate(each.value, frame), each, frame)
            if isinstance(each, ast.Starred)
            else self.evaluate(each, frame)
            for each in elements
        ]

    def tuple(self, node: ast.Tuple, frame: Frame) -> Value:
        fresh = self.fresh(node, frame, tuple)
        starred = any(isinstance(each, ast.Starred) for each in node.elts)
        for index, value in enumerate(self._spread(node.elts, frame)):
            where = ELEMENTS if starred else f"[{index}]"
            self.heap.put(fresh.site, where, value)
        return frozenset([fresh])

    def dictionary(self, node: ast.Dict, frame: Frame) -> Value:
        held = []
        for key, value in zip(node.keys, node.values, strict=True):
            given = self.evaluate(value, frame)
            if key is None:  # **mapping
                held.append(self.elements(given, node, frame))
            else:
                held.extend((self.evaluate(key, frame), given))
        self._special(join(held), ("__hash__", "__eq__"), node, frame)
        return self._made(node, frame, dict, join(held))

    def _made(self, node: ast.AST, frame: Frame, kind: Any, held: Value) -> Value:
        fresh = self.fresh(node, frame, kind)
        self.heap.put(fresh.site, ELEMENTS, held)
        return frozenset([fresh])

    def comprehension(self, node: Any, frame: Frame) -> Value:
        inner = self.frame_of_comprehension(node, frame)
        for index, generator in enumerate(node.generators):
            if generator.is_async:
                self.unknown("async for cannot be followed", node, frame)
            source = self.evaluate(generator.iter, frame if index == 0 else inner)
            free = isinstance(node, ast.SetComp) or node in self.order_free
            found = self.gone_through(source, node, frame, ordered=not free)
            self.assign(generator.target, found, inner)
            for test in generator.ifs:
                self._special(self.evaluate(test, inner), _TRUTH, node, frame)
        if isinstance(node, ast.DictComp):
            held = self.evaluate(node.key, inner) | self.evaluate(node.value, inner)
        else:
            held = self.evaluate(node.elt, inner)
        if isinstance(node, ast.DictComp | ast.SetComp):
            self._special(held, ("__hash__", "__eq__"), node, frame)
        return self._made(node, frame, _KIND_OF.get(type(node)), held)

    def iterate(self, source: Value, node: ast.AST, frame: Frame) -> Value:
        """Return what a loop over `source` goes through."""
        return self.gone_through(source, node, frame, ordered=True)

    def gone_through(
        self, source: Value, node: ast.AST, frame: Frame, *, ordered: bool
    ) -> Value:
        """Return the elements of a source; `ordered` if their order matters."""
        if ordered:
            self.watch_iteration(source, node, frame)
        self._special(source, ("__next__", "__len__"), node, frame)
        return self.elements(source, node, frame)

    def frame_of_comprehension(self, node: ast.AST, frame: Frame) -> Frame:
        """Return the scope of a comprehension, the same one each time."""
        key = (node, id(frame))
        if key not in self.comprehensions:
            own = frozenset().union(
                *(target_names(g.target) for g in node.generators)  # type: ignore[attr-defined]
            )
            self.comprehensions[key] = Frame(
                node, frame.file, frame.function, frame, own, is_comprehension=True
            )
        return self.comprehensions[key]

    # -- parts of values

    def subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        index = self.evaluate(node.slice, frame)
        self._special(index, ("__hash__", "__eq__", "__index__"), node, frame)
        match node.slice:
            case ast.Constant(value=int(position)) if position >= 0:
                return join(self._at_position(r, position, node, frame) for r in value)
        if isinstance(node.slice, ast.Slice):
            return join(self._sliced(root, node, frame) for root in value)
        return self.elements(value, node, frame)

    def _sliced(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        """Return a part of a sequence: of a list a new one, of an array a view."""
        held = self.elements(frozenset([root]), node, frame)
        classes = classes_of(root, self.universe)
        if classes is not None and len(classes) == 1 and classes <= {list, tuple}:
            return self._made(node, frame, next(iter(classes)), held)
        return held | {root}

    def _at_position(
        self, root: Root, position: int, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(root, Fresh) and root.type is tuple:
            exact = self.heap.get(root.site, f"[{position}]")
            return exact | self.heap.get(root.site, ELEMENTS)
        return self.elements(frozenset([root]), node, frame)

    def load_attribute(self, node: ast.Attribute, frame: Frame) -> Value:
        match node.value:
            case ast.Call(func=ast.Name(id="super")):
                return self._super(node, frame)
        return self.attribute(self.evaluate(node.value, frame), node.attr, node, frame)

    # -- functions and calls

    def call_expression(self, node: ast.Call, frame: Frame) -> Value:
        callee = self._callee(node.func, frame)
        order_free = not node.keywords and all(
            isinstance(r, Known) and id(r.obj) in ORDER_FREE for r in callee
        )
        if order_free:
            self.order_free.update(node.args)
        args = self._arguments(node, frame)
        sums = any(isinstance(r, Known) and r.obj is sum for r in callee)
        if order_free and sums and not self.are_whole_numbers(args):
            self.order_free.difference_update(node.args)  # rounding tells the order
            args = self._arguments(node, frame)
        return self.call(callee, args, node, frame)

    def _arguments(self, node: ast.Call, frame: Frame) -> Arguments:
        args = Arguments()
        for each in node.args:
            if isinstance(each, ast.Starred):
                args.rest |= self.iterate(self.evaluate(each.value, frame), node, frame)
            elif args.rest:
                args.rest |= self.evaluate(each, frame)
            else:
                args.positional.append(self.evaluate(each, frame))
        for keyword in node.keywords:
            value = self.evaluate(keyword.value, frame)
            if keyword.arg is None:
                self._special(value, ("keys",), node, frame)
                args.rest |= self.elements(value, node, frame) | PLAIN
            else:
                args.keywords[keyword.arg] = value
        return args

    def _callee(self, node: ast.expr, frame: Frame) -> Value:
        match node:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super"))):
                return self.evaluate(node, frame)
            case ast.Attribute(value=value, attr=attr):
                owner = self.evaluate(value, frame)
                return self.called_attribute(owner, attr, node, frame)
        return self.evaluate(node, frame)

    def function(self, node: Any, frame: Frame) -> Value:
        """Return a function that is defined here; it runs where it is called."""
        for outer in outer_expressions(node):
            self.evaluate(outer, frame)
        return frozenset([Closure(node, frame)])

    def walrus(self, node: ast.NamedExpr, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        scope = frame
        while scope.is_comprehension and scope.parent is not None:
            scope = scope.parent
        self.assign(node.target, value, scope)
        return value

    def yield_(self, node: ast.Yield, frame: Frame) -> Value:
        value = PLAIN if node.value is None else self.evaluate(node.value, frame)
        self._give_out(value, frame)
        return PLAIN

    def _give_out(self, value: Value, frame: Frame) -> None:
        if not value <= frame.yielded:
            frame.yielded |= value
            self.growth += 1

    def yield_from(self, node: ast.YieldFrom, frame: Frame) -> Value:
        source = self.evaluate(node.value, frame)
        self._give_out(self.iterate(source, node, frame), frame)
        return PLAIN | self.inside(source)

    def constant(self, node: ast.Constant, frame: Frame) -> Value:
        return frozenset([Plain(type(node.value))])

    def slice(self, node: ast.Slice, frame: Frame) -> Value:
        self._special(join(self.parts(node, frame)), ("__index__",), node, frame)
        return PLAIN

    def starred(self, node: ast.Starred, frame: Frame) -> Value:
        return self.iterate(self.evaluate(node.value, frame), node, frame)

    # -- what the statements provide

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Bind a target of an assignment."""


def _may_be_text(root: Root) -> bool:
    return not isinstance(root, Plain) or root.type in (None, str, bytes)


_KIND_OF = {
    ast.ListComp: list,
    ast.SetComp: set,
    ast.DictComp: dict,
    ast.GeneratorExp: types.GeneratorType,
}
_HANDLERS: dict[type[ast.expr], Callable[[Any, Any, Frame], Value]] = {
    ast.Name: Expressions.name,
    ast.Constant: Expressions.constant,
    ast.BinOp: Expressions.binary,
    ast.UnaryOp: Expressions.unary,
    ast.BoolOp: Expressions.boolean,
    ast.Compare: Expressions.compare,
    ast.IfExp: Expressions.choice,
    ast.JoinedStr: Expressions.text,
    ast.FormattedValue: Expressions.text,
    ast.List: Expressions.display,
    ast.Set: Expressions.display,
    ast.Tuple: Expressions.tuple,
    ast.Dict: Expressions.dictionary,
    ast.Subscript: Expressions.subscript,
    ast.Attribute: Expressions.load_attribute,
    ast.Call: Expressions.call_expression,
    ast.Lambda: Expressions.function,
    ast.NamedExpr: Expressions.walrus,
    ast.Yield: Expressions.yield_,
    ast.YieldFrom: Expressions.yield_from,
    ast.Slice: Expressions.slice,
    ast.Starred: Expressions.starred,
    **dict.fromkeys(COMPREHENSIONS, Expressions.comprehension),
}
