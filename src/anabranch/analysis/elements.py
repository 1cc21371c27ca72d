"""What a value that exists already is, what it holds, and what runs on access.

Only classes of the user's can run code here: `__getitem__`, `__iter__`, `__add__` and
so on are followed like calls. For a value of unknown type every class of the program
that defines the name is a candidate.
"""

from __future__ import annotations

import ast
import collections
import enum
import types
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from anabranch.analysis.classes import (
    classes_of,
    member_of,
    parts_of_annotation,
)
from anabranch.analysis.effects import Findings, Frame, Place, shown
from anabranch.analysis.known import why_impure
from anabranch.analysis.objects import (
    CALLABLES,
    CONTAINERS,
    class_attribute,
    contents,
    function_in,
    holds_set,
    is_instance_of_users,
    is_scalar,
    is_scalar_type,
    is_users_code,
    parts_of_object,
    types_in,
)
from anabranch.analysis.universe import Universe
from anabranch.analysis.values import (
    LOST,
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
        if is_scalar(obj) and not holds_set(obj):
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
            foreign = self.universe.foreign_part(obj)
            if foreign is not None:
                return self.unknown(f"{text} holds a {foreign}", node, frame)
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
                return ran.union(parts_of_annotation(kind, self.universe))
            case Known(obj=obj, text=text):
                return self._elements_of_existing(root, obj, text, node, frame)
            case Shared() | Lost():
                return frozenset([root])
        return PLAIN

    def _run_access(self, root: Root, node: ast.AST, frame: Frame) -> Value:
        names = ("__getitem__", "__iter__", "__next__", "__missing__")
        ran = self.run_special(root, names, node, frame)
        return ran | self.inside(ran)  # what `__iter__` gives is gone through

    def _elements_of_existing(
        self, root: Known, obj: Any, text: str, node: ast.AST, frame: Frame
    ) -> Value:
        inside = f"what lies in {text}"
        if isinstance(obj, collections.defaultdict):
            self.found.change(
                obj, f"reading {text} may add a key to it", self.at(node, frame)
            )
        ran = self._run_access(root, node, frame)
        if isinstance(obj, type) and issubclass(obj, enum.Enum):
            return ran | frozenset([member_of(obj)])
        if isinstance(obj, type):
            special = class_attribute(obj, "__class_getitem__")
            if isinstance(function_in(special), types.FunctionType):
                return self.unknown(f"{shown(node)} runs {text}", node, frame)
        if not isinstance(obj, CONTAINERS):
            return ran | frozenset([Shared(inside, id(obj))])
        held = contents(obj)
        if held is None:
            kinds = types_in(obj)
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
                    found.update(parts_of_annotation(kind, self.universe))
                case Known(obj=obj, text=text) if not isinstance(obj, CALLABLES):
                    found |= self._inside_existing(obj, f"what lies in {text}")
                case Shared():
                    found.add(root)
        return frozenset(found)

    def _inside_existing(self, obj: Any, text: str) -> Value:
        if isinstance(obj, np.ndarray) and not obj.dtype.hasobject:
            return PLAIN
        listed = contents(obj) if isinstance(obj, CONTAINERS) else None
        if listed is not None and all(map(is_scalar, listed)):
            return frozenset(Plain(type(each)) for each in listed)
        return frozenset([Shared(text, id(obj))])

    def reachable(self, value: Value) -> Value:
        """Return a value with all that can be reached from it, running nothing."""
        while not (more := self.inside(value)) <= value:
            value |= more
        return value

    def operands(self, value: Value) -> Value:
        """Return whatever a builtin may apply operators to; only their classes count.

        Of an object that exists this is what it holds now, of others what they may.
        """
        found: set[Root] = set()
        waiting = list(value)
        while waiting:
            root = waiting.pop()
            if root in found:
                continue
            found.add(root)
            if not isinstance(root, Known):
                waiting.extend(self.inside(frozenset([root])))
            elif (listed := parts_of_object(root.obj)) is not None:
                waiting.extend(Known(each, root.text) for each in listed)
            elif isinstance(root.obj, CONTAINERS):
                waiting.append(Shared(root.text, id(root.obj)))
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
        ran: list[Value] = []
        for name in names:
            for function in self.candidates(root, name):
                callee: Value = frozenset([Bound(root, function)])
                given = args or Arguments(rest=frozenset([root, Plain()]))
                ran.append(self.call(callee, given, node, frame))
        return join(ran)

    def run_operators(self, value: Value, node: ast.AST, frame: Frame) -> None:
        """Run every special method that a builtin may run on a value or its parts."""
        args = Arguments(rest=self.reachable(value) | PLAIN)
        for root in self.operands(value):
            classes = classes_of(root, self.universe)
            for function in self.universe.operators(classes):
                self.call(frozenset([Bound(root, function)]), args, node, frame)

    def candidates(self, root: Root, name: str) -> list[types.FunctionType]:
        """Return the functions of the user's that `name` may mean for a value."""
        classes = classes_of(root, self.universe)
        if classes is None:
            return self.universe.definitions(name)
        return [
            function
            for each in classes
            if isinstance(
                function := function_in(class_attribute(each, name)), types.FunctionType
            )
            and is_users_code(function.__code__)
        ]
