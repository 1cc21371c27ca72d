"""What a method does of which only the name is known."""

from __future__ import annotations

import ast
import types
from abc import abstractmethod
from typing import Any

from anabranch.analysis.changes import Changes
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.elements import class_of
from anabranch.analysis.known import (
    CHANGING_METHODS,
    PLAIN_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
    is_pure,
)
from anabranch.analysis.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
)
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    ELEMENTS,
    PLAIN,
    Arguments,
    Bound,
    Closure,
    Fresh,
    Known,
    Method,
    Plain,
    Root,
    Value,
)

ADVICE = "; say @ab.declare(state=...) on it or ab.trust(...) its package if it is pure"

_GIVES_TEXTS = frozenset(
    ["split", "rsplit", "splitlines", "findall", "groups", "rpartition"]
)

_ALWAYS_FRESH = _GIVES_TEXTS | {
    *("join", "keys", "items", "copy", "tolist", "most_common", "_asdict"),
    *("partition", "union", "intersection", "difference", "astype", "flatten"),
}


class Methods(Changes):
    """The part of the interpreter that calls methods by name."""

    def __init__(self, universe: Universe) -> None:
        super().__init__(universe)
        self._passed_on: set[tuple[ast.AST, Root]] = set()

    @abstractmethod
    def call_function(
        self,
        function: types.FunctionType | Closure,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Follow a call into a function whose source is the user's."""

    @abstractmethod
    def call_root(
        self, root: Root, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what calling one of the objects that a value may be gives."""

    def _call_method(
        self, owner: Root, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(owner, Plain):
            return self._call_method_of_plain(owner, name, args, node, frame)
        is_changing = name in CHANGING_METHODS
        if not is_changing and not (name in PURE_METHODS and _may_have(owner, name)):
            text = f"calls the method {name}, of which nothing is known{ADVICE}"
            return self.unknown(text, node, frame)
        self._call_arguments(args, node, frame)
        self.run_operators(args.all(), node, frame)
        self_and_parts = self.inside(frozenset([owner])) | args.all()
        if is_changing:
            stored = args.all() | self.inside(args.all())
            self.change(frozenset([owner]), stored, node, frame)
            return self_and_parts | PLAIN
        if name in PLAIN_METHODS:
            return PLAIN
        return self._result_of_method(owner, name, self_and_parts, node, frame)

    def _result_of_method(
        self, owner: Root, name: str, self_and_parts: Value, node: ast.AST, frame: Frame
    ) -> Value:
        kind = class_of(owner) if name == "_replace" else None
        if kind is None and isinstance(owner, Known) and name in ("_make", "fromkeys"):
            kind = owner.obj
        fresh = self.fresh(node, frame, kind)
        held = PLAIN if name in _GIVES_TEXTS else self_and_parts
        self.heap.put(fresh.site, ELEMENTS, held)
        if name in _ALWAYS_FRESH:
            return frozenset([fresh])
        if isinstance(owner, Fresh):
            return frozenset([fresh]) | self_and_parts
        return frozenset([fresh, owner]) | self_and_parts

    def _call_method_of_plain(
        self, owner: Plain, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        self._call_arguments(args, node, frame)
        self.run_operators(args.all(), node, frame)
        if name in ("format", "format_map"):  # "{0.attribute}" reads attributes
            for root in args.all() - PLAIN:
                for getter in self.universe.properties():
                    self.call(
                        frozenset([Bound(root, getter)]), Arguments(), node, frame
                    )
        known = name in PURE_METHODS or name in TEXT_METHODS
        if not known and owner.type is not None:
            known = owner.type in (int, float, bool, complex, str, bytes, range)
        if not known:
            text = f"calls the method {name}, of which nothing is known{ADVICE}"
            return self.unknown(text, node, frame)
        fresh = self.fresh(node, frame)
        self.heap.put(fresh.site, ELEMENTS, PLAIN)
        return frozenset([fresh]) | PLAIN

    def _call_arguments(self, args: Arguments, node: ast.AST, frame: Frame) -> None:
        """Call the functions among the arguments: `map`, `sorted` and so on will.

        They may be passed whatever can be reached from the other arguments.
        """
        everything = self._reachable(args.all())
        for root in filter(is_callable, args.all()):
            under_way = (node, root)
            if under_way in self._passed_on:
                continue
            self._passed_on.add(under_way)
            given = Arguments(rest=everything | PLAIN)
            result = self.call_root(root, given, node, frame)
            self._passed_on.discard(under_way)
            self.heap.put(self.fresh(node, frame).site, ELEMENTS, result)

    def _reachable(self, value: Value) -> Value:
        while not (more := self.inside(value)) <= value:
            value |= more
        return value

    def fresh(self, node: ast.AST, frame: Frame, kind: Any = None) -> Fresh:
        """Return the object that is made at a node."""
        return Fresh(self.heap.site((node, kind)), kind)


def _may_have(owner: Root, name: str) -> bool:
    """Tell whether a captured object is of a type that we know the methods of."""
    if not isinstance(owner, Known):
        return True
    if isinstance(owner.obj, type):
        return is_pure(owner.obj) or name in ("_make", "fromkeys")
    return isinstance(owner.obj, CONTAINERS)


def is_callable(root: Root) -> bool:
    match root:
        case Closure() | Bound() | Method():
            return True
        case Known(obj=obj):
            if isinstance(obj, CALLABLES):
                return True
            return class_attribute(type(obj), "__call__") is not MISSING
    return False


def called(node: ast.AST) -> str:
    return shown(node.func) if isinstance(node, ast.Call) else shown(node)
