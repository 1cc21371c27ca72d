"""What an expression may stand for, and what its operators run.

What operators make of values, and what they run.

Operators of the user's classes are followed like calls; those of Python's own types give
a number, a text or a new object.
"""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.python.calls import Names
from anabranch.python.classes import classes_of
from anabranch.python.elements import ORDER_FREE
from anabranch.python.known import CHANGING_METHODS
from anabranch.python.library import number
from anabranch.python.objects import MISSING, class_attribute, is_users_class
from anabranch.python.source import COMPREHENSIONS, outer_expressions, target_names
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    NOTHING,
    PLAIN,
    Arguments,
    Closure,
    Frame,
    Fresh,
    Known,
    LibraryObject,
    Plain,
    Root,
    Value,
    join,
    shown,
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
_EQUALITY = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
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

    def run_hashing(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Run what a lookup by a key, or by a tuple of keys, runs."""
        names = ("__hash__", "__eq__")
        self.run_specials(self.operands(value), names, node, frame)

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
        fresh = self.fresh(node, frame, self._kind_of_both(both, name))
        self.heap.put(fresh.site, ELEMENTS, self.inside(both))
        if fresh.type is set:
            self.remember_order(both, fresh.site)
        return frozenset([fresh]) | ran

    def _kind_of_both(self, both: Value, name: str) -> type | None:
        """Return the class of what an operator makes of two values of Python's own.

        Instances of the user's classes without the operator can be no operands of it.
        """
        kinds: set[type] = set()
        for root in both:
            classes = classes_of(root, self.universe)
            if classes is None:
                return None
            own = {each for each in classes if is_users_class(each)}
            if any(_has_operator(each, name) for each in own):
                return None
            kinds |= classes - own
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
        parts = self.parts(node, frame)
        value = join(parts)
        names = _COMPARISONS
        for left, op, right in zip(parts, node.ops, parts[1:], strict=False):
            if isinstance(op, ast.Is | ast.IsNot):
                self.watch_identity(left, right, node, frame)
        if all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return PLAIN
        if any(isinstance(op, _EQUALITY) for op in node.ops):
            inside = any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)
            numbers = frozenset(root for root in value if _is_number(root))
            self.watch_equality(value if inside else value - numbers, node, frame)
        ran = self.run_specials(value, names, node, frame)
        self.run_specials(self.operands(value) - value, names, node, frame)
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            # without `__contains__` the container is gone through
            self.run_specials(
                value, ("__iter__", "__next__", "__getitem__"), node, frame
            )
            self.elements(value, node, frame)
        if len(node.ops) > 1 or any(
            isinstance(o, ast.In | ast.NotIn) for o in node.ops
        ):
            self.run_specials(ran, TRUTH, node, frame)
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


def _has_operator(cls: type, name: str) -> bool:
    names = (f"__{name}__", f"__r{name}__", f"__i{name}__")
    return any(class_attribute(cls, each) is not MISSING for each in names)


def _leaves_traces(node: ast.AST) -> bool:
    """Tell whether a comprehension may show in which order it went through something."""
    return any(
        isinstance(each, ast.NamedExpr)
        or (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and each.func.attr in CHANGING_METHODS
        )
        for each in ast.walk(node)
    )


def _has_at(root: Root, key: Any) -> bool:
    """Tell whether a table that exists already, of Python's own, has an entry."""
    match root:
        case Known(obj=dict() as obj) if type(obj) is dict:
            return type(key) in (str, int, bytes) and key in obj
        case Known(obj=list() | tuple() as obj) if type(obj) in (list, tuple):
            return type(key) is int and -len(obj) <= key < len(obj)
    return False


def _is_number(root: Root) -> bool:
    """Tell whether a value is a captured NaN: `==` to it is false wherever it runs."""
    return isinstance(root, Known) and isinstance(root.obj, float)


def _may_be_text(root: Root) -> bool:
    return not isinstance(root, Plain) or root.type in (None, str, bytes)


class Expressions(Operators):
    """The part of the interpreter that evaluates expressions."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self.growth = 0  # how often a variable gained a possibility
        self.raised = NOTHING  # exceptions that existed before they were raised
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
                self.run_specials(given, ("keys",), node, frame)
                held.append(self.elements(given, node, frame))
            else:
                held.extend((self.evaluate(key, frame), given))
        self.run_hashing(join(held), node, frame)
        return self._made(node, frame, dict, join(held))

    def _made(self, node: ast.AST, frame: Frame, kind: Any, held: Value) -> Value:
        fresh = self.fresh(node, frame, kind)
        self.heap.put(fresh.site, ELEMENTS, held)
        return frozenset([fresh])

    def comprehension(self, node: Any, frame: Frame) -> Value:
        inner = self.frame_of_comprehension(node, frame)
        sources = []
        for index, generator in enumerate(node.generators):
            if generator.is_async:
                self.unknown("async for cannot be followed", node, frame)
            source = self.evaluate(generator.iter, frame if index == 0 else inner)
            sources.append(source)
            free = isinstance(node, ast.SetComp) or node in self.order_free
            free = free and not _leaves_traces(node)
            found = self.gone_through(source, node, frame, ordered=not free)
            self.assign(generator.target, found, inner)
            for test in generator.ifs:
                self.run_specials(self.evaluate(test, inner), TRUTH, node, frame)
        if isinstance(node, ast.DictComp):
            held = self.evaluate(node.key, inner) | self.evaluate(node.value, inner)
        else:
            held = self.evaluate(node.elt, inner)
        if isinstance(node, ast.DictComp | ast.SetComp):
            self.run_hashing(held, node, frame)
        if isinstance(node, ast.SetComp):
            self.watch_nans(held, node, frame)
            self.remember_order(join(sources), self.heap.site((node, set)))
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
        self.run_specials(index, ("__index__",), node, frame)
        captured = frozenset(root for root in value if isinstance(root, Known))
        self.run_hashing(index | captured, node, frame)
        self.watch_equality(index | captured, node, frame)
        match node.slice:
            case ast.Constant(value=key) if all(_has_at(r, key) for r in value):
                text = f"what lies in {shown(node.value)}"
                held = (r.obj[key] for r in value if isinstance(r, Known))
                return join(self.existing(each, text, node, frame) for each in held)
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
    def assign(
        self, target: ast.expr, value: Value, frame: Frame, *, anew: bool = False
    ) -> None:
        """Bind a target of an assignment; `anew`: whatever it was before."""


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
