"""What an expression may stand for."""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from anabranch.analysis.classes import classes_of
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.operators import TRUTH, Operators
from anabranch.analysis.processes import ORDER_FREE
from anabranch.analysis.scopes import COMPREHENSIONS, outer_expressions, target_names
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    ELEMENTS,
    PLAIN,
    Arguments,
    Closure,
    Fresh,
    Known,
    Plain,
    Root,
    Value,
    join,
)


class Expressions(Operators):
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
        self.run_specials(join(held), ("__hash__", "__eq__"), node, frame)
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
                self.run_specials(self.evaluate(test, inner), TRUTH, node, frame)
        if isinstance(node, ast.DictComp):
            held = self.evaluate(node.key, inner) | self.evaluate(node.value, inner)
        else:
            held = self.evaluate(node.elt, inner)
        if isinstance(node, ast.DictComp | ast.SetComp):
            self.run_specials(held, ("__hash__", "__eq__"), node, frame)
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
        self.run_specials(source, ("__next__", "__len__"), node, frame)
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
        self.run_specials(index, ("__hash__", "__eq__", "__index__"), node, frame)
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
                self.run_specials(value, ("keys",), node, frame)
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
        self.run_specials(join(self.parts(node, frame)), ("__index__",), node, frame)
        return PLAIN

    def starred(self, node: ast.Starred, frame: Frame) -> Value:
        return self.iterate(self.evaluate(node.value, frame), node, frame)

    # -- what the statements provide

    @abstractmethod
    def assign(self, target: ast.expr, value: Value, frame: Frame) -> None:
        """Bind a target of an assignment."""


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
