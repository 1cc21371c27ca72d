"""What differs from one process to the next although no code says so.

The hash of a text is drawn anew in every process, so a set of texts is gone through in
another order there; and an object without a `__repr__` of its own is shown with its
address. Numbers, and tuples of numbers, have the same hash everywhere.
"""

from __future__ import annotations

import ast
import copy
import types
from typing import Any, get_args, get_origin

from anabranch.analysis.classes import classes_of
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.elements import Elements
from anabranch.analysis.objects import contents
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    Arguments,
    Bound,
    Closure,
    Fresh,
    Input,
    Known,
    LibraryObject,
    Method,
    Plain,
    Root,
    Value,
)

_NUMBERS = (int, float, bool, complex)
_SETS = (set, frozenset)
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType)
# The result of these is the same for any order of what they are given.
ORDER_FREE = frozenset(
    map(
        id,
        (
            *(sorted, min, max, set, frozenset, len, any, all, bool, isinstance, type),
            *(issubclass, callable, hasattr, copy.copy, copy.deepcopy, sum),
        ),
    )
)
_SHOWING = frozenset(map(id, (str, repr, ascii, format)))
_TEXTS = ("__repr__", "__str__", "__format__")
# Methods that go through what they are given, or take what comes first.
_ORDERED_METHODS = frozenset(
    ["join", "extend", "extendleft", "update", "fromkeys", "format", "format_map"]
)


class Processes(Elements):
    """The part of the interpreter that looks for what depends on the process."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self.order_free: set[ast.AST] = set()  # comprehensions for such functions

    def watch_iteration(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Record that the order of a value's elements matters here."""
        if any(map(self._is_unordered, value)):
            text = (
                f"{shown(node)} depends on the order of a set, which differs from "
                "process to process; use sorted(...)"
            )
            self.found.effect("impure", text, self.at(node, frame))

    def watch_call(
        self, obj: Any, args: Arguments, node: ast.AST, frame: Frame
    ) -> None:
        """Look at what a function of Python's is given."""
        if id(obj) in _SHOWING:
            self.watch_text(args.all(), node, frame)
            return
        order_free = id(obj) in ORDER_FREE and "key" not in args.keywords
        if not order_free or (obj is sum and not self.are_whole_numbers(args)):
            self.watch_iteration(args.all(), node, frame)

    def watch_method(
        self, owner: Root, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> None:
        """Look at what a method is called on, and with."""
        classes = classes_of(owner, self.universe) or frozenset()
        of_set = bool(classes) and all(issubclass(each, _SETS) for each in classes)
        if name == "pop":
            self.watch_iteration(frozenset([owner]), node, frame)
        elif name in _ORDERED_METHODS and not of_set:
            self.watch_iteration(args.all(), node, frame)
        if name in ("format", "format_map"):
            self.watch_text(args.all(), node, frame)
        elif name in _TEXTS:
            self.watch_text(frozenset([owner]), node, frame)

    def watch_text(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Record that a value is shown as text, where that tells more than it should."""
        self.watch_iteration(self.operands(value), node, frame)
        for root in self.operands(value):
            if self._shows_address(root, inside=root not in value):
                text = f"{shown(node)} shows where an object lies in memory"
                self.found.effect("impure", text, self.at(node, frame))

    def _shows_address(self, root: Root, *, inside: bool) -> bool:
        if isinstance(root, Closure | Bound | Method):
            return True
        if isinstance(root, Known) and isinstance(root.obj, _FUNCTIONS):
            return True
        names = _TEXTS[:1] if inside else _TEXTS
        return any(
            cls is types.GeneratorType
            or all(getattr(cls, name) is getattr(object, name) for name in names)
            for cls in classes_of(root, self.universe) or ()
            if cls is not LibraryObject
        )

    def are_whole_numbers(self, args: Arguments) -> bool:
        """Tell whether a sum of the arguments is the same in any order."""
        return all(
            isinstance(each, Plain) and each.type in (int, bool)
            for root in args.all()
            for each in self.inside(frozenset([root]))
        )

    def _is_unordered(self, root: Root) -> bool:
        classes = classes_of(root, self.universe) or ()
        if not any(issubclass(each, _SETS) for each in classes):
            return False
        return not all(map(self._has_steady_hash, self._members(root)))

    def _members(self, root: Root) -> Value:
        match root:
            case Known(obj=obj):
                listed = contents(obj)
                if listed is None:
                    return frozenset([Plain()])
                return frozenset(
                    Known(each, "") if isinstance(each, tuple) else Plain(type(each))
                    for each in listed
                )
        return self.inside(frozenset([root]))

    def _has_steady_hash(self, root: Root) -> bool:
        match root:
            case Plain(kind):
                return kind in _NUMBERS
            case Fresh(_, kind) if kind is tuple:
                return all(map(self._has_steady_hash, self._members(root)))
            case Known(obj=tuple()):
                return all(map(self._has_steady_hash, self._members(root)))
            case Input(kind) if get_origin(kind) is tuple:
                return all(a in _NUMBERS for a in get_args(kind) if a is not Ellipsis)
        return False
