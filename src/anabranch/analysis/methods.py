"""What a method does of which only the name is known."""

from __future__ import annotations

import ast
import functools
import itertools
import re
import types
from abc import abstractmethod
from typing import Any

import numpy as np

from anabranch.analysis.changes import Changes
from anabranch.analysis.classes import class_of, classes_of
from anabranch.analysis.effects import Frame, shown
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
    field_names,
    is_scalar_type,
    is_users_class,
)
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    ELEMENTS,
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Closure,
    Fresh,
    Known,
    LibraryObject,
    Method,
    Plain,
    Root,
    Value,
    join,
)

ADVICE = "; say @ab.declare(state=...) on it or ab.trust(...) its package if it is pure"

_KEYS: type = type({}.keys())
_VALUES: type = type({}.values())
_ITEMS: type = type({}.items())
_GIVES_TEXTS = frozenset(
    ["split", "rsplit", "splitlines", "findall", "groups", "rpartition"]
)
_ALWAYS_FRESH = _GIVES_TEXTS | {
    *("join", "keys", "items", "copy", "tolist", "most_common", "_asdict"),
    *("partition", "union", "intersection", "difference", "astype", "flatten"),
    "symmetric_difference",
}
# Methods whose result is of the same type whoever has them, if it is Python's own.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("split", "rsplit", "splitlines", "findall", "finditer"), list),
    **dict.fromkeys(("tolist", "most_common"), list),
    **dict.fromkeys(("groups", "partition", "rpartition"), tuple),
    **dict.fromkeys(("match", "search", "fullmatch"), re.Match),
    **dict.fromkeys(("groupdict", "_asdict"), dict),
    "keys": _KEYS,
    "values": _VALUES,
    "items": _ITEMS,
}
_SAME_KIND = ("copy", "union", "intersection", "difference", "symmetric_difference")
_GIVES_PARTS = ("get", "group", "start", "end", "span")
_TAKES_ELEMENTS = ("extend", "extendleft", "update", "subtract")
_CLOCKS = ("now", "today", "utcnow")


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

    def _call_method(  # noqa: PLR0911 - one return for each kind of method
        self, owner: Root, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(owner, Plain):
            return self._call_method_of_plain(owner, name, args, node, frame)
        is_changing = name in CHANGING_METHODS
        if not is_changing and not (name in PURE_METHODS and _may_have(owner, name)):
            return self._unknown_method(name, node, frame)
        made = self._call_arguments(args, node, frame, _called(name, args))
        self.run_operators(args.all() | {owner}, node, frame)
        self.watch_method(owner, name, args, node, frame)
        self_and_parts = self.inside(frozenset([owner])) | args.all() | made
        if is_changing:
            stored = args.all() | self.inside(args.all())
            if name in _TAKES_ELEMENTS:
                stored = self.taken_in(args, node, frame)
            self.change(frozenset([owner]), stored, node, frame)
            return self_and_parts | PLAIN
        if name in PLAIN_METHODS:
            return PLAIN
        if isinstance(owner, Known) and is_scalar_type(owner.obj):
            return frozenset([Plain(owner.obj)])  # datetime.strptime and the like
        if name == "_replace" and class_of(owner) is not None:
            return self._replaced(owner, args, node, frame)
        if name == "from_iterable":  # chain.from_iterable: the elements of the elements
            self_and_parts = self.elements(args.all(), node, frame)
            self_and_parts = self.elements(self_and_parts, node, frame)
            return self.holding(itertools.chain, self_and_parts, node, frame)
        return self._result_of_method(owner, name, self_and_parts, node, frame)

    def _unknown_method(self, name: str, node: ast.AST, frame: Frame) -> Value:
        if name in _CLOCKS:
            at = self.at(node, frame)
            self.found.effect("impure", f"{shown(node)} reads a clock", at)
            return LOST
        text = f"calls the method {name}, of which nothing is known{ADVICE}"
        return self.unknown(text, node, frame)

    def taken_in(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return what a container takes over from others: elements, or pairs of them."""
        given = join(args.positional) | args.rest
        sources = frozenset(root for root in given if not is_callable(root))
        once = self.elements(sources, node, frame)
        named = join(args.keywords.values()) | args.rest | PLAIN
        return once | self.elements(once, node, frame) | named

    def _replaced(
        self, owner: Root, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Return a record with some fields replaced."""
        made = self.fresh(node, frame, class_of(owner))
        for name in field_names(class_of(owner)) or ():
            old = self.attribute(frozenset([owner]), name, node, frame)
            held = args.keywords.get(name, old) | args.rest
            self.heap.put(made.site, name, held)
            self.heap.put(made.site, ELEMENTS, held)
        return frozenset([made])

    def holding(self, kind: Any, held: Value, node: ast.AST, frame: Frame) -> Value:
        """Return an object that is made here and holds something."""
        fresh = self.fresh(node, frame, kind)
        self.heap.put(fresh.site, ELEMENTS, held)
        return frozenset([fresh])

    def _result_of_method(
        self,
        owner: Root,
        name: str,
        self_and_parts: Value,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        known = classes_of(owner, self.universe)
        kind: type | None = dict if name == "_asdict" else None
        if isinstance(owner, Known) and name in ("_make", "fromkeys"):
            kind = owner.obj
        if known is not None and not any(map(is_users_class, known)):
            if name in _GIVES_PARTS:
                return self_and_parts | PLAIN
            kind = kind or self._kind_of_result(known, name, self_and_parts)
        fresh = self.fresh(node, frame, kind)
        held = PLAIN if name in _GIVES_TEXTS else self_and_parts
        if kind is _ITEMS or name == "most_common":
            pair = self.made_at((node, "pair"), tuple)
            self.heap.put(pair.site, ELEMENTS, held | PLAIN)
            held = frozenset([pair])
        self.heap.put(fresh.site, ELEMENTS, held)
        if name in _ALWAYS_FRESH or kind is _VALUES:
            return frozenset([fresh])
        if isinstance(owner, Fresh):
            return frozenset([fresh]) | self_and_parts
        return frozenset([fresh, owner]) | self_and_parts

    def _kind_of_result(
        self, owners: frozenset[type], name: str, parts: Value
    ) -> type | None:
        """Return the class of what a method of Python's own types gives."""
        if name in _SAME_KIND and len(owners) == 1:
            return next(iter(owners))
        if np.ndarray in owners:
            return np.ndarray
        flat = all(isinstance(root, Plain) for root in self.reachable(parts))
        return _KINDS.get(name, LibraryObject if flat else None)

    def _call_method_of_plain(
        self, owner: Plain, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        self._call_arguments(args, node, frame, _called(name, args))
        self.run_operators(args.all(), node, frame)
        self.watch_method(owner, name, args, node, frame)
        if name in ("format", "format_map"):  # "{0.attribute}" reads attributes
            for root in self.operands(args.all()):
                classes = classes_of(root, self.universe)
                for getter in self.universe.properties(classes):
                    callee: Value = frozenset([Bound(root, getter)])
                    self.call(callee, Arguments(), node, frame)
        known = name in PURE_METHODS or name in TEXT_METHODS
        if not known and owner.type is not None:
            known = owner.type in (int, float, bool, complex, str, bytes, range)
        if not known:
            return self._unknown_method(name, node, frame)
        if name not in _KINDS:
            return PLAIN
        fresh = self.fresh(node, frame, _KINDS[name])
        self.heap.put(fresh.site, ELEMENTS, PLAIN)
        return frozenset([fresh]) | PLAIN

    def _call_arguments(
        self, args: Arguments, node: ast.AST, frame: Frame, called: Value = NOTHING
    ) -> Value:
        """Call the functions among the arguments: `map`, `sorted` and so on will.

        They may be passed whatever can be reached from the other arguments. `called`
        are the arguments that will be called, whatever they are.
        """
        results: list[Value] = [NOTHING]
        for root in called | frozenset(filter(is_callable, args.all())):
            under_way = (node, root)
            if under_way in self._passed_on or isinstance(root, Plain):
                continue
            self._passed_on.add(under_way)
            given = Arguments(rest=self.reachable(args.all() - {root}) | PLAIN)
            results.append(self.call_root(root, given, node, frame))
            self._passed_on.discard(under_way)
        return join(results)

    def made_at(self, place: Any, kind: Any) -> Fresh:
        """Return the object that is made at a place, a node or a part of one."""
        return Fresh(self.heap.site((place, kind)), kind)

    def fresh(self, node: ast.AST, frame: Frame, kind: Any = None) -> Fresh:
        """Return the object that is made at a node."""
        return self.made_at(node, kind)


def _called(name: str, args: Arguments) -> Value:
    """Return the arguments that a method calls: a key, or what stands in for text."""
    if name in ("sub", "subn") and args.positional:
        return args.positional[0]
    return args.keywords.get("key", NOTHING)


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
        case Fresh(_, kind):
            return kind is functools.partial
        case Known(obj=obj):
            if isinstance(obj, CALLABLES):
                return True
            return class_attribute(type(obj), "__call__") is not MISSING
    return False


def called(node: ast.AST) -> str:
    return shown(node.func) if isinstance(node, ast.Call) else shown(node)
