"""What a name stands for: local, captured, global or builtin; and super()."""

from __future__ import annotations

import ast
import builtins
import types
from typing import Any

from anabranch.analysis.calls import Calls
from anabranch.analysis.classes import class_of
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.entries import Entry
from anabranch.analysis.objects import (
    MISSING,
    class_attribute,
    is_users_code,
)
from anabranch.analysis.source import file_around, node_of
from anabranch.analysis.values import (
    NOTHING,
    Bound,
    Fresh,
    Known,
    Root,
    Value,
    join,
)
from anabranch.graph.custom import Operator


class Names(Calls):
    """The part of the interpreter that looks names up."""

    def name(self, node: ast.Name, frame: Frame) -> Value:
        """Look a name up: local, enclosing, captured, global, builtin."""
        name, scope = node.id, frame
        while True:
            if name in scope.declared_global:
                break
            if name in scope.own:
                return scope.variables.get(name, NOTHING)
            if scope.parent is None:
                break
            scope = scope.parent
        function = scope.function
        if name not in scope.declared_global and name in function.__code__.co_freevars:
            return self._captured(name, function, node, frame)
        if name in function.__globals__:
            value = function.__globals__[name]
            self.found.read(name, function.__globals__, value, self.at(node, frame))
            return self.existing(value, f"the global {name}", node, frame)
        if hasattr(builtins, name):
            return self.existing(getattr(builtins, name), name, node, frame)
        return self.unknown(f"the name {name} is not defined yet", node, frame)

    def _captured(
        self, name: str, function: types.FunctionType, node: ast.AST, frame: Frame
    ) -> Value:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        try:
            value = cell.cell_contents
        except ValueError:
            return self.unknown(f"the variable {name} has no value yet", node, frame)
        if name != "__class__":
            scope = self._enclosing(function)
            self.found.read(name, scope, value, self.at(node, frame))
        return self.existing(value, f"the captured variable {name}", node, frame)

    def _enclosing(self, function: types.FunctionType) -> Any:
        """Return the file and the outermost function around a function."""
        parsed = file_around(function.__code__)
        scope: Any = node_of(function.__code__)
        if parsed is None or scope is None:
            return None
        while isinstance(outer := parsed.enclosing.get(scope), ast.AST) and not (
            isinstance(outer, ast.Module)
        ):
            scope = outer
        return (parsed, scope)

    def _super(self, node: ast.Attribute, frame: Frame) -> Value:
        function = frame.function
        free = function.__code__.co_freevars
        outermost = frame
        while outermost.parent is not None:
            outermost = outermost.parent
        if "__class__" not in free or not isinstance(outermost.node, ast.FunctionDef):
            return self.unknown("super() cannot be followed here", node, frame)
        cls = (function.__closure__ or ())[free.index("__class__")].cell_contents
        first = next(iter(outermost.node.args.args), None)
        owners = (
            NOTHING if first is None else outermost.variables.get(first.arg, NOTHING)
        )
        found: list[Value] = []
        for owner in owners:
            kind = class_of(owner)
            if isinstance(owner, Fresh) and isinstance(owner.type, type):
                kind = owner.type
            if kind is None:
                return self.unknown("super() cannot be followed here", node, frame)
            raw = class_attribute(kind, node.attr, after=cls)
            found.append(self._inherited(raw, owner, kind, node, frame))
        return join(found)

    def _inherited(
        self, raw: Any, owner: Root, kind: type, node: ast.Attribute, frame: Frame
    ) -> Value:
        if raw is MISSING:
            return self.unknown(f"{shown(node)} is not defined", node, frame)
        if any(raw is each for each in vars(Operator).values()) or isinstance(
            raw, types.WrapperDescriptorType
        ):
            return frozenset([Known(Operator.setup, shown(node))])
        if isinstance(raw, types.FunctionType) and is_users_code(raw.__code__):
            return frozenset([Bound(owner, raw)])
        entry = Entry(raw, kind, node.attr)
        return self.unwrapped(entry, owner, node, frame)
