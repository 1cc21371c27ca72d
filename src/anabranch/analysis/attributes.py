"""What an attribute of a value gives, and what reading it runs."""

from __future__ import annotations

import ast
import types
from typing import Any

from anabranch.analysis.classes import class_of, classes_of, typed
from anabranch.analysis.effects import Frame, shown
from anabranch.analysis.entries import Entries, Entry
from anabranch.analysis.known import (
    CHANGING_METHODS,
    PURE_METHODS,
    TEXT_METHODS,
    why_impure_module,
)
from anabranch.analysis.objects import (
    CONTAINERS,
    MISSING,
    class_attribute,
    field_names,
    function_in,
    instance_attribute,
    is_frozen_instance,
    is_instance_of_users,
    is_users_class,
    is_users_module,
)
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
    Method,
    Plain,
    Root,
    Shared,
    Value,
    join,
)
from anabranch.graph.types import fields_of

_METHODS = PURE_METHODS | CHANGING_METHODS


class Attributes(Entries):
    """The part of the interpreter that reads attributes."""

    # -- objects that exist already

    # -- elements

    def attribute(self, value: Value, name: str, node: ast.AST, frame: Frame) -> Value:
        """Return what an attribute of a value may be, running properties."""
        return join(self._attribute(root, name, node, frame) for root in value)

    def _attribute(self, root: Root, name: str, node: ast.AST, frame: Frame) -> Value:
        if name.startswith("__") and name.endswith("__") and name not in _METHODS:
            return self._attribute_of_any(name, node, frame)
        match root:
            case Fresh() | Input() | Shared():
                return self._attribute_of_value(root, name, node, frame)
            case Known():
                return self._attribute_of_existing(root, name, node, frame)
            case Plain():
                known = name in _METHODS or name in TEXT_METHODS
                return PLAIN.union([Method(root, name)] if known else [])
            case Lost():
                return LOST
        return self.unknown(f"{shown(node)} is an attribute of a function", node, frame)

    def _attribute_of_any(self, name: str, node: ast.AST, frame: Frame) -> Value:
        if name == "__class__":
            return frozenset([Shared("a class")])
        if name in ("__name__", "__qualname__", "__doc__"):
            return PLAIN
        return self.unknown(f"{shown(node)} reaches into an object", node, frame)

    def _attribute_of_value(
        self, root: Fresh | Input | Shared, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        held = self.field(root, name)
        cls = class_of(root)
        if cls is not None:
            if name in (field_names(cls) or ()):
                return held
            raw = class_attribute(cls, name)
            entry = Entry(raw, cls, name)
            others = self._overriding(root, entry, node, frame)
            if raw is not MISSING:
                own = (
                    self.heap.get(root.site, name)
                    if isinstance(root, Fresh)
                    else NOTHING
                )
                given = self.unwrapped(entry, root, node, frame)
                return own | others | given
            args = Arguments([PLAIN])
            return (
                others
                | held
                | self.run_special(root, ("__getattr__",), node, frame, args)
            )
        if classes_of(root, self.universe) is not None:
            return self._attribute_of_library(root, name, held, node, frame)
        ran = [
            frozenset([Bound(root, function)])
            if not self._is_property(name, function)
            else self.call(frozenset([Bound(root, function)]), Arguments(), node, frame)
            for function in self.universe.definitions(name)
        ]
        args = Arguments([PLAIN])
        hooks = ("__getattr__", "__getattribute__")
        ran.append(self.run_special(root, hooks, node, frame, args))
        method: Value = frozenset([Method(root, name)] if name in _METHODS else [])
        return held | method | join(ran)

    def _attribute_of_library(
        self,
        root: Fresh | Input | Shared,
        name: str,
        held: Value,
        node: ast.AST,
        frame: Frame,
    ) -> Value:
        """Return an attribute of a value that is no instance of the user's, or may be.

        It may be where the annotation is a base, as `dict`, of a class of the user's.
        """
        ran = [held]
        for cls in classes_of(root, self.universe) or ():
            raw = class_attribute(cls, name)
            if name in (field_names(cls) or ()):
                ran.append(frozenset([typed((fields_of(cls) or {}).get(name))]))
            elif is_users_class(cls) and raw is not MISSING:
                ran.append(self.unwrapped(Entry(raw, cls, name), root, node, frame))
        return join(ran).union([Method(root, name)] if name in _METHODS else [])

    def _overriding(
        self, root: Root, entry: Entry, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what subclasses, of which an input may be an instance, have instead."""
        if not isinstance(root, Input):
            return NOTHING
        found = [NOTHING]
        for each in self.universe.subclasses_of(entry.cls):
            other = class_attribute(each, entry.name)
            if other is not entry.raw and other is not MISSING:
                theirs = Entry(other, each, entry.name)
                found.append(self.unwrapped(theirs, root, node, frame))
        return join(found)

    def called_attribute(
        self, value: Value, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what `value.name(...)` calls.

        A value of unknown type has a method of that name, not a function in a field,
        unless some class of the program has such a field.
        """
        # A number or text among other values has no method that changes it.
        may_fail = name in CHANGING_METHODS and not all(
            isinstance(root, Plain) for root in value
        )
        found = self.attribute(value, name, node, frame).union(
            Method(root, name) for root in value if self._has_methods(root)
        )
        if may_fail:
            found -= {Method(root, name) for root in value if isinstance(root, Plain)}
        has_method = any(isinstance(r, Method) and r.name == name for r in found)
        if not has_method or self.universe.has_field(name):
            return found
        return frozenset(r for r in found if not isinstance(r, Input | Fresh | Shared))

    def _has_methods(self, root: Root) -> bool:
        """Tell whether a value has none but the methods of a type of Python's."""
        match root:
            case Plain(kind):
                return kind is not type(None)
            case Fresh() | Input():
                classes = classes_of(root, self.universe)
                return classes is not None and not any(map(is_users_class, classes))
        return False

    def _is_property(self, name: str, function: types.FunctionType) -> bool:
        raws = (vars(cls).get(name) for cls in self.universe.classes)
        return any(raw is not function and function_in(raw) is function for raw in raws)

    def _attribute_of_existing(  # noqa: PLR0911 - one return for each kind
        self, root: Known, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        obj = root.obj
        if isinstance(obj, types.ModuleType):
            return self._attribute_of_module(obj, name, node, frame)
        if isinstance(obj, type):
            raw = class_attribute(obj, name)
            if self._metaclass_decides(obj, name, found=raw is not MISSING):
                return self.unknown(f"{shown(node)} runs a metaclass", node, frame)
            if raw is MISSING:
                return frozenset([Method(root, name)])
            return self.unwrapped(Entry(raw, obj, name), None, node, frame)
        if isinstance(obj, types.FunctionType) and name in vars(obj):
            return self._held(root, name, vars(obj)[name], node, frame)
        if is_instance_of_users(obj):
            return self._attribute_of_instance(root, name, node, frame)
        return frozenset([Method(root, name)])

    def _metaclass_decides(self, cls: type, name: str, *, found: bool) -> bool:
        meta = type(cls)
        if not is_users_class(meta):
            return False
        raw = class_attribute(meta, name)
        hooks = ("__getattribute__",) if found else ("__getattribute__", "__getattr__")
        runs = any(self.candidates(Known(cls, cls.__name__), hook) for hook in hooks)
        return runs or (raw is not MISSING and not found) or hasattr(raw, "__set__")

    def _attribute_of_instance(
        self, root: Known, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        cls = type(root.obj)
        raw = class_attribute(cls, name)
        own = instance_attribute(root.obj, name)
        if own is not MISSING and not isinstance(raw, property):
            return self._held(root, name, own, node, frame)
        if raw is not MISSING:
            return self.unwrapped(Entry(raw, cls, name), root, node, frame)
        if self.candidates(root, "__getattr__"):
            args = Arguments([PLAIN])
            return self.run_special(root, ("__getattr__",), node, frame, args)
        return self.unknown(f"{shown(node)} is not an attribute yet", node, frame)

    def _held(
        self, root: Known, name: str, held: Any, node: ast.AST, frame: Frame
    ) -> Value:
        """Return what an existing object has as an attribute of its own."""
        if not is_frozen_instance(root.obj):
            self.found.read(name, None, held, self.at(node, frame))
        return self.existing(held, f"{root.text}.{name}", node, frame)

    def _attribute_of_module(
        self, module: types.ModuleType, name: str, node: ast.AST, frame: Frame
    ) -> Value:
        names = vars(module)
        is_users = is_users_module(module.__name__)
        found = names.get(name, MISSING)
        if found is MISSING and not is_users:  # a package may load its parts late
            found = getattr(module, name, MISSING)
        if found is MISSING:
            return self.unknown(f"{shown(node)} is not in its module", node, frame)
        if is_users:
            self.found.read(name, names, found, self.at(node, frame))
        elif isinstance(found, CONTAINERS) and (why := why_impure_module(module)):
            self.found.effect("impure", f"{shown(node)} {why}", self.at(node, frame))
        return self.existing(found, shown(node), node, frame)
