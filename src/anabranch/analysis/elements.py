"""What a value that exists already is, what it holds, and what runs on access.

Only classes of the user's can run code here: `__getitem__`, `__iter__`, `__add__` and
so on are followed like calls. For a value of unknown type every class of the program
that defines the name is a candidate.
"""

from __future__ import annotations

import ast
import collections
import types
import typing
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, get_args, get_origin

import numpy as np

from anabranch.analysis.effects import Findings, Frame, Place, shown
from anabranch.analysis.known import (
    why_impure,
)
from anabranch.analysis.objects import (
    CALLABLES,
    CONTAINERS,
    class_attribute,
    contents,
    function_in,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_users_class,
    is_users_code,
)
from anabranch.analysis.universe import Universe, subclasses
from anabranch.analysis.values import (
    LOST,
    NOTHING,
    PLAIN,
    Arguments,
    Bound,
    Fresh,
    Input,
    Known,
    Lost,
    Plain,
    Root,
    Shared,
    Value,
    join,
)


class Elements(ABC):
    """The part of the interpreter that looks into values."""

    def __init__(self, universe: Universe) -> None:
        self.universe = universe
        self.found = Findings()
        self.heap = self.found.heap

    @abstractmethod
    def call(
        self, callee: Value, args: Arguments, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what a call gives, and record what it does."""

    def at(self, node: ast.AST, frame: Frame) -> Place:
        """Return the line of a node."""
        return Place(frame.file, getattr(node, "lineno", 0) or frame.node.lineno)  # type: ignore[attr-defined]

    def unknown(self, text: str, node: ast.AST, frame: Frame) -> Value:
        """Record that something cannot be followed."""
        self.found.effect("unknown", text, self.at(node, frame))
        return LOST

    def existing(self, obj: Any, text: str, node: ast.AST, frame: Frame) -> Value:
        """Return the value of an object that was there before the call."""
        if is_scalar(obj):
            return frozenset([Plain(type(obj))])
        if isinstance(obj, types.MethodType) and isinstance(
            obj.__func__, types.FunctionType
        ):
            owner = self.existing(obj.__self__, text, node, frame)
            return frozenset(Bound(root, obj.__func__) for root in owner)
        if (
            isinstance(obj, (*CALLABLES, *CONTAINERS, types.ModuleType))
            or is_instance_of_users(obj)
            or hasattr(type(obj), "__anabranch__")
        ):
            if not isinstance(obj, (*CALLABLES, types.ModuleType)):
                self.found.touch(text, obj, self.at(node, frame))
            return frozenset([Known(obj, text)])
        why = why_impure(type(obj))
        if why is not None:
            self.found.effect("impure", f"{text} {why}", self.at(node, frame))
            return LOST
        kind = type(obj).__name__
        return self.unknown(f"{text} is a {kind} that outlives the call", node, frame)

    def elements(self, value: Value, node: ast.AST, frame: Frame) -> Value:
        """Return what indexing or iterating a value may give."""
        return join(self._elements(root, node, frame) for root in value)

    def _elements(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        match root:
            case Fresh(site):
                ran = self._run_access(root, node, frame)
                return self.heap.elements(site) | ran
            case Input(kind):
                ran = self._run_access(root, node, frame)
                return frozenset([typed(element_type(kind))]) | ran
            case Known(obj=obj, text=text):
                return self._elements_of_existing(root, obj, text, node, frame)
            case Shared() | Lost():
                return frozenset([root])
        return PLAIN

    def _run_access(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        names = ("__getitem__", "__iter__", "__next__", "__missing__")
        return self.run_special(root, names, node, frame)

    def _elements_of_existing(
        self, root: Known, obj: Any, text: str, node: ast.AST, frame: Frame
    ) -> Value:
        inside = f"what lies in {text}"
        if isinstance(obj, collections.defaultdict):
            self.found.change(
                obj, f"reading {text} may add a key to it", self.at(node, frame)
            )
        ran = self._run_access(root, node, frame)
        if isinstance(obj, type):
            special = class_attribute(obj, "__class_getitem__")
            if isinstance(function_in(special), types.FunctionType):
                return self.unknown(f"{shown(node)} runs {text}", node, frame)
        if not isinstance(obj, CONTAINERS):
            return ran | frozenset([Shared(inside, id(obj))])
        held = contents(obj)
        if held is None:
            listed: Any = [] if isinstance(obj, np.ndarray) else obj
            kinds = set(map(type, listed))
            flat = kinds and all(map(is_scalar_type, kinds))
            return ran | (PLAIN if flat else frozenset([Shared(inside, id(obj))]))
        return ran | join(self.existing(each, inside, node, frame) for each in held)

    def inside(self, value: Value) -> Value:
        """Return what can be reached from a value in one step, running nothing."""
        found: set[Root] = set()
        for root in value:
            match root:
                case Fresh(site):
                    found |= self.heap.inside(site)
                case Input(kind):
                    found |= {typed(element_type(kind)), Input()}
                case Known(obj=obj, text=text) if not isinstance(obj, CALLABLES):
                    found.add(Shared(f"what lies in {text}", id(obj)))
                case Shared():
                    found.add(root)
        return frozenset(found)

    def run_special(
        self,
        root: Root,
        names: Iterable[str],
        node: ast.AST,
        frame: Frame,
        args: Arguments | None = None,
    ) -> Value:
        """Run the user's special methods that an operation on `root` may run."""
        if isinstance(root, Plain):
            return NOTHING
        ran: list[Value] = []
        for name in names:
            for function in self._candidates(root, name):
                callee: Value = frozenset([Bound(root, function)])
                given = args or Arguments(rest=frozenset([root, Plain()]))
                ran.append(self.call(callee, given, node, frame))
        return join(ran)

    def run_operators(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Run every special method that a builtin may run on a value."""
        for root in value:
            if isinstance(root, Input | Fresh | Known | Shared):
                for function in self.universe.operators():
                    args = Arguments(rest=value | PLAIN)
                    self.call(frozenset([Bound(root, function)]), args, node, frame)

    def _candidates(self, root: Root, name: str) -> list[types.FunctionType]:
        cls = class_of(root)
        if cls is None:
            unknown = isinstance(root, Input | Fresh | Shared)
            return self.universe.definitions(name) if unknown else []
        return [
            function
            for each in {cls, *subclasses(cls)}
            if isinstance(
                function := function_in(class_attribute(each, name)), types.FunctionType
            )
            and is_users_code(function.__code__)
        ]


def class_of(root: Root) -> type | None:
    """Return the class of the user's that a value is an instance of, if it is known."""
    match root:
        case Fresh(_, kind) | Input(kind):
            return kind if is_users_class(kind) else None
        case Known(obj=obj) if is_instance_of_users(obj):
            return type(obj)
    return None


def typed(kind: Any) -> Root:
    """Return the part of an input that has an annotation."""
    if is_scalar_type(kind):
        return Plain(kind)
    if getattr(kind, "_is_protocol", False):  # says what there is, not what it does
        return Input()
    if get_origin(kind) in (typing.Union, types.UnionType) and all(
        is_scalar_type(each) for each in get_args(kind)
    ):
        return Plain()
    return Input(kind)


def element_type(kind: Any) -> Any:
    """Return the annotated type of the elements of a container, or None.

    >>> element_type(list[int]), element_type(tuple[int, str]) is None
    (<class 'int'>, True)
    """
    args = [arg for arg in get_args(kind) if arg is not Ellipsis]
    if get_origin(kind) in (list, set, frozenset, tuple, collections.abc.Sequence):
        return args[0] if len(set(args)) == 1 else None
    return None
