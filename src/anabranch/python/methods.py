"""What a method does of which only the name is known."""

from __future__ import annotations

import ast
import datetime as dt
import decimal
import fractions
import functools
import itertools
import logging
import pathlib
import re
import types
import uuid
from abc import abstractmethod
from typing import Any

import numpy as np

from anabranch.graph.declarations import is_trusted
from anabranch.python.attributes import Changes
from anabranch.python.classes import class_of, classes_of
from anabranch.python.known import (
    CHANGING_METHODS,
    PLAIN_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
    arguments_written_by_method,
    is_pure,
)
from anabranch.python.objects import (
    CALLABLES,
    CONTAINERS,
    MISSING,
    class_attribute,
    field_names,
    is_scalar_type,
    is_users_class,
)
from anabranch.python.packages import Facts, facts_about
from anabranch.python.universe import Universe
from anabranch.python.values import (
    ELEMENTS,
    MADE,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Closure,
    Frame,
    Fresh,
    Input,
    Known,
    LibraryObject,
    Method,
    Plain,
    Root,
    Value,
    join,
    shown,
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
_GIVES_SAME = frozenset(
    [
        *("capitalize", "casefold", "center", "expandtabs", "ljust", "lower", "lstrip"),
        *("rjust", "rstrip", "strip", "swapcase", "title", "upper", "zfill"),
        *("removeprefix", "removesuffix"),
    ]
)
_RESULTS: dict[str, type] = {
    **dict.fromkeys(("hexdigest", "isoformat", "strftime", "decode"), str),
    **dict.fromkeys(("digest", "encode", "tobytes"), bytes),
    **dict.fromkeys(("weekday", "isoweekday", "bit_length", "toordinal"), int),
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
        self.opaque_sites: set[int] = set()  # of results of which nothing is known

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

    def _call_method(  # noqa: C901, PLR0911 - one return for each kind of method
        self, owner: Root, name: str, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        if isinstance(owner, Plain):
            return self._call_method_of_plain(owner, name, args, node, frame)
        if self._is_trusted(owner):
            given = Arguments([*args.positional, frozenset([owner])], args.keywords)
            given.rest = args.rest
            return self.opaque(given, node, frame)
        facts = facts_about(owner)
        if facts is not None:
            method = Method(owner, name)
            return self._call_known_method(facts, method, args, node, frame)
        is_changing = name in CHANGING_METHODS
        if not is_changing and not (name in PURE_METHODS and _may_have(owner, name)):
            self._call_arguments(args, node, frame)
            self.escape(args.all() | {owner}, node, frame)
            return self._unknown_method(name, node, frame)
        made = self._call_arguments(args, node, frame, _called(name, args))
        self.run_operators(args.all() | {owner}, node, frame)
        self.watch_lookup(owner, name, args, node, frame)
        self.watch_method(owner, name, args, node, frame)
        if _may_be_array(owner, self.universe):
            written = arguments_written_by_method(name, args)
            self.change(written, NOTHING, node, frame)
        self_and_parts = self.inside(frozenset([owner])) | args.all() | made
        if is_changing:
            stored = args.all() | self.inside(args.all())
            if name in _TAKES_ELEMENTS:
                stored = self.taken_in(args, node, frame)
            self.change(frozenset([owner]), stored, node, frame)
            return self_and_parts | PLAIN
        if name in PLAIN_METHODS:
            return _plain_result(owner, name)
        if isinstance(owner, Known) and is_scalar_type(owner.obj):
            return frozenset([Plain(owner.obj)])  # datetime.strptime and the like
        if name == "_replace" and class_of(owner) is not None:
            return self._replaced(owner, args, node, frame)
        if name == "from_iterable":  # chain.from_iterable: the elements of the elements
            self_and_parts = self.elements(args.all(), node, frame)
            self_and_parts = self.elements(self_and_parts, node, frame)
            return self.holding(itertools.chain, self_and_parts, node, frame)
        return self._result_of_method(owner, name, self_and_parts, node, frame)

    @abstractmethod
    def opaque(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Return what a call that we must believe to be pure may give."""

    @abstractmethod
    def log(self, args: Arguments, node: ast.AST, frame: Frame) -> Value:
        """Do what writing to a log does."""

    def _is_trusted(self, owner: Root) -> bool:
        """Tell whether an object is of a trusted package, or was made by one."""
        match owner:
            case Fresh(site) if site in self.opaque_sites:
                return True
            case Fresh(_, type() as kind) | Input(type() as kind):
                return not is_users_class(kind) and is_trusted(kind.__module__)
            case Known(obj=obj) if not isinstance(obj, type):
                return not is_users_class(type(obj)) and is_trusted(
                    type(obj).__module__
                )
        return False

    def _call_known_method(
        self,
        facts: Facts,
        method: Method,
        args: Arguments,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Call a method of a class of which the methods are known."""
        owner, name = method.owner, method.name
        if not facts.knows(name):
            self._call_arguments(args, node, frame)
            self.escape(args.all() | {owner}, node, frame)
            return self._unknown_method(name, node, frame)
        if type_of(owner) in LOGGERS:
            return self.log(args, node, frame)
        held = self.inside(frozenset([owner])) if facts.holds else NOTHING
        passed = Arguments([*args.positional, held], args.keywords, args.rest)
        made = self._call_arguments(passed, node, frame)
        self.run_operators(args.all() | held, node, frame)
        self.watch_iteration(args.all(), node, frame, given="known")
        self.change(args.keywords.get("out", NOTHING), NOTHING, node, frame)
        given = args.all() | self.inside(args.all())
        if name in facts.takes:
            self.change(args.all(), NOTHING, node, frame)
        if name in facts.changes or name in facts.takes or "inplace" in args.keywords:
            changed = frozenset([owner]) | (held if facts.through else NOTHING)
            self.change(changed, given, node, frame)
        if name in facts.gives:
            return PLAIN
        kind = type_of(owner) if facts.open else LibraryObject
        flat = all(isinstance(root, Plain) for root in self.reachable(held | given))
        fresh = self.fresh(node, frame, kind if flat or facts.open else None)
        # a table takes in what it is given, and copies lists
        kept = frozenset(root for root in held if not self._is_copied(root))
        held |= given | made | PLAIN
        self.heap.put(fresh.site, ELEMENTS, held | ({fresh} if facts.open else NOTHING))
        if facts.open and name not in _GIVES_ELEMENTS:
            return frozenset([fresh]) | kept | made | PLAIN
        return frozenset([fresh]) | held

    def _is_copied(self, root: Root) -> bool:
        """Tell whether a table that is made of a value shares nothing with it."""
        classes = classes_of(root, self.universe)
        return classes is not None and all(
            each in _COPIED or is_scalar_type(each) for each in classes
        )

    def _unknown_method(self, name: str, node: ast.AST, frame: Frame) -> Value:
        if name in _CLOCKS:
            at = self.at(node, frame)
            self.found.effect("impure", f"{shown(node)} reads a clock", at)
            return MADE
        text = f"calls the method {name}, of which nothing is known{ADVICE}"
        return self.unknown_package(text, NOTHING, node, frame)

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
            if name == "get" and all(issubclass(each, dict) for each in known):
                return self_and_parts | {Plain(type(None))}
            if name in _GIVES_PARTS:
                return self_and_parts | PLAIN
            kind = kind or self._kind_of_result(known, name, self_and_parts)
        fresh = self.fresh(node, frame, kind)
        held = _texts(owner) if name in _GIVES_TEXTS else self_and_parts
        if name in _SAME_KIND:
            self.remember_order(frozenset([owner]), fresh.site)
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
            known = owner.type in _VALUES_ONLY and name not in _CLOCKS
        if owner.type in (pathlib.Path, pathlib.PosixPath) and name == "replace":
            known = False  # it renames a file
        if not known:
            self.escape(args.all(), node, frame)
            return self._unknown_method(name, node, frame)
        if name not in _KINDS:
            return _plain_result(owner, name)
        fresh = self.fresh(node, frame, _KINDS[name])
        self.heap.put(fresh.site, ELEMENTS, _texts(owner))
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


_COPIED = (list, tuple, dict, range)
_GIVES_ELEMENTS = ("get", "item", "max", "min", "pop", "squeeze", "mode", "agg", "at")
_VALUES_ONLY = frozenset(  # no method of theirs changes anything
    [
        *(int, float, bool, complex, str, bytes, range, uuid.UUID, decimal.Decimal),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone, fractions.Fraction),
    ]
)
LOGGERS: tuple[type, ...] = (logging.Logger, logging.RootLogger)


def type_of(root: Root) -> type | None:
    """Return the class of a value that is known by more than its annotation."""
    match root:
        case Fresh(_, type() as kind) | Input(type() as kind):
            return kind
        case Known(obj=obj):
            return type(obj)
    return None


def _texts(owner: Root) -> Value:
    """Return the parts of a text: texts, or bytes where that may be its type."""
    if isinstance(owner, Plain) and owner.type in (str, bytes):
        return frozenset([Plain(owner.type)])
    return frozenset([Plain(str), Plain(bytes), Plain(type(None))])


def _plain_result(owner: Root, name: str) -> Value:
    """Return the number or text that a method gives, with its type if that is sure."""
    of_text = isinstance(owner, Plain) and owner.type in (str, bytes)
    if of_text and name in _GIVES_SAME:
        return frozenset([Plain(owner.type)])  # type: ignore[union-attr]
    if of_text and name in ("find", "rfind", "index", "rindex", "count"):
        return frozenset([Plain(int)])
    if name in _GIVES_SAME:
        return frozenset([Plain(str), Plain(bytes)])
    if name == "find" and not isinstance(owner, Plain | Known):
        return frozenset([Plain(int), owner])  # of an XML element: a part of it
    return frozenset([Plain(_RESULTS.get(name))])


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


def _may_be_array(owner: Root, universe: Universe) -> bool:
    """Tell whether a value may be an array, or something of a package that is like it."""
    classes = classes_of(owner, universe)
    own = {list, dict, set, frozenset, tuple, str, bytes, bytearray}
    return classes is None or not classes <= own


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
