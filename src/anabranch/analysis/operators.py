"""What operators make of values, and what they run.

Operators of the user's classes are followed like calls; those of Python's own types give
a number, a text or a new object.
"""

from __future__ import annotations

import ast
from abc import abstractmethod

import numpy as np

from anabranch.analysis.classes import classes_of
from anabranch.analysis.effects import Frame
from anabranch.analysis.names import Names
from anabranch.analysis.objects import is_users_class
from anabranch.analysis.results import number
from anabranch.analysis.values import (
    ELEMENTS,
    PLAIN,
    Arguments,
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
TRUTH = ("__bool__", "__len__")
_TEXT = ("__format__", "__str__", "__repr__")
_UNARY = ("__neg__", "__pos__", "__invert__", *TRUTH)


class Operators(Names):
    """The part of the interpreter that applies operators."""

    @abstractmethod
    def evaluate(self, node: ast.expr, frame: Frame) -> Value:
        """Return what an expression may stand for, and record what it does."""

    def parts(self, node: ast.expr, frame: Frame) -> list[Value]:
        """Evaluate the expressions directly below a node."""
        below = (n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr))
        return [self.evaluate(each, frame) for each in below]

    def run_specials(
        self, value: Value, names: tuple[str, ...], node: ast.AST, frame: Frame
    ) -> Value:
        """Run special methods on whatever a value may be."""
        args = Arguments(rest=value | PLAIN)
        return join(self.run_special(root, names, node, frame, args) for root in value)

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
        ran = self.run_specials(
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
        ran = self.run_specials(value, _UNARY, node, frame)
        if isinstance(node.op, ast.Not):
            return frozenset([Plain(bool)])
        if all(isinstance(r, Plain) for r in value):
            return frozenset([number(value)])
        return frozenset([self.fresh(node, frame)]) | ran

    def boolean(self, node: ast.BoolOp, frame: Frame) -> Value:
        value = join(self.parts(node, frame))
        self.run_specials(value, TRUTH, node, frame)
        return value

    def compare(self, node: ast.Compare, frame: Frame) -> Value:
        value = join(self.parts(node, frame))
        names = _COMPARISONS
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return PLAIN
        ran = self.run_specials(value, names, node, frame)
        self.run_specials(self.operands(value) - value, names, node, frame)
        classes = [classes_of(root, self.universe) for root in value]
        if all(each is not None and np.ndarray not in each for each in classes):
            return ran | {Plain(bool)}
        kind = np.ndarray if all(each is not None for each in classes) else None
        return ran.union([Plain(bool), self.fresh(node, frame, kind)])

    def choice(self, node: ast.IfExp, frame: Frame) -> Value:
        test = self.evaluate(node.test, frame)
        self.run_specials(test, TRUTH, node, frame)
        return self.evaluate(node.body, frame) | self.evaluate(node.orelse, frame)

    def text(self, node: ast.JoinedStr | ast.FormattedValue, frame: Frame) -> Value:
        value = join(self.parts(node, frame))
        self.run_specials(self.operands(value), _TEXT, node, frame)
        self.watch_text(value, node, frame)
        return frozenset([Plain(str)])


def _may_be_text(root: Root) -> bool:
    return not isinstance(root, Plain) or root.type in (None, str, bytes)
